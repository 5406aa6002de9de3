"""The interview in the terminal: clarify, estimate, explain, follow-ups after what was missing, report. Ctrl-C leads to the report, too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown
from rich.rule import Rule
from rich.text import Text

from infer_course.asked import asked_of
from infer_course.drill import estimate, screen
from infer_course.drill.keys import Keys
from infer_course.graph import Graph
from infer_course.mock.choose import Interview
from infer_course.mock.report import Answered, answer_of, items_of, question_of, said, scores_of
from infer_course.mock.score import Asked, Reply, follow_ups
from infer_course.nodes import Card

REPLY_KEYS: Mapping[str, Reply] = {"y": "yes", "p": "partly", "n": "no"}


class Leave(Exception):
    """The reader ends the interview."""


class Room:
    """Asks the questions of `interview`. `ticks`: seconds of a clock that only goes forward; tests give their own."""

    def __init__(
        self, graph: Graph, interview: Interview, level: str, keys: Keys, console: Console, ticks: Callable[[], float] = time.monotonic
    ) -> None:
        self.graph, self.interview, self.level = graph, interview, level
        self.keys, self.console, self.ticks = keys, console, ticks
        self.answers: list[Answered] = []

    def run(self) -> list[Answered]:
        """Until the last question, or until the reader leaves; a question whose answer was shown counts, others do not."""
        try:
            for number, card_id in enumerate(self.interview.cards, 1):
                self._ask(self.graph.cards[card_id], f"Question {number} of {len(self.interview.cards)}")
        except (Leave, KeyboardInterrupt, EOFError):
            self.console.print()
        return self.answers

    def _ask(self, card: Card, place: str) -> None:
        answer = Answered(card.id)
        self.console.print()
        self.console.print(Rule(f"[dim]{place}[/dim]", align="left", style="dim"))
        self.console.print(Text(card.title.en, style="bold"))
        self.console.print(Text(card.title.zh, style="dim"))
        answer.clarified = self._typed("What would you ask first, or assume? (Enter: nothing)")
        self._estimate(card, answer)
        if not self._explain(card, answer):
            return
        self.answers.append(answer)
        screen.answer(self.console, self.graph, card, chinese=False)
        self._tick(card, answer)
        for item, chain in follow_ups(items_of(card.rubric), frozenset(answer.ticked), self.level, len(card.follow_up_questions)):
            self._follow_up(card, answer, item, chain)
        self.console.print(f"[dim]{said(scores_of(self.graph, [answer], self.level)[card.id])}[/dim]", highlight=False)

    def _estimate(self, card: Card, answer: Answered) -> None:
        asked = asked_of(card, self.graph)
        if asked is None or card.estimate is None:
            return
        units = ", ".join(name for name, _ in asked.choices if name)
        while typed := self._typed(f"Your estimate{f' ({units})' if units else ''}; Enter goes without:"):
            judged = estimate.judge(typed, card.estimate.unit, card.estimate.tolerance, asked.choices)
            words = screen.said_of(judged, asked.answer, card.estimate.tolerance)
            self.console.print(words, highlight=False)
            if judged.value is not None:
                answer.estimate, answer.verdict = judged.value, f"{typed}. {Text.from_markup(words).plain}"
                return
        answer.verdict = f"none given; it is {asked.answer}"

    def _explain(self, card: Card, answer: Answered) -> bool:
        """The clock runs until Space; j leaves the question out."""
        self.console.print("[dim]Explain it aloud; Space ends. j leaves it out, q ends the interview[/dim]")
        began = self.ticks()
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while True:
                spent = self.ticks() - began
                style = "yellow" if spent > card.minutes * 60 else "cyan"
                live.update(Text(f"{screen.clock(spent)} of {screen.clock(card.minutes * 60)}", style=style), refresh=True)
                pressed = self._pressed(1.0)
                if pressed in ("space", "enter", "j"):
                    answer.seconds = self.ticks() - began
                    return pressed != "j"

    def _tick(self, card: Card, answer: Answered) -> None:
        """What the answer had, ticked by letter until Space."""
        names = dict(zip(screen.RUBRIC_KEYS, (item.id for item in screen.in_order(card)), strict=False))
        self.console.print(screen.checklist(self.graph, card, answer.ticked))
        self.console.print("[dim]Tick what you said, by its letter; Space goes on[/dim]")
        while (pressed := self._pressed()) not in ("space", "enter"):
            if pressed in names:
                answer.ticked ^= {names[pressed]}
                self.console.print(f"{pressed} {'ticked' if names[pressed] in answer.ticked else 'not ticked'}", highlight=False)

    def _follow_up(self, card: Card, answer: Answered, item: str | None, chain: int | None) -> None:
        self.console.print(Text("\nThe interviewer goes on:", style="dim"))
        self.console.print(Markdown(f"**{question_of(self.graph, card.id, item, chain)}**"))
        self.console.print("[dim]Answer aloud, then Space[/dim]")
        while self._pressed() not in ("space", "enter"):
            pass
        shown = answer_of(self.graph, card.id, item, chain)
        if shown is None and item is not None:
            shown = "What the rubric wants: " + next(i.text for i in card.rubric if i.id == item)
        screen.markdown(self.console, self.graph, shown or "")
        self.console.print("[dim]Had you answered it? y yes, p partly, n no[/dim]")
        while (pressed := self._pressed()) not in REPLY_KEYS:
            pass
        answer.asked.append(Asked(item, chain, REPLY_KEYS[pressed]))

    def _typed(self, prompt: str) -> str:
        """A line, key by key, so that Ctrl-C and the end of input mean the same as everywhere; Esc empties it."""
        typed = ""
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            while True:
                live.update(Text(f"{prompt} ", style="dim").append(f"{typed}\u2581", style="not dim"), refresh=True)
                pressed = self.keys.key() or ""
                if pressed == "enter":
                    break
                if pressed in ("esc", "backspace"):
                    typed = typed[:-1] if pressed == "backspace" else ""
                elif pressed == "space" or len(pressed) == 1:
                    typed += " " if pressed == "space" else pressed
        self.console.print(Text(f"{prompt} ", style="dim").append(typed, style="not dim bold"))
        return typed.strip()

    def _pressed(self, seconds: float | None = None) -> str:
        pressed = self.keys.key(seconds) or ""
        if pressed == "q":
            raise Leave
        return pressed


def reviews(graph: Graph, answers: list[Answered], level: str, now: int) -> list[dict[str, Any]]:
    """The questions as reviews of the drill's log, one millisecond apart so that each has its own time."""
    points = scores_of(graph, answers, level)
    return [
        {
            "card": answer.card,
            "at": now + number,
            "rating": points[answer.card].rating,
            "mode": "explain",
            "seconds": round(answer.seconds),
            "rubric": [item.id for item in graph.cards[answer.card].rubric if item.id in answer.ticked],
            "mock": True,
            "estimate": None if answer.estimate is None else float(f"{answer.estimate:.6g}"),
        }
        for number, answer in enumerate(answers)
    ]
