"""Directives that take things from the checkout as they stand: code of the library by name, drawings as part of the page."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.nodes import Node
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from infer_course.errors import CourseError
from infer_course.sphinx_ext.docnodes import element, raw
from infer_course.symbols import find_code

DRAWING_SCALE = 1.15  # drawings are made at phone size with 13 px text; on wide pages that is a little small


class LabCode(SphinxDirective):
    """```{lab-code} infer_lab.core.block_pool:BlockPool.allocate```: the symbol as it stands in `src/`, with file and lines.

    Options: `no-docstring` leaves it out; `emphasize` marks lines, counted from the symbol's first.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"no-docstring": directives.flag, "emphasize": directives.unchanged_required}

    def run(self) -> list[Node]:
        try:
            found = find_code(Path(self.env.srcdir), self.arguments[0])
        except CourseError as error:
            raise self.error(f"lab-code: {error}") from None
        path, symbol, text, (start, end, gap) = found
        self.env.note_dependency(str(Path(self.env.srcdir) / path))
        numbers = [n for n in range(start, end + 1) if not ("no-docstring" in self.options and n in gap)]
        lines = text.split("\n")
        block = nodes.literal_block("", _dedent([lines[n - 1] for n in numbers]), language="python")
        if marked := self.options.get("emphasize"):
            block["highlight_args"] = {"hl_lines": [int(number) for number in marked.replace(",", " ").split()]}
        head = raw(
            f'<div class="il-code-head"><span>{escape(path.as_posix())}</span> <span>{escape(symbol)}, lines {start} to {end}</span></div>'
        )
        return [element("div", head, block, klass="il-code")]


def _dedent(lines: list[str]) -> str:
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "\n".join(line[margin:] for line in lines).rstrip()


class SvgFigure(SphinxDirective):
    """```{svg-figure} figures/x.svg``` with `alt` and `caption`: the drawing becomes part of the page, with its colours and its words."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {
        "alt": directives.unchanged_required,
        "caption": directives.unchanged_required,
        "name": directives.unchanged_required,
    }

    def run(self) -> list[Node]:
        relative, path = self.env.relfn2path(self.arguments[0])
        if not Path(path).is_file():
            raise self.error(f"svg-figure: there is no file {relative}")
        if not self.options.get("alt"):
            raise self.error(f"svg-figure {relative}: say in `:alt:` what the drawing shows")
        self.env.note_dependency(path)
        svg = Path(path).read_text(encoding="utf-8")
        svg = svg[svg.index("<svg") :]
        box = re.search(r'viewBox="[-\d.]+ [-\d.]+ ([\d.]+)', svg)
        if box and "style=" not in svg[: svg.index(">")]:
            svg = svg.replace("<svg", f'<svg style="max-width: {float(box[1]) * DRAWING_SCALE:.0f}px"', 1)
        ids = re.findall(r'\bid="([^"]+)"', svg)
        attrs = {"id": self.options.get("name") or nodes.make_id(Path(relative).stem), "klass": "il-fig il-fig--drawn"}
        if not ids:
            svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(self.options["alt"])}"', 1)
        caption = []
        if text := self.options.get("caption"):
            said, _ = self.parse_inline(text)
            caption.append(element("figcaption", element("p", *said)))
        return [element("figure", raw(f'<div class="il-drawing">{svg}</div>'), *caption, **attrs)]
