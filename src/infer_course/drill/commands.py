"""`infer-course drill`: builds today's sitting and holds it in the terminal, or prints it as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from infer_course.drill import lab_records, memory, plan, queue, screen
from infer_course.drill.choices import KindOption, LevelOption, PartOption, SetOption, TagOption, as_filter, cards_of
from infer_course.drill.keys import TerminalKeys, interactive
from infer_course.drill.progress import Progress
from infer_course.drill.progress_file import PATH_VARIABLE, ProgressFile
from infer_course.drill.queue import DrillCard, Filter, Mode, Queue
from infer_course.drill.statistics import statistics
from infer_course.drill.terminal import Sitting, now_ms
from infer_course.drill.today import day_of, days_until, start_of_day
from infer_course.errors import CourseError
from infer_course.graph import Graph, load
from infer_course.loader import find_root

RootOption = Annotated[Path | None, typer.Option("--root", help="The checkout; by default the one that contains the current folder.")]
FileOption = Annotated[
    Path | None, typer.Option("--file", help=f"The progress file; by default ${PATH_VARIABLE}, else in your own data folder.")
]


class DrillError(CourseError):
    """The drill cannot be held here; the message says where it can."""


def graph_of(root: Path | None) -> Graph:
    return load(root.resolve() if root else find_root(Path.cwd().resolve()))


def drill(
    part: PartOption = None,
    kind: KindOption = None,
    level: LevelOption = None,
    tag: TagOption = None,
    chosen_set: SetOption = None,
    mode: Annotated[str, typer.Option(help="recall: seconds a question; explain: the minutes of an interview, with a clock.")] = "recall",
    new: Annotated[int | None, typer.Option(min=0, help="New questions today; by default the plan's, else 10.")] = None,
    minutes: Annotated[int | None, typer.Option(min=1, help="Stop asking when about this much time is filled.")] = None,
    measurements: Annotated[bool, typer.Option("--measurements/--no-measurements", help="Look for your own lab records here.")] = True,
    file: FileOption = None,
    root: RootOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print today's questions as JSON and ask nothing.")] = False,
) -> None:
    """Drill the questions that are due, then new ones. Space reveals, 1 to 4 grade, ? lists the keys.

    Due dates are the same as on the site's drill page; `infer-course progress` exports and imports what both keep. `--mode explain` runs a
    clock against the minutes of each question. Where a question has a number, yours is asked first.
    """
    if mode not in ("recall", "explain"):
        raise DrillError(f"there is no mode `{mode}`: it is recall or explain")
    how: Mode = "explain" if mode == "explain" else "recall"
    graph, kept = graph_of(root), ProgressFile(file)
    cards = cards_of(graph)
    today = _Today(cards, kept.load(), as_filter(graph, cards, part, kind, level, tag, chosen_set), now_ms())
    built = today.queue(how, new, minutes)
    if as_json:
        print(json.dumps(today.as_json(graph, built, how), ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    if built.cards and not interactive():
        raise DrillError("the drill asks in a terminal, and this is none. `--json` prints the questions; the site has a drill page")
    if measurements:
        _take_in_records(console, graph, kept)
    if chosen_set and (planned := [card_id for card_id in graph.sets[chosen_set].cards if card_id in graph.planned]):
        console.print(f"[dim]{len(planned)} of the {len(graph.sets[chosen_set].cards)} questions of this set are not written yet.[/dim]")
    if not built.cards:
        console.print(today.nothing(built))
        return
    console.print(today.says(built, how))
    with TerminalKeys() as keys:
        sitting = Sitting(graph, cards, built.cards, how, kept, keys, console)
        sitting.run()
    forecast = statistics(cards, sitting.progress.reviews, start_of_day(now_ms()))["forecast"]
    screen.summary(console, sitting.grades, sitting.seconds, forecast, str(kept.path))


class _Today:
    """What the log says about the chosen cards at this moment."""

    def __init__(self, cards: tuple[DrillCard, ...], progress: Progress, chosen: Filter, now: int) -> None:
        self.cards, self.progress, self.chosen, self.now = cards, progress, chosen, now
        self.start = start_of_day(now)
        self.memories = memory.replay(progress.reviews)

    def queue(self, mode: Mode, new: int | None, minutes: int | None) -> Queue:
        limit = self.planned() if new is None else new
        return queue.build(self.cards, self.memories, self.start, chosen=self.chosen, mode=mode, new=limit, minutes=minutes)

    def planned(self) -> int:
        """New questions today: what the plan gives when an interview is coming, nothing on its day."""
        left = self.days_left()
        if left is None or left < 0:
            return queue.NEW_A_DAY
        made = plan.make(self.cards, self.memories, self.start, left, self.progress.minutes_per_day, self.chosen)
        return len(made.days[0].new) if made.days else 0

    def days_left(self) -> int | None:
        day = self.progress.interview_date
        return None if day is None else days_until(day, self.now)

    def says(self, built: Queue, mode: Mode) -> str:
        held_back = built.all_due - len(built.due)
        later = f" (and {held_back} more that do not fit)" if held_back else ""
        time = f"about {max(1, built.seconds // 60)} min to {mode}"
        return f"[bold]{len(built.due)} due{later}, {len(built.new)} new[/bold], {time}.{self._interview()}"

    def nothing(self, built: Queue) -> str:
        inside = [card for card in self.cards if self.chosen.matches(card)]
        if not inside:
            return "No question that is written matches; `infer-course stats` counts what there is."
        due = [self.memories[card.id].due for card in inside if card.id in self.memories]
        comes = f" The next comes back on {day_of(min(due)):%A, %d %B}." if due else ""
        begun = sum(memory.first >= self.start for memory in self.memories.values())
        more = f" {built.all_new} are new: `--new {begun + min(built.all_new, 10)}` asks some of them today." if built.all_new else ""
        return f"Nothing is due.{comes}{more}{self._interview()}"

    def as_json(self, graph: Graph, built: Queue, mode: Mode) -> dict[str, Any]:
        def row(card_id: str) -> dict[str, Any]:
            card = graph.cards[card_id]
            due = self.memories[card_id].due if card_id in self.memories else None
            return {"id": card.id, "title": card.title.en, "part": card.part, "kind": card.kind, "level": card.level, "due": due}

        return {
            "day": day_of(self.now).date().isoformat(),
            "mode": mode,
            "interview_date": self.progress.settings.get("interview_date"),
            "due": [row(card_id) for card_id in built.due],
            "new": [row(card_id) for card_id in built.new],
            "all_due": built.all_due,
            "all_new": built.all_new,
            "seconds": built.seconds,
        }

    def _interview(self) -> str:
        left = self.days_left()
        if left is None:
            return ""
        if left <= 0:
            return " Your interview is today." if left == 0 else " The day of your interview has passed."
        return f" {left} day{'s' if left > 1 else ''} until your interview."


def _take_in_records(console: Console, graph: Graph, kept: ProgressFile) -> None:
    known = {(record["id"], record["date"]) for record in kept.load().measurements}
    found = [record for record in lab_records.find(graph.root) if (record["id"], record["date"]) not in known]
    if found:
        kept.update(lambda progress: progress.with_measurements(found))
        names = ", ".join(f"{record['id']} of {record['date'][:10]}" for record in found)
        console.print(f"Your own lab records are in your progress now: {names}.")
