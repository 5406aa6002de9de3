"""`infer-course`: checks the course, counts it, shows it. A mistake of the user's prints one message and exits with 2."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from infer_course import check as checking
from infer_course import stats as counting
from infer_course import terminal
from infer_course.authoring import create, fixes
from infer_course.drill.commands import drill
from infer_course.drill.progress_commands import progress_app
from infer_course.graph import Graph, load
from infer_course.loader import find_root
from infer_course.mock.commands import mock
from infer_course.schema import json_schema
from infer_course.shown import count
from infer_lab.errors import UserError

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Check, count and show the course.")
RootOption = Annotated[Path | None, typer.Option("--root", help="The checkout; by default the one that contains the current folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead.")]


app.command()(drill)
app.command()(mock)
app.add_typer(progress_app, name="progress")


def main() -> None:
    """Entry point: a named error becomes one message and exit code 2; anything else is a bug and keeps its traceback."""
    try:
        app()
    except UserError as error:
        print(f"infer-course: {error}", file=sys.stderr)
        sys.exit(2)


def _graph(root: Path | None) -> Graph:
    return load(root.resolve() if root else find_root(Path.cwd().resolve()))


@app.command()
def check(
    root: RootOption = None,
    as_json: JsonOption = False,
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    code: Annotated[bool, typer.Option("--code/--no-code", help="Run the code blocks of cards.")] = True,
    fix: Annotated[bool, typer.Option("--fix", help="First mend what needs no judgement: unit spelling, order of sections, …")] = False,
) -> None:
    """Check every rule over all lessons, cards, labs and records. Exits with 2 when there are errors."""
    graph = _graph(root)
    today = datetime.datetime.now(datetime.UTC).date()
    problems = checking.check(graph, today, run_code=code and not fix)
    if fix:
        mended = fixes.fix(graph, problems)
        for problem in mended:
            print(f"mended {problem.file}:{problem.line} ({problem.rule})", file=sys.stderr)
        graph = load(graph.root)
        problems = checking.check(graph, today, run_code=code)
    errors = sum(problem.severity == "error" for problem in problems)
    warnings = len(problems) - errors
    if as_json:
        print(
            json.dumps({"errors": errors, "warnings": warnings, "problems": [p.as_dict() for p in problems]}, ensure_ascii=False, indent=2)
        )
    else:
        console = Console(soft_wrap=True, highlight=False)
        for problem in problems:
            colour = "red" if problem.severity == "error" else "yellow"
            console.print(
                f"[bold]{escape(problem.file)}:{problem.line}[/bold] [{colour}]{problem.severity}[/{colour}] {escape(problem.message)}"
            )
            console.print(f"    fix: {escape(problem.fix)} [dim]({problem.rule})[/dim]")
        groups = (("lesson", graph.lessons), ("card", graph.cards), ("lab", graph.labs), ("record", graph.measurements))
        counted = ", ".join(count(len(group), name) for name, group in groups)
        console.print(f"{counted}: {count(errors, 'error')}, {count(warnings, 'warning')}.")
    if errors or (strict and warnings):
        raise typer.Exit(2)


@app.command()
def stats(root: RootOption = None, as_json: JsonOption = False) -> None:
    """Count what is written by part, kind and level, and what is still planned."""
    found = counting.stats(_graph(root))
    if as_json:
        print(json.dumps(found.as_dict(), ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    table = Table("", "written", "planned", title="The course")
    table.add_row("lessons", str(found.lessons), str(len(found.planned_lessons)))
    table.add_row("cards", str(found.cards), str(len(found.planned_cards)))
    table.add_row("labs", str(found.labs), "")
    table.add_row("measurement records", str(found.measurements), "")
    table.add_row("question sets", str(found.sets), "")
    table.add_row("collected questions", f"{found.questions_answered} answered", str(len(found.questions_planned)))
    console.print(table)
    for label, counts in (("part", found.cards_by_part), ("kind", found.cards_by_kind), ("level", found.cards_by_level)):
        console.print(f"cards by {label}: {', '.join(f'{name} {count}' for name, count in counts.items()) or 'none'}")
    for record, changed in found.stale_records.items():
        console.print(f"[yellow]record {record} is older than {', '.join(changed)}[/yellow]")
    if found.cards_without_measured_proof:
        console.print(f"cards without measured proof: {', '.join(found.cards_without_measured_proof)}")


@app.command()
def show(
    node_id: Annotated[str, typer.Argument(metavar="ID", help="Id of a card, lesson, lab, record or set.")],
    root: RootOption = None,
    answer: Annotated[bool, typer.Option("--answer", help="Show everything at once.")] = False,
) -> None:
    """Show a card with its answer behind a key press; or a lesson, lab or record."""
    graph = _graph(root)
    console = Console(highlight=False)
    interactive = sys.stdin.isatty()

    def pause(prompt: str) -> bool:
        if answer:
            return True
        if not interactive:
            console.print("[dim]The answer is shown on a key press in a terminal, or with --answer.[/dim]")
            return False
        console.print(f"[dim]{prompt}[/dim]")
        return typer.getchar().lower() not in ("q", "\x03", "\x04", "\x1b")

    terminal.show(console, graph, graph.node(node_id), pause)


@app.command()
def new(
    kind: Annotated[str, typer.Argument(help="card, lesson or lab")],
    name: Annotated[str, typer.Argument(metavar="ID", help="Its id; one of the content map brings part, title and lesson.")],
    root: RootOption = None,
    part: Annotated[int | None, typer.Option("--part", help="0 to 8, for an id that is not in the content map, and for labs.")] = None,
    title: Annotated[str, typer.Option("--title", help="Title, likewise.")] = "",
    lesson: Annotated[list[str] | None, typer.Option("--lesson", help="Lesson of a card or lab; may be given several times.")] = None,
) -> None:
    """Begin a card, lesson or lab: writes the file with every section, lists it, and says what is left to do."""
    if kind not in ("card", "lesson", "lab"):
        raise UserError(f"there are cards, lessons and labs to begin; not {kind!r}")
    checkout = root.resolve() if root else find_root(Path.cwd().resolve())
    for path in create.create(checkout, kind, name, part=part, title=title, lessons=tuple(lesson or ())):
        print(f"wrote {path.relative_to(checkout)}")
    print("Write what says TODO; `infer-course check` names what is left, and `infer-course preview` shows the page while you write.")


@app.command()
def preview(root: RootOption = None, port: Annotated[int, typer.Option("--port", help="The first port to try.")] = 8000) -> None:
    """Serve the site and build it again whenever a file changes; the browser follows."""
    from infer_course.authoring import live

    live.serve(root.resolve() if root else find_root(Path.cwd().resolve()), port)


@app.command()
def anki(
    root: RootOption = None,
    out: Annotated[Path, typer.Option("--out", help="The deck to write.")] = Path("inference-lab.apkg"),
    site: Annotated[str, typer.Option("--site", help="Where the site is published; links on the cards lead there.")] = "",
    part: Annotated[list[int] | None, typer.Option("--part", help="Only this part; may be given several times.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the questions as an Anki deck. Import it again after an update: notes change in place, your scheduling stays."""
    from infer_course import anki as decks
    from infer_course import site as pages

    checkout = root.resolve() if root else find_root(Path.cwd().resolve())
    if not as_json:
        print("Bringing the site up to date …", flush=True)
    pages.build(checkout, checkout / "_build")
    made = decks.make(checkout, checkout / "_build" / "html", out, site, tuple(part or ()))
    if as_json:
        print(json.dumps({"path": str(made.path), "cards": sum(made.cards.values()), "by_part": made.cards, "timestamp": made.timestamp}))
        return
    print(f"{made.path}: {count(sum(made.cards.values()), 'card')}. In Anki: File → Import. Importing a later deck updates these cards.")


@app.command()
def schema(
    root: RootOption = None,
    write: Annotated[bool, typer.Option("--write", help=f"Write {checking.SCHEMA_FILE} instead of printing.")] = False,
) -> None:
    """Print the JSON Schema of front matter and records, for editors."""
    if not write:
        print(json_schema(), end="")
        return
    path = (root.resolve() if root else find_root(Path.cwd().resolve())) / checking.SCHEMA_FILE
    path.write_text(json_schema(), encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
