"""One sitting in the terminal: question, your number, answer, rubric, grade, follow-ups. Every grade is on the disk at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from infer_course.asked import Asked, asked_of
from infer_course.drill import estimate, memory, queue, screen
from infer_course.drill.grading import suggestion
from infer_course.drill.keys import Keys
from infer_course.drill.progress import Progress, ProgressError
from infer_course.drill.progress_file import ProgressFile
from infer_course.drill.queue import DrillCard, Mode
from infer_course.graph import Graph
from infer_course.nodes import Card

REVEAL = ("space", "enter")
SKIP = ("j", "s")
BACK = ("k", "u")
NUMBER_BEGINS = "0123456789.~≈+-"


class Leave(Exception):
    """The reader wants to stop."""


@dataclass
class Review:
    """What is known of the card in hand."""

    started: float
    seconds: float = 0.0
    estimate: float | None = None
    ticked: set[str] = field(default_factory=set)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Sitting:
    """Asks `todo` in order. `now` gives ms since 1970 and `ticks` seconds of a clock that only goes forward; tests give their own."""

    def __init__(
        self,
        graph: Graph,
        cards: Sequence[DrillCard],
        todo: Sequence[str],
        mode: Mode,
        file: ProgressFile,
        keys: Keys,
        console: Console,
        now: Callable[[], int] = now_ms,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        self.graph, self.mode, self.file, self.keys, self.console = graph, mode, file, keys, console
        self.cards = {card.id: card for card in cards}
        self.todo = tuple(todo)
        self.now, self.ticks = now, ticks
        self.progress = file.load()
        self.memories = memory.replay(self.progress.reviews)
        self.done: list[tuple[Mapping[str, Any], tuple[str, ...]]] = []
        """Reviews of this sitting, each with what was to be asked before it: what taking one back restores."""
        self.led_here = ""
        """The question whose good answer brought the next one forward."""
        self.began = ticks()

    def run(self) -> None:
        """Until nothing is left or the reader leaves. Ctrl-C leaves as q does."""
        try:
            while self.todo:
                self._ask(self.todo[0])
        except (Leave, KeyboardInterrupt, EOFError):
            self.console.print()

    @property
    def grades(self) -> list[tuple[str, int]]:
        return [(review["card"], review["rating"]) for review, _ in self.done]

    @property
    def seconds(self) -> float:
        return self.ticks() - self.began

    def _ask(self, card_id: str) -> None:
        card = self.graph.cards[card_id]
        place = f"{len(self.done) + 1} of {len(self.done) + len(self.todo)}"
        screen.question(self.console, card, place, self.memories.get(card_id), self.now(), self.led_here)
        review = Review(self.ticks())
        asked = asked_of(card, self.graph)
        if not self._wait(card, review, asked):
            return
        if asked is not None and review.estimate is not None and card.estimate is not None:
            judged = _again(review.estimate, card, asked)
            self.console.print(screen.said_of(judged, asked.answer, card.estimate.tolerance), highlight=False)
        screen.answer(self.console, self.graph, card, chinese=False)
        screen.own_figures(self.console, self.graph, card, self.progress.measurements)
        rating = self._grade(card, review)
        if rating is None:
            return
        kept = self._keep(card, review, rating)
        if rating >= memory.GOOD:
            self._chain(card, kept)

    def _wait(self, card: Card, review: Review, asked: Asked | None) -> bool:
        """Until the answer is wanted: True. False when the question was skipped or the last grade taken back."""
        units = ", ".join(name for name, _ in asked.choices if name) if asked else ""
        if asked:
            self.console.print(f"[dim]Your number first{f', in {units}' if units else ''}: just type it. Then Space[/dim]")
        elif self.mode == "recall":
            self.console.print("[dim]Answer aloud, then Space. ? lists the keys[/dim]")
        while True:
            pressed = self._timed(card, review) if self.mode == "explain" else self._pressed()
            if pressed in REVEAL:
                review.seconds = self.ticks() - review.started
                return True
            if asked and pressed and pressed in NUMBER_BEGINS:
                self._number(card, asked, review, pressed)
            if pressed in SKIP:
                self.todo = (*self.todo[1:], self.todo[0])
                return False
            if pressed in BACK and self._take_back():
                return False

    def _number(self, card: Card, asked: Asked, review: Review, typed: str) -> None:
        """The reader's number, from its first sign on; Esc forgets it. Whether it is right is said with the answer."""
        assert card.estimate is not None
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while typed:
                live.update(Text(f"Your number: {typed}\u2581"), refresh=True)
                pressed = self.keys.key() or ""
                if pressed == "enter":
                    break
                if pressed in ("esc", "backspace"):
                    typed = typed[:-1] if pressed == "backspace" else ""
                elif pressed == "space" or len(pressed) == 1:
                    typed += " " if pressed == "space" else pressed
        if not typed:
            return
        judged = estimate.judge(typed, card.estimate.unit, card.estimate.tolerance, asked.choices)
        if judged.value is None:
            self.console.print(f"{escape(typed)}? {screen.said_of(judged, asked.answer, card.estimate.tolerance)}", highlight=False)
        else:
            review.estimate = judged.value
            self.console.print(f"Your number: [bold]{escape(typed)}[/bold]. Say how you came to it, then Space.", highlight=False)

    def _timed(self, card: Card, review: Review) -> str:
        """Shows the time that runs against the card's minutes while it waits for a key."""
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while True:
                spent = self.ticks() - review.started
                over = spent > card.minutes * 60
                line = Text(f"{screen.clock(spent)} of {screen.clock(card.minutes * 60)}", style="yellow" if over else "cyan")
                live.update(line.append("  Explain it aloud as to an interviewer, then Space.", style="dim"), refresh=True)
                pressed = self.keys.key(1.0)
                if pressed is not None:
                    break
        return self._common(pressed)

    def _grade(self, card: Card, review: Review) -> int | None:
        """The grade 1 to 4, while items of the rubric are ticked; None when the last grade was taken back instead."""
        items = dict(zip(screen.RUBRIC_KEYS, (item.id for item in screen.in_order(card)), strict=False))
        days = screen.intervals(self.memories.get(card.id), self.now())
        chinese = False
        while True:
            pressed = self._tick(card, review, items, days)
            pressed = self._common(pressed)
            if pressed in ("1", "2", "3", "4"):
                return int(pressed)
            if pressed == "enter" and (suggested := suggestion(self.cards[card.id], review.ticked)):
                return suggested
            if pressed == "z":
                chinese = not chinese
                screen.answer(self.console, self.graph, card, chinese)
            elif pressed == "m":
                screen.more(self.console, self.graph, card)
            elif pressed in BACK and self._take_back():
                return None

    def _tick(self, card: Card, review: Review, items: Mapping[str, str], days: Sequence[int]) -> str:
        """Ticks items until another key is pressed. A checklist higher than the screen cannot be redrawn in place: its changes are said."""

        def shown() -> RenderableType:
            return screen.rubric(self.graph, card, review.ticked, days, suggestion(self.cards[card.id], review.ticked))

        fits = len(self.console.render_lines(shown())) + 2 < self.console.size.height  # a suggestion takes a line
        with Live(shown(), console=self.console, auto_refresh=False, vertical_overflow="visible") as live:
            if not fits:
                live.stop()
            while (pressed := self.keys.key() or "") in items:
                review.ticked ^= {items[pressed]}
                if fits:
                    live.update(shown(), refresh=True)
                else:
                    says = screen.suggested(suggestion(self.cards[card.id], review.ticked))
                    self.console.print(f"{pressed} {'ticked' if items[pressed] in review.ticked else 'not ticked'}{says}", highlight=False)
        return pressed

    def _chain(self, card: Card, review: Mapping[str, Any]) -> None:
        """Answered well: the interviewer goes deeper, one question at a time, until one is not answered."""
        chain = card.follow_up_questions
        for number, asked in enumerate(chain, 1):
            screen.follow_up(self.console, self.graph, asked.question, number, len(chain))
            self.console.print("[dim]Space shows the answer; j goes on to the next question[/dim]")
            while (pressed := self._pressed()) not in (*REVEAL, *SKIP, "esc"):
                pass
            if pressed not in REVEAL:
                return
            screen.markdown(self.console, self.graph, asked.answer)
            self.console.print("[dim]Had you answered it? y goes deeper, n ends the chain[/dim]")
            while (pressed := self._pressed()) not in ("y", "n", "esc", *SKIP, *REVEAL):
                pass
            answered = number if pressed in ("y", *REVEAL) else number - 1
            self._write({**review, "follow_ups_asked": number, "follow_ups_answered": answered})
            if answered < number:
                return

    def _keep(self, card: Card, review: Review, rating: int) -> Mapping[str, Any]:
        kept = {
            "card": card.id,
            "at": self.now(),
            "rating": rating,
            "mode": self.mode,
            "seconds": round(review.seconds),
            "rubric": [item.id for item in card.rubric if item.id in review.ticked],
            "estimate": None if review.estimate is None else float(f"{review.estimate:.6g}"),
        }
        self.done.append((kept, self.todo))
        self._write(kept)
        self.memories[card.id] = memory.after(self.memories.get(card.id), kept["at"], rating)
        rest = self.todo[1:]
        self.todo = queue.after_grade(rest, self.cards[card.id], rating)
        self.led_here = card.title.en if rating >= memory.GOOD and self.todo[:1] != rest[:1] else ""
        return kept

    def _take_back(self) -> bool:
        if not self.done:
            self.console.print("[dim]There is no grade to take back.[/dim]")
            return False
        taken, self.todo = self.done.pop()
        place = (taken["card"], taken["at"])

        def without(progress: Progress) -> Progress:
            return replace(progress, reviews=tuple(r for r in progress.reviews if (r["card"], r["at"]) != place))

        self.progress = self.file.update(without)
        self.memories = memory.replay(self.progress.reviews)
        self.console.print("[dim]The last grade is taken back.[/dim]")
        return True

    def _write(self, review: Mapping[str, Any]) -> None:
        """Onto the disk. If the file was damaged meanwhile, what was done here goes into a new file, and the error says which."""
        ours = self.progress.with_reviews([review])
        try:
            self.progress = self.file.update(lambda progress: progress.with_reviews([review]))
        except ProgressError as error:
            raise ProgressError(f"{error}. What you did until now is in {self.file.rescue(ours)}") from None

    def _pressed(self) -> str:
        return self._common(self.keys.key() or "")

    def _common(self, pressed: str) -> str:
        """Keys that mean the same everywhere."""
        if pressed == "q":
            raise Leave
        if pressed == "?":
            screen.help_table(self.console)
        return pressed


def _again(value: float, card: Card, asked: Asked) -> estimate.Judged:
    """The verdict on a number that is already in the card's own unit."""
    assert card.estimate is not None
    ratio = value / asked.value
    right = abs(ratio - 1) <= card.estimate.tolerance + 1e-9
    return estimate.Judged("right" if right else "off", value, ratio, card.estimate.unit)
