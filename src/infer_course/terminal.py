"""Shows a card, lesson, lab or record in the terminal, numbers evaluated. A card keeps its answer back until a key is pressed."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.markdown import Markdown
from rich.markup import escape
from rich.table import Table

from infer_course import measure
from infer_course.evaluated import readable
from infer_course.graph import Graph, Node
from infer_course.nodes import Card, Lab, Lesson, Measurement
from infer_course.schema import RubricItem

Pause = Callable[[str], bool]
"""Shows a prompt and waits; False when the reader wants no more."""


def show(console: Console, graph: Graph, node: Node, pause: Pause) -> None:
    """Prints whatever `node` is; `pause` is called before each thing that a card keeps back."""
    match node:
        case Card():
            _card(console, graph, node, pause)
        case Lesson():
            _heading(console, node.title.en)
            console.print(Markdown("\n".join(f"- {objective}" for objective in node.objectives)))
            _related(console, "Cards", [card.id for card in graph.cards_of_lesson(node.id)])
            _related(console, "Labs", [lab.id for lab in graph.labs_of_lesson(node.id)])
            console.print(f"Text: {node.path}")
        case Lab():
            _heading(console, node.title.en)
            _related(console, "Lessons", list(node.lessons))
            _related(console, "Cards", [card.id for card in graph.cards_of_lab(node.id)])
            _related(console, "Records", list(node.measurements))
            console.print(f"Notebook: {node.path}")
        case Measurement():
            _record(console, graph, node)
        case _:
            _heading(console, node.title.en)
            _related(console, "Cards", list(node.cards))


def _card(console: Console, graph: Graph, card: Card, pause: Pause) -> None:
    _heading(console, card.title.en)
    console.print(escape(card.title.zh))
    console.print(f"[dim]{card.kind} · {card.level} · {card.minutes:g} min to answer aloud[/dim]")
    if not pause("Answer aloud, then press any key to see the answer (q to leave)"):
        return
    for section in card.sections:
        if section.title not in ("Follow-ups", "Rubric"):
            console.print(Markdown(f"## {section.title}\n\n{readable(section.body, graph)}"))
    for asked in card.follow_up_questions:
        console.print(Markdown(f"### {readable(asked.question, graph)}"))
        if not pause("Any key for its answer (q to leave)"):
            return
        console.print(Markdown(readable(asked.answer, graph)))
    console.print(Markdown("## Rubric"))
    for item in card.rubric:
        console.print(Markdown(f"- **{_level(item)}** {readable(item.text, graph)}"))
    _related(console, "Asked next", list(card.follow_ups))
    _related(console, "Lessons", list(card.lessons))
    _related(console, "Labs", list(card.labs))
    _related(console, "Measured proof", [record.id for record in graph.measurements_of_card(card.id)])


def _heading(console: Console, title: str) -> None:
    console.print(f"\n[bold]{escape(title)}[/bold]")


def _level(item: RubricItem) -> str:
    return item.level.replace("_", " ")


def _record(console: Console, graph: Graph, record: Measurement) -> None:
    _heading(console, record.title)
    console.print(f"{record.device.name}, {record.date.date().isoformat()}, commit {record.git.commit[:7]}; {record.command}")
    table = Table("value", "result", "p10 to p90", "note")
    for name in record.values:
        found = measure.lookup(graph, f"{record.id}:{name}")
        table.add_row(name, found.text, found.spread, found.note)
    console.print(table)
    if changed := measure.changed_sources(graph.root, record):
        console.print(f"[yellow]Older than its sources: {', '.join(changed)}[/yellow]")


def _related(console: Console, label: str, ids: list[str]) -> None:
    if ids:
        console.print(f"[bold]{label}:[/bold] {', '.join(ids)}")
