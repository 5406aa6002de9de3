"""What search looks through: `_static/find.json`, the words of every page with the sections they stand in, written when a build ends.

    {"pages": [{"url", "kind", "title", "zh"?, "id"?, "more"?}],
     "entries": [[index of the page, anchor or "", heading or "", text]]}

`kind` is question, planned, lesson, lab, record, set, part or page; `id` is a card's; `more` are words that the page is found by without
showing them. A follow-up of a card is an entry of its own, so that it can be linked to. Only what a reader sees as text is there: no notes
on numbers, no drawings, no display formulas, no printed output of labs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from infer_course.nodes import Card, Lab, Lesson
from infer_course.sphinx_ext.course import Course, of
from infer_course.sphinx_ext.docnodes import from_graph, html_element
from infer_course.sphinx_ext.questions import page_of_set, questions

SKIPPED = (nodes.raw, nodes.comment, nodes.title, nodes.math_block, nodes.image, nodes.system_message, from_graph)
SKIPPED_CLASSES = ("cell_output", "toctree-wrapper")
NAMES = {Card: "question", Lesson: "lesson", Lab: "lab"}


@dataclass
class Entry:
    """A stretch of a page under one heading."""

    anchor: str = ""
    heading: str = ""
    words: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return re.sub(r"\s+([,.;:!?)）。，；：？])", r"\1", re.sub(r"\s+", " ", "".join(self.words))).strip()


def write(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`."""
    if error is None and app.builder.format == "html":
        path = Path(app.outdir, "_static", "find.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(find_data(app), ensure_ascii=False, separators=(",", ":")), encoding="utf-8")


def find_data(app: Sphinx) -> dict[str, Any]:
    course = of(app)
    pages: list[dict[str, Any]] = []
    entries: list[list[Any]] = []

    def add(page: dict[str, Any], of_page: Iterable[Entry]) -> None:
        entries.extend([len(pages), e.anchor, e.heading, e.text] for e in of_page if e.text or e.heading or not e.anchor)
        pages.append(page)

    for name in sorted(app.env.found_docs, key=lambda name: _order(course, name)):
        add(_described(app, course, name), entries_of(app.env.get_doctree(name)))
    for record in course.graph.measurements.values():
        names = " ".join(f"{value} {told.note or ''}" for value, told in record.values.items())
        url = f"{app.builder.get_target_uri('book/measured')}#{record.id.replace('/', '-')}"
        add({"url": url, "kind": "record", "title": record.title}, [Entry(words=[f"{record.device.name}. {names}"])])
    for chosen in course.graph.sets.values():
        about = f"{chosen.about.en} {chosen.about.zh} " if chosen.about else ""
        parts = " ".join(f"{section.title.en} {section.title.zh}" for section in chosen.sections)
        page = {"url": app.builder.get_target_uri(page_of_set(chosen.id)), "kind": "set", "title": chosen.title.en, "zh": chosen.title.zh}
        add(page, [Entry(words=[about, parts])])
    for asked in questions(course.graph):
        if asked.card is None:
            add({"url": "", "kind": "planned", "title": asked.title, "id": asked.id, "more": asked.id}, [Entry()])
    return {"pages": pages, "entries": entries}


def _order(course: Course, name: str) -> tuple[int, int, str]:
    page = course.pages.get(name)
    return (page.part, page.order, name) if page is not None else (-1, 0, name)


def _described(app: Sphinx, course: Course, name: str) -> dict[str, Any]:
    page = course.pages.get(name)
    url = app.builder.get_target_uri(name)
    if page is None:
        return {
            "url": url,
            "kind": "part" if name.endswith("/index") and "/part" in name else "page",
            "title": app.env.titles[name].astext(),
        }
    told = {"url": url, "kind": NAMES[type(page)], "title": page.title.en, "zh": page.title.zh, "more": page.id}
    if isinstance(page, Card):
        told |= {"id": page.id, "more": " ".join([page.id, *page.tags])}
    return told


def entries_of(document: nodes.document) -> list[Entry]:
    """The entries of a page: first what stands under its title, then one for each section and follow-up, in reading order."""
    found = [Entry()]
    top = next(document.findall(nodes.section), None)
    _read(top if top is not None else document, found[0], found)
    return found


def _read(node: nodes.Node, into: Entry, found: list[Entry]) -> None:
    for child in node.children:
        if isinstance(child, nodes.Text):
            into.words.append(child.astext())
        elif isinstance(child, nodes.math):
            into.words.append(re.sub(r"\\[A-Za-z]+|[{}\\]", " ", child.astext()))
        elif isinstance(child, SKIPPED) or _has_class(child, SKIPPED_CLASSES):
            continue
        elif isinstance(child, nodes.section):
            entry = Entry(child["ids"][0], child.children[0].astext() if isinstance(child.children[0], nodes.title) else "")
            found.append(entry)
            _read(child, entry, found)
        elif isinstance(child, html_element) and child["attrs"].get("class") == "il-followup":
            asked, answer = child.children[:2]
            entry = Entry(child["attrs"]["id"], asked.astext())
            found.append(entry)
            _read(answer, entry, found)
        else:
            _read(child, into, found)
            if not isinstance(child, nodes.Inline):
                into.words.append(" ")


def _has_class(node: nodes.Node, classes: tuple[str, ...]) -> bool:
    return isinstance(node, nodes.Element) and any(name in node.get("classes", []) for name in classes)
