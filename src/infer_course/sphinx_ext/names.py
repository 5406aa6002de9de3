"""Names of models and formats stay on one line: `Llama-3-8B` broken after a hyphen reads as something else.

A hyphen that cannot break is another character, which whoever searches the page or copies the name would not get; so the name stands in
an element that does not wrap.
"""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from markupsafe import Markup, escape
from sphinx.transforms.post_transforms import SphinxPostTransform

NAME = re.compile(r"(?<![\w/.-])(?=[\w.-]*\d)[A-Za-z][\w.]*(?:-[\w.]*\w){1,4}(?![\w/-])")
LONGEST = 24
CLASS = "il-one-line"
_APART = (nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw, nodes.comment, nodes.inline)


def pieces(text: str) -> list[tuple[str, bool]]:
    """`text` cut at its names: (piece, is a name)."""
    found: list[tuple[str, bool]] = []
    at = 0
    for match in NAME.finditer(text):
        if len(match[0]) <= LONGEST:
            found += [(text[at : match.start()], False), (match[0], True)]
            at = match.end()
    return [(piece, name) for piece, name in [*found, (text[at:], False)] if piece]


def on_one_line(text: str) -> Markup:
    """For templates: `{{ record.title|names }}`."""
    span = Markup('<span class="{}">{}</span>')
    return Markup("").join(span.format(CLASS, piece) if name else escape(piece) for piece, name in pieces(text))


class KeepNames(SphinxPostTransform):
    """The same for running text, when a page is written."""

    default_priority = 900
    formats = ("html",)

    def run(self, **_: Any) -> None:
        for node in list(self.document.findall(nodes.Text)):
            cut = pieces(node.astext())
            if any(name for _, name in cut) and not isinstance(node.parent, _APART):
                parts = [nodes.inline("", piece, classes=[CLASS]) if name else nodes.Text(piece) for piece, name in cut]
                node.parent.replace(node, parts)
