"""The few document nodes of our own, and how they become HTML.

Why so few: a card page is ordinary docutils sections moved into ordinary HTML elements (`<details>`, `<ol>`), so one node that is *any*
element serves for all of them; what comes from the graph (links, chips, records) is one node that names a template and is filled in when
the page is written, so that it can never be older than the graph. Other builders (text, LaTeX) see the content without the elements.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from docutils import nodes

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class html_element(nodes.General, nodes.Element):
    """`<tag attrs>children</tag>`. `attrs` values of None are left out, of True stand alone."""


class from_graph(nodes.General, nodes.Element):
    """Filled in at writing time from the template `<template>.html` with `args`; see `pages.resolve`."""


class card_embed(nodes.General, nodes.Element):
    """A card on another page: question, chips, and the direct answer behind one action; see `embeds.EmbedCards`."""


class provenance(nodes.Inline, nodes.TextElement):
    """A number that says where it is from. `kind` is calc or measured; `tip` is the note, line by line."""


def element(tag: str, *children: nodes.Node, **attrs: Any) -> html_element:
    """`element("li", child, klass="x", data_id="y")`: `klass` is the class, `_` in names stands for `-`."""
    names = {("class" if key == "klass" else key.replace("_", "-")): value for key, value in attrs.items()}
    return html_element("", *children, tag=tag, attrs=names)


def raw(html: str) -> nodes.raw:
    return nodes.raw("", html, format="html")


def open_tag(tag: str, attrs: dict[str, Any]) -> str:
    shown = [f" {name}" if value is True else f' {name}="{escape(str(value))}"' for name, value in attrs.items() if value is not None]
    return f"<{tag}{''.join(shown)}>"


def _visit_element(writer: Any, node: html_element) -> None:
    writer.body.append(open_tag(node["tag"], node["attrs"]) + "\n")


def _depart_element(writer: Any, node: html_element) -> None:
    writer.body.append(f"</{node['tag']}>\n")


def _visit_provenance(writer: Any, node: provenance) -> None:
    """The note is the title, so that it is there without script and stays out of search results; script makes the real note of it."""
    if _inside_a_link_or_title(node):
        return
    node["marked"] = True
    tag = open_tag("span", {"class": f"il-val il-{node['kind']}", "title": node["tip"]})
    writer.body.append(f'<span class="il-mark-num">{tag}')


def _depart_provenance(writer: Any, node: provenance) -> None:
    if node.get("marked"):
        writer.body.append("</span></span>")


def _inside_a_link_or_title(node: nodes.Node) -> bool:
    """There the number is plain: a control inside a link, or in the list of contents, cannot be used."""
    parent = node.parent
    while parent is not None:
        if isinstance(parent, (nodes.reference, nodes.title)):
            return True
        parent = parent.parent
    return False


def _pass(writer: Any, node: nodes.Node) -> None:
    """Other builders: only the children."""


def add_nodes(app: Sphinx) -> None:
    plain = (_pass, _pass)
    others: dict[str, Any] = {"latex": plain, "text": plain, "man": plain, "texinfo": plain}
    app.add_node(html_element, html=(_visit_element, _depart_element), **others)
    app.add_node(provenance, html=(_visit_provenance, _depart_provenance), **others)
    app.add_node(from_graph, html=plain, **others)
    app.add_node(card_embed, html=plain, **others)
