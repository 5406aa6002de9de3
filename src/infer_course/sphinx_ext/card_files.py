"""Writes the data files of `card_data.py` into the built site: the index, and one file of HTML for each card.

The HTML of a card comes from the document that its page is written from, with references resolved as seen from the root of the site, so
that it can be shown on any page. Element ids are dropped: two cards on one page would share them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransformer
from sphinx.util.docutils import new_document

from infer_course import measured_pairs
from infer_course.card_data import card_data, page_url
from infer_course.nodes import Card
from infer_course.sphinx_ext.card_page import LEVELS
from infer_course.sphinx_ext.course import Course, docname, of
from infer_course.sphinx_ext.docnodes import html_element
from infer_course.sphinx_ext.pages import resolve

ROOT = "index"


def write(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`."""
    if error is not None or app.builder.format != "html":
        return
    course = of(app)
    static = Path(app.outdir, "_static")
    _write(static / "cards.json", card_data(course.graph))
    _write(static / "records.json", {r.id: measured_pairs.of_record(course.graph, r) for r in course.graph.measurements.values()})
    folder = static / "cards"
    for card in course.graph.cards.values():
        _write(folder / f"{card.id}.json", card_fragments(app, course, card))
    for path in folder.glob("*.json"):
        if path.stem not in course.graph.cards:
            path.unlink()


def _write(path: Path, data: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def card_fragments(app: Sphinx, course: Course, card: Card) -> dict[str, Any]:
    """The parts of one card as HTML; see `card_data.py` for what they are."""
    page = app.env.get_doctree(docname(card.path))
    parts = _Parts(app, card)
    by_level = sorted(card.rubric, key=lambda item: [level for level, _ in LEVELS].index(item.level))
    for item, row in zip(by_level, _of_class(page, "il-rubric-item"), strict=True):
        parts.add(f"rubric {item.id}", row.children[0].children[1].children)  # label > input, span
        parts.add(f"asked {item.id}", row.children[1].children[1:] if len(row.children) > 1 else [])  # p > "Missing?", the question
    chain = list(_of_class(page, "il-followup"))
    for number, box in enumerate(chain):
        parts.add(f"question {number}", box.children[0].children)
        parts.add(f"answer {number}", box.children[1].children)
    depth = [section for section in _sections(page, "il-depth") if section.children[0].astext() != "Rubric"]
    for section in depth:
        parts.add(section["ids"][0], [child for child in section.children[1:] if not _holds_rubric(child)])
    for name in ("il-direct", "il-zh", "il-mistakes"):
        parts.add(name, [child for section in _sections(page, name) for child in section.children[1:] if not _holds_rubric(child)])
    html = parts.rendered()
    return {
        "id": card.id,
        "direct_html": {"en": html["il-direct"], "zh": html["il-zh"]},
        "rubric": [
            {
                "id": item.id,
                "level": item.level,
                "html": html[f"rubric {item.id}"],
                "follow_up_html": html[f"asked {item.id}"] or None,
            }
            for item in card.rubric
        ],
        "follow_ups": [{"question_html": html[f"question {n}"], "answer_html": html[f"answer {n}"]} for n in range(len(chain))],
        "mistakes_html": html["il-mistakes"],
        "sections": [{"id": s["ids"][0], "title": s.children[0].astext(), "html": html[s["ids"][0]]} for s in depth],
        "measured": measured_pairs.of_card(course.graph, card.id),
    }


class _Parts:
    """Parts of a page that are resolved together, and then written one by one."""

    def __init__(self, app: Sphinx, card: Card) -> None:
        self.app, self.card = app, card
        self.document = new_document("<parts of a card>")
        self.names: list[str] = []

    def add(self, name: str, children: Iterable[nodes.Node]) -> None:
        self.names.append(name)
        self.document.append(nodes.container("", *(child.deepcopy() for child in children)))

    def rendered(self) -> dict[str, str]:
        """HTML by name. As `BuildEnvironment.apply_post_transforms` does it, but other extensions add nothing to the pieces."""
        for node in self.document.findall(nodes.Element):
            if isinstance(node, pending_xref):
                node["refdoc"] = ROOT
            if isinstance(node, nodes.reference) and node.get("refid"):
                node["refuri"] = f"{page_url(self.card.path)}#{node.attributes.pop('refid')}"
                node["internal"] = True
            node["ids"] = []
        env: Any = self.app.env
        builder: Any = self.app.builder
        env.temp_data["docname"] = ROOT
        try:
            transformer = SphinxTransformer(self.document)
            transformer.set_environment(env)
            transformer.add_transforms(self.app.registry.get_post_transforms())
            transformer.apply_transforms()
        finally:
            env.temp_data.clear()
        resolve(self.app, self.document, ROOT)
        builder.imgpath = "_images"
        builder.post_process_images(self.document)
        pieces = [list(container.children) for container in self.document.children if isinstance(container, nodes.container)]
        return {
            name: "".join(builder.render_partial(child)["fragment"] for child in children).strip()
            for name, children in zip(self.names, pieces, strict=True)
        }


def _sections(page: nodes.document, name: str) -> Iterator[nodes.section]:
    for section in page.findall(nodes.section):
        if name in section["classes"]:
            yield section


def _of_class(page: nodes.document, name: str) -> Iterator[html_element]:
    for node in page.findall(html_element):
        if node["attrs"].get("class") == name:
            yield node


def _holds_rubric(node: nodes.Node) -> bool:
    return any(True for _ in node.findall(lambda found: isinstance(found, html_element) and found["attrs"].get("class") == "il-rubric"))
