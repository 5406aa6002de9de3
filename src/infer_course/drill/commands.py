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
    graph = graph_of(root)
    cards = cards_of(graph)
    chosen = as_filter(graph, cards, part, kind, level, tag, chosen_set)
    kept = ProgressFile(file)
    progress, now = kept.load(), now_ms()
    limit = new if new is not None else _new_today(cards, progress, now, chosen)
    built = _build(cards, progress, now, chosen, "explain" if mode == "explain" else "recall", limit, minutes)
    if as_json:
        print(json.dumps(_as_json(graph, progress, built, mode, now), ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    if built.cards and not interactive():
        raise DrillError(
            "the drill asks in a terminal, and this is none. `--json` prints the questions; the site has the same drill as a page"
        )
    if measurements:
        _take_in_records(console, graph, kept)
    if not built.cards:
        console.print(_nothing(cards, progress, chosen, built, now))
        return
    _say_what_comes(console, progress, built, mode, now)
    with TerminalKeys() as keys:
        sitting = Sitting(graph, cards, built.cards, "explain" if mode == "explain" else "recall", kept, keys, console)
        sitting.run()
    forecast = statistics(cards, sitting.progress.reviews, start_of_day(now_ms()))["forecast"]
    screen.summary(console, sitting.grades, sitting.seconds, forecast, str(kept.path))


def _build(cards: tuple[DrillCard, ...], progress: Progress, now: int, chosen: Filter, mode: Mode, new: int, minutes: int | None) -> Queue:
    return queue.build(cards, memory.replay(progress.reviews), start_of_day(now), chosen=chosen, mode=mode, new=new, minutes=minutes)


def _new_today(cards: tuple[DrillCard, ...], progress: Progress, now: int, chosen: Filter) -> int:
    """What the plan gives today when an interview is coming; nothing new on its day."""
    day = progress.interview_date
    if day is None or days_until(day, now) < 0:
        return queue.NEW_A_DAY
    memories = memory.replay(progress.reviews)
    made = plan.make(cards, memories, start_of_day(now), days_until(day, now), progress.minutes_per_day, chosen)
    return len(made.days[0].new) if made.days else 0


def _take_in_records(console: Console, graph: Graph, kept: ProgressFile) -> None:
    known = {(record["id"], record["date"]) for record in kept.load().measurements}
    found = [record for record in lab_records.find(graph.root) if (record["id"], record["date"]) not in known]
    if found:
        kept.update(lambda progress: progress.with_measurements(found))
        names = ", ".join(f"{record['id']} of {record['date'][:10]}" for record in found)
        console.print(f"Your own lab records are in your progress now: {names}.")


def _say_what_comes(console: Console, progress: Progress, built: Queue, mode: str, now: int) -> None:
    held_back = built.all_due - len(built.due)
    later = f" (and {held_back} more that do not fit)" if held_back else ""
    days = f" {_days_left(progress, now)}" if progress.interview_date else ""
    console.print(
        f"[bold]{len(built.due)} due{later}, {len(built.new)} new[/bold], about {max(1, built.seconds // 60)} min to {mode}.{days}"
    )


def _days_left(progress: Progress, now: int) -> str:
    assert progress.interview_date is not None
    left = days_until(progress.interview_date, now)
    if left < 0:
        return "Your interview's day has passed."
    return "Your interview is today." if left == 0 else f"{left} day{'s' if left > 1 else ''} until your interview."


def _nothing(cards: tuple[DrillCard, ...], progress: Progress, chosen: Filter, built: Queue, now: int) -> str:
    inside = [card for card in cards if chosen.matches(card)]
    if not inside:
        return "No question that is written matches; `infer-course stats` counts what there is."
    memories = memory.replay(progress.reviews)
    due = [memories[card.id].due for card in inside if card.id in memories]
    comes = f" The next comes back on {day_of(min(due)):%A, %d %B}." if due else ""
    more = f" {built.all_new} are new: `--new {min(built.all_new, 10)}` asks some of them today." if built.all_new else ""
    return f"Nothing is due.{comes}{more}"


def _as_json(graph: Graph, progress: Progress, built: Queue, mode: str, now: int) -> dict[str, Any]:
    memories = memory.replay(progress.reviews)

    def row(card_id: str) -> dict[str, Any]:
        card = graph.cards[card_id]
        due = memories[card_id].due if card_id in memories else None
        return {"id": card.id, "title": card.title.en, "part": card.part, "kind": card.kind, "level": card.level, "due": due}

    return {
        "day": day_of(now).date().isoformat(),
        "mode": mode,
        "interview_date": progress.settings.get("interview_date"),
        "due": [row(card_id) for card_id in built.due],
        "new": [row(card_id) for card_id in built.new],
        "all_due": built.all_due,
        "all_new": built.all_new,
        "seconds": built.seconds,
    }
