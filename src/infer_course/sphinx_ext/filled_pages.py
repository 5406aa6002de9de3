"""Pages that are made from the graph alone: one for each question set, and the search page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup
from sphinx.application import Sphinx

from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.pages import render
from infer_course.sphinx_ext.questions import page_of_set


def replace_search(app: Sphinx) -> None:
    """Event `builder-inited`: the builder makes no index of its own; `find_data` makes one that forgives typing errors."""
    if app.builder.format == "html":
        app.builder.search = False  # type: ignore[attr-defined]


def write(app: Sphinx) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Event `html-collect-pages`."""
    yield "search", {"title": "Search"}, "search.html"
    for chosen in of(app).graph.sets.values():
        name = page_of_set(chosen.id)
        yield name, {"title": chosen.title.en, "filled": Markup(render(app, name, "set-page", chosen=chosen))}, "filled.html"
