"""The graph as the site sees it: which page shows what, and the templates that the pages are filled from.

Read once per build. A graph with errors stops the build at once, with every error named, because pages made from it would lie.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from infer_course.content_map import Part, content_map
from infer_course.graph import Graph, load
from infer_course.nodes import Card, Lab, Lesson
from infer_course.sphinx_ext.names import on_one_line
from infer_course.stages import STAGES

TEMPLATES = Path(__file__).parent / "templates"
Page = Lesson | Card | Lab


@dataclass(frozen=True)
class Course:
    """`pages` maps a docname to the lesson, card or lab that it shows. `digest` changes whenever a link could."""

    graph: Graph
    pages: Mapping[str, Page]
    parts: Mapping[int, Part]
    templates: Environment
    digest: str

    def kind(self, docname: str) -> str:
        """lesson, card, lab, or "" for a page that is none of them."""
        page = self.pages.get(docname)
        return type(page).__name__.lower() if page is not None else ""

    def cards_of_part(self, part: int) -> tuple[Card, ...]:
        return tuple(card for card in self.graph.cards.values() if card.part == part)

    def planned_cards_of_part(self, part: int) -> list[tuple[str, str]]:
        return [(card.id, card.title) for card in content_map().cards.values() if card.part == part and card.id in self.graph.planned]

    def neighbours(self, card: Card) -> tuple[Card | None, Card | None]:
        """The cards before and after, through all parts."""
        order = list(self.graph.cards.values())
        at = next(index for index, other in enumerate(order) if other.id == card.id)
        return (order[at - 1] if at else None, order[at + 1] if at + 1 < len(order) else None)

    def stages(self, page: Page) -> frozenset[str]:
        """Where on the path of a request a page is: a lesson says it, cards and labs take it from their lessons."""
        if isinstance(page, Lesson):
            return frozenset(page.stages)
        lessons = self.graph.lessons_of_card(page.id) if isinstance(page, Card) else self.graph.lessons_of_lab(page.id)
        return frozenset(stage for lesson in lessons for stage in lesson.stages)

    def render(self, template: str, **values: Any) -> str:
        return self.templates.get_template(f"{template}.html").render(course=self, graph=self.graph, stage_list=STAGES, **values)


def docname(path: str) -> str:
    """`questions/part0/x.md` → `questions/part0/x`."""
    return path.rpartition(".")[0]


def read(root: Path) -> Course:
    """The course at `root`. ExtensionError with every problem when the graph has errors."""
    graph = load(root)
    errors = [str(problem) for problem in graph.problems if problem.severity == "error"]
    if errors:
        raise ExtensionError("the course has errors, so its pages cannot be built:\n  " + "\n  ".join(errors))
    pages = {docname(page.path): page for group in (graph.lessons, graph.cards, graph.labs) for page in group.values()}
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined
    )
    templates.filters["names"] = on_one_line
    return Course(graph, pages, {part.part: part for part in content_map().parts}, templates, _digest(graph))


def _digest(graph: Graph) -> str:
    """Of all front matters, records and sets, and the glossary: what any page may show of another."""
    shown = [(page.path, page.document.meta) for group in (graph.lessons, graph.cards, graph.labs) for page in group.values()]
    records = [record.model_dump(mode="json") for record in graph.measurements.values()]
    sets = [chosen.model_dump(exclude={"document"}) for chosen in graph.sets.values()]
    terms = [page.text.body for path, page in graph.pages.items() if path == "book/glossary.md"]
    return hashlib.sha256(json.dumps([shown, records, sets, terms], default=str, sort_keys=True).encode()).hexdigest()


def attach(app: Sphinx) -> None:
    """Event `config-inited`/`builder-inited`: reads the course and keeps it on the application for this build."""
    app.infer_course = read(Path(app.srcdir))  # type: ignore[attr-defined]


def of(app: Sphinx) -> Course:
    return app.infer_course  # type: ignore[attr-defined]
