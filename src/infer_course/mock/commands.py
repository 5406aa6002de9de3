"""`infer-course mock`: an interview in the terminal, or its questions as JSON."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from infer_course.card_data import card_data
from infer_course.drill.commands import FileOption, RootOption, graph_of
from infer_course.drill.keys import TerminalKeys, interactive
from infer_course.drill.progress_file import ProgressFile
from infer_course.drill.terminal import now_ms
from infer_course.drill.today import day_of
from infer_course.errors import CourseError
from infer_course.mock.choose import LENGTHS, LEVELS, Interview, choose, roles
from infer_course.mock.report import markdown
from infer_course.mock.terminal import Room, reviews


class MockError(CourseError):
    """The interview cannot be held; the message says why and what to do."""


def mock(
    role: Annotated[str, typer.Option(help=f"Who is asked: {', '.join(roles())}.")] = "serving",
    level: Annotated[str, typer.Option(help=f"At which level: {', '.join(LEVELS)}.")] = "mid",
    minutes: Annotated[int, typer.Option(help=f"How long: {', '.join(map(str, LENGTHS))}.")] = 30,
    seed: Annotated[int | None, typer.Option(min=0, max=2**31, help="The same seed asks the same questions; by default a new one.")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Also write the report to this file, as Markdown.")] = None,
    log: Annotated[bool, typer.Option("--log/--no-log", help="Add the questions to your drill, graded by what you had.")] = True,
    file: FileOption = None,
    root: RootOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the questions as JSON and ask nothing.")] = False,
) -> None:
    """A mock interview: clarify, estimate, explain, then follow-ups after what was missing, and a report of what to read and drill."""
    if role not in roles():
        raise MockError(f"there is no role `{role}`: it is {', '.join(roles())}")
    if level not in LEVELS:
        raise MockError(f"there is no level `{level}`: it is {', '.join(LEVELS)}")
    if minutes not in LENGTHS:
        raise MockError(f"an interview takes {', '.join(map(str, LENGTHS))} minutes, not {minutes}")
    graph = graph_of(root)
    rows = {card_id: row for card_id, row in card_data(graph)["cards"].items() if not row["planned"]}
    chosen_seed = random.SystemRandom().randrange(10_000) if seed is None else seed
    interview = choose(list(rows.values()), roles()[role], level, minutes, chosen_seed)
    if as_json:
        print(json.dumps(_as_json(interview, rows, role, level, chosen_seed), ensure_ascii=False, indent=2))
        return
    if not interview.cards:
        raise MockError(f"no question for {role} at {level} level is written yet; `infer-course stats` counts what there is")
    if not interactive():
        raise MockError("the interview is held in a terminal, and this is none. `--json` prints the questions; the site has a page for it")
    console, title = Console(highlight=False), roles()[role].title["en"]
    console.print(
        f"[bold]{title}[/bold], {level} level, {len(interview.cards)} questions, about {interview.minutes:g} of {minutes} minutes,"
        f" seed {chosen_seed}."
    )
    console.print("[dim]Ctrl-C ends it at any time and leads to the report.[/dim]")
    if interview.minutes < minutes / 2:
        console.print("[dim]More is not written yet for this role and level.[/dim]")
    with TerminalKeys() as keys:
        answers = Room(graph, interview, level, keys, console).run()
    now = now_ms()
    text = markdown(graph, interview, answers, role=title, level=level, seed=chosen_seed, day=f"{day_of(now):%Y-%m-%d}", rows=rows)
    console.print(Markdown(text))
    if report is not None:
        report.write_text(text, encoding="utf-8")
        console.print(f"[dim]Written to {report}.[/dim]")
    if answers and log:
        ProgressFile(file).update(lambda progress: progress.with_reviews(reviews(graph, answers, level, now)))
        console.print("[dim]The questions are in your drill now, graded by what you had; --no-log leaves them out.[/dim]")


def _as_json(interview: Interview, rows: dict[str, Any], role: str, level: str, seed: int) -> dict[str, Any]:
    cards = [
        {"id": card, "title": rows[card]["title"], "kind": rows[card]["kind"], "level": rows[card]["level"]} for card in interview.cards
    ]
    return {
        "role": role,
        "level": level,
        "minutes": interview.wanted,
        "planned_minutes": interview.minutes,
        "seed": seed,
        "questions": cards,
    }
