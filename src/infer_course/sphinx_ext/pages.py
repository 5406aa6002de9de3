"""Fills pages when they are written: the graph's places in the text, and what the frame of the page needs to know about it."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from docutils import nodes
from sphinx.application import Sphinx

from infer_course.asked import asked_of
from infer_course.content_map import content_map
from infer_course.measure import changed_sources
from infer_course.nodes import Card, Lab, Lesson, SetOfCards
from infer_course.shown import grouped
from infer_course.sphinx_ext.course import Course, docname, of
from infer_course.sphinx_ext.docnodes import from_graph, raw
from infer_course.sphinx_ext.path_diagram import path_diagram
from infer_course.sphinx_ext.questions import counted, page_of_set, question, questions, set_pages, tags
from infer_course.sphinx_ext.records import cited_values, plots_of_record
from infer_course.stats import stats
from infer_lab.units import Quantity

DOORS = (
    ("Learn", "book/index"),
    ("Drill", "book/drill"),
    ("Questions", "book/cards"),
    ("Run", "book/run"),
    ("Measured", "book/measured"),
    ("Calculate", "book/calculators/index"),
)
BUNDLES = {"search": "search"}  # of pages that have no front matter
DROPPED_SCRIPTS = ("thebe", "togglebutton", "sphinx-book-theme", "require", "design-tabs")
DROPPED_STYLES = ("thebe", "togglebutton", "sphinx-book-theme", "pygments.css", "theme.css", "pydata")


def resolve(app: Sphinx, document: nodes.document, name: str) -> None:
    """Event `doctree-resolved`: every `from_graph` node becomes the HTML of its template."""
    for node in list(document.findall(from_graph)):
        if app.builder.format != "html":
            node.replace_self([])
            continue
        html = render(app, name, node["template"], **node["args"])
        node.replace_self(raw(html))


def render(app: Sphinx, name: str, template: str, **args: Any) -> str:
    """A template filled for the page `name`."""
    course = of(app)
    return course.render(
        template,
        page=course.pages.get(name),
        to=link_from(app, name),
        docname=docname,
        changed=lambda record: changed_sources(course.graph.root, record),
        stage_href=lambda to: lambda stage: to("book/index", f"stage-{stage}"),
        path_diagram=path_diagram,
        show=lambda value, unit: grouped(Quantity(value, unit).format()),
        content=content_map(),
        stats=stats,
        versions=_versions,
        cited_values=cited_values,
        plots_of_record=plots_of_record,
        asked_of=asked_of,
        question=question,
        questions=questions,
        counted=counted,
        tags=tags,
        page_of_set=page_of_set,
        **args,
    )


def _versions(software: Mapping[str, Any]) -> str:
    """`torch 2.11.0, triton 3.6.0`: what a figure may depend on; the rest is in the record."""
    return ", ".join(f"{name} {software[name]}" for name in ("python", "torch", "triton") if software.get(name))


def link_from(app: Sphinx, name: str) -> Callable[..., str]:
    """A function that gives the address of a page (anything with a `path`, or a docname) as seen from `name`."""

    def to(target: Any, anchor: str = "") -> str:
        other = target if isinstance(target, str) else docname(target.path)
        if other not in app.env.all_docs and other not in set_pages(of(app).graph):
            raise LookupError(f"{name} links to {other}, which is not a page")
        address = app.builder.get_relative_uri(name, other) if other != name else ""
        return (address or ("" if anchor else posixpath.basename(app.builder.get_target_uri(other)))) + (f"#{anchor}" if anchor else "")

    return to


def bundles(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Event `html-page-context`: `bundle: drill` in a page's front matter loads `gen/drill.mjs`, and `gen/drill.css` if there is one."""
    for name in str(app.env.metadata.get(pagename, {}).get("bundle", BUNDLES.get(pagename, ""))).split():
        app.add_js_file(f"gen/{name}.mjs", type="module")
        if (Path(app.srcdir) / "book" / "_static" / "gen" / f"{name}.css").is_file():
            app.add_css_file(f"gen/{name}.css", priority=910)


def frame(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Event `html-page-context`, last: hands the frame its values and drops scripts and styles that the pages do without."""
    course = of(app)
    page = course.pages.get(pagename)
    context["il"] = {
        "kind": course.kind(pagename) or {"index": "home", "search": "search", "404": "lost"}.get(pagename, "plain"),
        "page": page,
        "searches": pagename in ("search", "book/cards"),  # has a search field of its own
        "doors": [(name, door, _inside(door, pagename, page)) for name, door in DOORS],
        "tree": _tree(app, pagename) if not isinstance(page, Card) else [],
        "part": course.parts[page.part] if page is not None else None,
        "base_path": urlsplit(app.config.html_baseurl or "/").path or "/",
    }
    order = [name for _, entries in context["il"]["tree"] for name, _, _ in entries]
    context["prev"], context["next"] = None, None
    if pagename in order:
        at = order.index(pagename)
        for key, beside in (("prev", order[at - 1 : at] if at else []), ("next", order[at + 1 : at + 2])):
            context[key] = {"link": context["pathto"](beside[0]), "title": app.env.titles[beside[0]].astext()} if beside else None
    if isinstance(page, Card):
        before, after = course.neighbours(page)
        inside = course.cards_of_part(page.part)
        context["il"]["place"] = ([card.id for card in inside].index(page.id) + 1, len(inside))
        context["il"]["questions"] = f"questions/part{page.part}/index"
        context["prev"] = _neighbour(context, before)
        context["next"] = _neighbour(context, after)
    if pagename == "index":
        context["title"] = app.config.html_title
        context["docstitle"] = ""
    formulas = app.env.get_domain("math").data["has_equations"].get(pagename)  # not those of pages below it, as is the builder's way
    dropped = DROPPED_SCRIPTS if formulas else (*DROPPED_SCRIPTS, "mathjax")
    context["script_files"] = [script for script in context["script_files"] if not _named(script, dropped)]
    context["css_files"] = [style for style in context["css_files"] if not _named(style, DROPPED_STYLES)]


def _named(asset: Any, parts: tuple[str, ...]) -> bool:
    name = str(getattr(asset, "filename", None) or asset)
    return any(part in name for part in parts)


def _neighbour(context: dict[str, Any], card: Card | None) -> dict[str, str] | None:
    return {"link": context["pathto"](docname(card.path)), "title": card.title.en} if card else None


def _inside(door: str, pagename: str, page: Any) -> bool:
    kinds = {"book/index": Lesson, "book/cards": Card, "book/run": Lab}
    lists = ("questions/", "book/sets", "book/print")
    return pagename == door or isinstance(page, kinds.get(door, ())) or (door == "book/cards" and pagename.startswith(lists))


def _tree(app: Sphinx, pagename: str) -> list[tuple[str, list[tuple[str, str, bool]]]]:
    """The parts of the book in `_toc.yml`: (caption, [(docname, title, is this page)]). The site's own pages are in the bar on top."""
    site_map = app.env.external_site_map  # type: ignore[attr-defined]
    found = []
    for subtree in site_map.root.subtrees:
        items = [str(item) for item in subtree.items]
        if items[0] == DOORS[0][1]:
            continue
        entries = [(name, app.env.titles[name].astext(), name == pagename) for name in items if name in app.env.titles]
        if entries:
            found.append((subtree.caption or "", entries))
    return found


def outdated(app: Sphinx, *_: Any) -> list[str]:
    """Event `env-get-outdated`: when any link, title or record changed, every page may show it."""
    course: Course = of(app)
    before = getattr(app.env, "infer_course_digest", None)
    app.env.infer_course_digest = course.digest  # type: ignore[attr-defined]
    return sorted(app.env.all_docs) if before != course.digest else []


def describe(app: Sphinx, pagename: str, templatename: str, context: dict[str, Any], doctree: nodes.document | None) -> None:
    """Event `html-page-context`, before the social metadata is made: a card is described by its question, not by its answer."""
    graph = of(app).graph
    page = of(app).pages.get(pagename) or next((chosen for chosen in graph.sets.values() if page_of_set(chosen.id) == pagename), None)
    if isinstance(page, SetOfCards):
        text = f"{len(page.cards)} interview questions: {page.title.en}. {page.about.en if page.about else ''}".strip()
    elif isinstance(page, Card):
        text = f"Interview question ({page.kind}, {page.level}, {page.minutes:g} min): {page.title.en} {page.title.zh}"
    elif isinstance(page, Lesson):
        text = f"Lesson: {page.title.en}. After it you can: {'; '.join(page.objectives)}"
    elif isinstance(page, Lab):
        text = f"Lab: {page.title.en}. Predict, measure and explain on your own machine in about {page.minutes:g} minutes."
    else:
        return
    text = text.replace("`", "").replace("*", "")
    text = text if len(text) <= 220 else text[:217].rsplit(" ", 1)[0] + " …"
    context["meta"] = {**(context.get("meta") or {}), "og:description": text}
    context["metatags"] = f'{context.get("metatags", "")}<meta name="description" content="{_attribute(text)}" />\n'


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
