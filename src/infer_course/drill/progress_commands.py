"""`infer-course progress`: shows, exports, imports and plans what the drill keeps."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infer_course.drill import lab_records, memory, plan
from infer_course.drill.choices import KindOption, LevelOption, PartOption, SetOption, TagOption, as_filter, cards_of
from infer_course.drill.commands import FileOption, RootOption, graph_of
from infer_course.drill.progress import MAX_MINUTES_PER_DAY, Progress, ProgressError, dumps, loads, merge
from infer_course.drill.progress_file import ProgressFile
from infer_course.drill.queue import DrillCard
from infer_course.drill.screen import clock
from infer_course.drill.statistics import statistics
from infer_course.drill.terminal import now_ms
from infer_course.drill.today import day_of, days_until, start_of_day
from infer_course.graph import Graph
from infer_course.shown import count

progress_app = typer.Typer(no_args_is_help=True, help="Show, export, import and plan what the drill keeps.")
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


@progress_app.command()
def show(file: FileOption = None, root: RootOption = None, as_json: JsonOption = False) -> None:
    """What is due, what is remembered, how far each part is covered, and where the weak spots are."""
    kept = ProgressFile(file)
    progress, graph = kept.load(), graph_of(root)
    found = statistics(cards_of(graph), progress.reviews, start_of_day(now_ms()))
    if as_json:
        settings = {**progress.settings, "measurements": [record["id"] for record in progress.measurements]}
        print(json.dumps({"file": str(kept.path), **settings, **found}, ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    console.print(f"[bold]{found['due']} due today[/bold], then {', '.join(map(str, found['forecast'][1:]))} on the days after.")
    console.print(f"{found['seen']} of {found['cards']} questions seen, {found['solid']} solid (remembered for three weeks or more).")
    for name, when in (("retention_30_days", "in the last 30 days"), ("retention", "in all")):
        kept_in_mind = found[name]
        if kept_in_mind["asked"]:
            share = 100 * kept_in_mind["remembered"] // kept_in_mind["asked"]
            console.print(f"Remembered after a day or more, {when}: {kept_in_mind['remembered']} of {kept_in_mind['asked']} ({share} %).")
    if found["estimates"]["given"]:
        console.print(f"Numbers put down first: {found['estimates']['right']} of {found['estimates']['given']} within tolerance.")
    spent, lately = clock(found["seconds"]), clock(found["seconds_last_7_days"])
    console.print(f"{count(found['reviews'], 'review')}, {spent} of answering; {lately} in the last week.")
    _parts(console, found)
    _weak(console, graph, found)
    if progress.measurements:
        console.print(f"Your own measurements: {', '.join(record['id'] for record in progress.measurements)}.")
    console.print(f"[dim]{escape(str(kept.path))}[/dim]", soft_wrap=True)


@progress_app.command("export")
def export_file(
    to: Annotated[Path, typer.Argument(metavar="FILE", help="Where to; - prints it.")],
    file: FileOption = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
) -> None:
    """Write everything that the drill keeps into FILE, for the drill page or another machine."""
    progress = ProgressFile(file).load()
    if str(to) == "-":
        print(dumps(progress), end="")
        return
    if to.exists() and not force:
        raise ProgressError(f"{to} exists: name another file, or replace it with --force")
    try:
        to.write_text(dumps(progress), encoding="utf-8")
    except OSError as error:
        raise ProgressError(f"{to} cannot be written: {error}") from None
    print(f"{_holds(progress)} written to {to}. Import it on the drill page, or elsewhere with `infer-course progress import {to.name}`.")


@progress_app.command("import")
def import_files(
    paths: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Exports of the drill, or measurement records of your own labs.")],
    file: FileOption = None,
) -> None:
    """Merge FILE into what is kept here: a union, so nothing is lost and nothing counts twice."""
    read = [_read(path) for path in paths]
    kept = ProgressFile(file)
    before = kept.load()

    def merged(progress: Progress) -> Progress:
        for other in read:
            progress = merge(progress, other)
        return progress

    after = kept.update(merged)
    new = (len(after.reviews) - len(before.reviews), len(after.measurements) - len(before.measurements))
    print(f"{count(new[0], 'new review')} and {count(new[1], 'new measurement')}. Now kept in {kept.path}: {_holds(after)}.")


@progress_app.command("plan")
def plan_days(
    interview_date: Annotated[str | None, typer.Option(help="The day of the interview, such as 2026-12-20; `none` forgets it.")] = None,
    minutes_per_day: Annotated[int | None, typer.Option(min=1, max=MAX_MINUTES_PER_DAY, help="What you have for it each day.")] = None,
    part: PartOption = None,
    kind: KindOption = None,
    level: LevelOption = None,
    tag: TagOption = None,
    chosen_set: SetOption = None,
    file: FileOption = None,
    root: RootOption = None,
    as_json: JsonOption = False,
) -> None:
    """Fill the days until the interview with new questions and the reviews that they bring, and say what does not fit.

    The date and the minutes are kept, and the drill then brings each day's share. Reviews are reckoned as if you always answered well.
    """
    graph = graph_of(root)
    cards = cards_of(graph)
    chosen = as_filter(graph, cards, part, kind, level, tag, chosen_set)
    kept, now = ProgressFile(file), now_ms()
    changed: dict[str, Any] = {}
    if interview_date is not None:
        changed["interview_date"] = None if interview_date == "none" else _day(interview_date, now).isoformat()
    if minutes_per_day is not None:
        changed["minutes_per_day"] = minutes_per_day
    progress = kept.update(lambda found: found.with_settings(now, **changed)) if changed else kept.load()
    day = progress.interview_date
    if day is None:
        if interview_date == "none":
            print("No interview date is kept any more.")
            return
        raise ProgressError("no interview date is known: `infer-course progress plan --interview-date 2026-12-20` plans towards one")
    left = days_until(day, now)
    if left < 0:
        raise ProgressError(f"{day} has passed: `--interview-date` takes the next one, `--interview-date none` forgets it")
    made = plan.make(cards, memory.replay(progress.reviews), start_of_day(now), left, progress.minutes_per_day, chosen)
    first = day_of(now).date()
    if as_json:
        days = [{**_day_as_json(planned), "date": (first + datetime.timedelta(planned.day)).isoformat()} for planned in made.days]
        whole = {"interview_date": day.isoformat(), "minutes_per_day": made.minutes_per_day, "fits": made.fits, "days": days}
        print(json.dumps({**whole, "left_out": made.left_out, "late": made.late, "minutes_that_fit": made.minutes_that_fit}, indent=2))
        return
    _show_plan(Console(highlight=False), graph, cards, made, first, day)


def _show_plan(
    console: Console, graph: Graph, cards: tuple[DrillCard, ...], made: plan.Plan, first: datetime.date, interview: datetime.date
) -> None:
    if not made.days:
        console.print("[bold]The interview is today.[/bold] Nothing new now: go once through what you know, and leave early enough.")
        return
    console.print(f"[bold]{count(len(made.days), 'day')} until {interview:%A, %d %B %Y}[/bold], {made.minutes_per_day} minutes each.")
    table = Table("day", "new questions", "reviews", "minutes")
    for column in table.columns[1:]:
        column.justify = "right"
    for planned in made.days:
        if not planned.seconds and not planned.late:
            continue
        late = f" (+{planned.late} late)" if planned.late else ""
        date = first + datetime.timedelta(planned.day)
        table.add_row(
            f"{date:%a %d %b}", str(len(planned.new) or ""), f"{len(planned.reviews) or ''}{late}", str(-(-planned.seconds // 60))
        )
    console.print(table)
    if any(not planned.seconds and not planned.late for planned in made.days):
        console.print("[dim]On the days that are not listed there is nothing to do yet.[/dim]")
    console.print("[dim]Reviews are reckoned as if you always answered well; each day's plan starts from what you really did.[/dim]")
    today = made.days[0].new
    if today:
        console.print("New today:")
        for card_id in today:
            console.print(f"  {escape(graph.cards[card_id].title.en)} [dim]{card_id}[/dim]")
    begun = sum(len(planned.new) for planned in made.days)
    if made.fits:
        console.print(f"[green]It fits[/green]: {count(begun, 'new question')}, the last day for repeating only.")
        return
    if made.left_out:
        console.print(
            f"[yellow]It does not fit[/yellow]: {begun} of {begun + len(made.left_out)} new questions find a place. To drop first:"
        )
        for card_id in made.left_out[:-6:-1]:
            card = graph.cards[card_id]
            console.print(f"  {escape(card.title.en)} [dim]{card.level}, part {card.part}[/dim]")
        if len(made.left_out) > 5:
            console.print(f"  and {len(made.left_out) - 5} more, senior questions and later parts first")
    if made.late:
        console.print(f"[yellow]{count(made.late, 'review')} of what you know would come late.[/yellow]")
    enough = made.minutes_that_fit
    console.print(
        f"Everything fits with {enough} minutes a day." if enough else "Not even eight hours a day would do: choose parts, levels or a set."
    )


def _parts(console: Console, found: dict[str, Any]) -> None:
    table = Table("part", "questions", "seen", "solid", "due")
    for column in table.columns[1:]:
        column.justify = "right"
    for row in found["parts"]:
        table.add_row(*(str(row[name]) for name in ("part", "cards", "seen", "solid", "due")))
    console.print(table)


def _weak(console: Console, graph: Graph, found: dict[str, Any]) -> None:
    if found["weak_tags"]:
        tags = ", ".join(f"{row['tag']} ({row['weak']} of {row['seen']})" for row in found["weak_tags"][:5])
        console.print(f"Last graded forgot or hard, by subject: {tags}.")
    if found["weak_items"]:
        console.print("Missed most often on the rubrics (a red flag: ticked):")
        for row in found["weak_items"][:5]:
            item = next(item for item in graph.cards[row["card"]].rubric if item.id == row["item"])
            console.print(f"  {row['missed']} of {row['asked']}: {escape(item.text)} [dim]{row['card']}[/dim]")


def _read(path: Path) -> Progress:
    """An export, or a measurement record, as progress."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProgressError(f"{path} cannot be read: {error}") from None
    if '"schema"' in text and '"inference-lab-progress"' not in text:
        return Progress().with_measurements([lab_records.read(path)])
    return loads(text, str(path))


def _day(text: str, now: int) -> datetime.date:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        raise ProgressError(f"`{text}` is no day: write it as 2026-12-20") from None
    if days_until(day, now) < 0:
        raise ProgressError(f"{day} has passed")
    return day


def _day_as_json(planned: plan.Day) -> dict[str, Any]:
    return {"day": planned.day, "new": planned.new, "reviews": planned.reviews, "late": planned.late, "seconds": planned.seconds}


def _holds(progress: Progress) -> str:
    return f"{count(len(progress.reviews), 'review')} and {count(len(progress.measurements), 'measurement')}"
