"""Directives that show measurement records and the library's own code: nothing on the page was typed in.

`{measured-figure}` draws series of a record; `{measured-table}` lists its values; `{lab-code}` shows a symbol of the library as it is;
`{svg-figure}` puts a drawing into the page.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.nodes import Node
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from infer_course.measure import find_record
from infer_course.nodes import Measurement
from infer_course.sphinx_ext.axes import plain
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import element, from_graph, raw
from infer_course.sphinx_ext.plot import KINDS, Line, Plot, draw
from infer_lab.errors import UserError
from infer_lab.units import Quantity

DRAWING_SCALE = 1.15  # drawings are made at phone size with 13 px text; on wide pages that is a little small


def _scale(argument: str) -> bool:
    return directives.choice(argument, ("log", "linear")) == "log"


def _spans_decades(values: list[float]) -> bool:
    """Whether a logarithmic axis is the natural one: positive values over a factor of 30 or more."""
    return bool(values) and min(values) > 0 and max(values) >= 30 * min(values)


class MeasuredFigure(SphinxDirective):
    """```{measured-figure} h200/kv-cache-by-hand```, options `series`, `xscale`, `yscale` (log, linear), `yunit`, `title`.

    The content is what to see in it. Device and day are added. A name in `series` may be of another record: `device/record:name`.
    """

    required_arguments = 0
    optional_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "record": directives.unchanged_required,
        "series": directives.unchanged_required,
        "xscale": _scale,
        "yscale": _scale,
        "xunit": directives.unchanged_required,
        "yunit": directives.unchanged_required,
        "title": directives.unchanged_required,
        "name": directives.unchanged_required,
    }

    def run(self) -> list[Node]:
        first = (self.arguments or [self.options.get("record", "")])[0].strip()
        try:
            plot, records = self._plot(first)
            key = nodes.make_id(f"fig-{self.options.get('name') or '-'.join((first, *self._wanted()))}")
            pictures = draw(plot, f"{key}-w") + draw(plot, f"{key}-n", narrow=True)
        except (UserError, ValueError) as error:
            raise self.error(f"measured-figure {first}: {error}") from None
        see = self.parse_content_to_nodes() if self.content else []
        provenance = from_graph(template="figure-foot", args={"records": [record.id for record in records]})
        caption = element("figcaption", *see, provenance, _data_table(plot))
        return [element("figure", raw(f'<div class="il-plot-box">{pictures}</div>'), caption, klass="il-fig", id=key)]

    def _wanted(self) -> list[str]:
        return [name for name in self.options.get("series", "").replace(",", " ").split() if name]

    def _plot(self, first: str) -> tuple[Plot, list[Measurement]]:
        graph = of(self.env.app).graph
        record = find_record(graph, first)
        chosen: list[tuple[Measurement, str]] = []
        for name in self._wanted() or list(record.series):
            other, colon, own = name.rpartition(":")
            chosen.append((find_record(graph, other) if colon else record, own))
        lines, units, labels = [], [], []
        for owner, name in chosen:
            if name not in owner.series:
                raise ValueError(f"`{owner.id}` has no series `{name}`; it has {', '.join(owner.series) or 'none'}")
            series = owner.series[name]
            x_unit, y_unit = self.options.get("xunit", series.x.unit), self.options.get("yunit", series.y.unit)
            order = sorted(range(len(series.x.values)), key=lambda i: series.x.values[i])
            spread = [_in(values, series.y.unit, y_unit, order) if values else () for values in (series.y.p10, series.y.p90)]
            lines.append(
                Line(
                    series.title,
                    series.kind,
                    _in(series.x.values, series.x.unit, x_unit, order),
                    _in(series.y.values, series.y.unit, y_unit, order),
                    p10=spread[0],
                    p90=spread[1],
                )
            )
            units.append((x_unit, y_unit))
            labels.append((series.x.label, series.y.label))
        if len({Quantity(1, y).to(units[0][1]).value for _, y in units}) > 1 or len({x for x, _ in units}) > 1:
            raise ValueError(f"the series have different units {units}: say `:xunit:` and `:yunit:`")
        x_label, y_label = (_axis_name(label, unit) for label, unit in zip(labels[0], units[0], strict=True))
        title = self.options.get("title") or f"{record.title}: {y_label} against {x_label}"
        drawn = sorted(lines, key=lambda line: -KINDS.index(line.kind))
        plot = Plot(title, x_label, y_label, tuple(drawn))
        x_log = self.options.get("xscale", _spans_decades(plot.all_x))
        plot = replace(plot, x_log=x_log, y_log=self.options.get("yscale", _spans_decades(plot.all_y)))
        return plot, list({owner.id: owner for owner, _ in chosen}.values())


def _in(values: tuple[float | int, ...], unit: str, wanted: str, order: list[int]) -> tuple[float, ...]:
    return tuple(float(Quantity(values[i], unit).to(wanted).value) for i in order)


def _axis_name(label: str, unit: str) -> str:
    shown = {"1": "", "x": "×", "us": "µs", "tok": "tokens", "tok/s": "tokens/s", "req": "requests"}.get(unit, unit)
    return f"{label}, {shown}" if shown and not label.endswith(shown) else label


def _data_table(plot: Plot) -> nodes.raw:
    """The same figures for whoever cannot see the picture, or wants them."""
    xs = sorted({value for line in plot.lines for value in line.x})
    found = [dict(zip(line.x, line.y, strict=True)) for line in plot.lines]
    head = "".join(f'<th scope="col" class="il-num">{escape(line.name)}</th> ' for line in plot.lines)
    rows = "".join(
        f'<tr><th scope="row" class="il-num">{plain(x)}</th> '
        + "".join(f'<td class="il-num">{_figures(values[x]) if x in values else "–"}</td> ' for values in found)
        + "</tr>\n"
        for x in xs
    )
    return raw(
        f'<details class="il-data"><summary>Show the numbers</summary><div class="il-scroll" role="region" '
        f'aria-label="{escape(plot.title)}"><table><caption>{escape(plot.y_label)}</caption><thead><tr>'
        f'<th scope="col" class="il-num">{escape(plot.x_label)}</th> {head}</tr></thead><tbody>{rows}</tbody></table></div></details>'
    )


def _figures(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10000 or float(value).is_integer() else f"{value:.4g}"


class MeasuredTable(SphinxDirective):
    """```{measured-table} h200/kv-cache-by-hand``` with `values: a, b`: what was measured, its spread, how often, and from where."""

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"values": directives.unchanged_required}

    def run(self) -> list[Node]:
        try:
            record = find_record(of(self.env.app).graph, self.arguments[0])
        except UserError as error:
            raise self.error(str(error)) from None
        wanted = [name for name in self.options.get("values", "").replace(",", " ").split() if name] or list(record.values)
        unknown = [name for name in wanted if name not in record.values]
        if unknown:
            raise self.error(f"`{record.id}` has no value {', '.join(unknown)}; it has {', '.join(record.values)}")
        return [from_graph(template="record-values", args={"record_id": record.id, "names": wanted})]


class LabCode(SphinxDirective):
    """```{lab-code} infer_lab.core.block_pool:BlockPool.allocate```: the symbol as it stands in `src/`, with file and lines.

    Options: `no-docstring` leaves it out; `emphasize` marks lines, counted from the symbol's first.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"no-docstring": directives.flag, "emphasize": directives.unchanged_required}

    def run(self) -> list[Node]:
        module, _, symbol = self.arguments[0].partition(":")
        path = Path("src", *module.split(".")).with_suffix(".py")
        file = Path(self.env.srcdir) / path
        if not file.is_file():
            raise self.error(f"lab-code: there is no file {path}")
        self.env.note_dependency(str(file))
        text = file.read_text(encoding="utf-8")
        try:
            start, end, gap = find_symbol(text, symbol)
        except KeyError:
            raise self.error(f"lab-code: {path} has nothing called `{symbol}`") from None
        numbers = [n for n in range(start, end + 1) if not ("no-docstring" in self.options and n in gap)]
        lines = text.split("\n")
        block = nodes.literal_block("", _dedent([lines[n - 1] for n in numbers]), language="python")
        if marked := self.options.get("emphasize"):
            block["highlight_args"] = {"hl_lines": [int(number) for number in marked.replace(",", " ").split()]}
        head = raw(
            f'<div class="il-code-head"><span>{escape(path.as_posix())}</span> <span>{escape(symbol)}, lines {start} to {end}</span></div>'
        )
        return [element("div", head, block, klass="il-code")]


def find_symbol(text: str, symbol: str) -> tuple[int, int, range]:
    """First and last line of `Class.method`, decorators included, and the lines of its docstring. KeyError if there is none."""
    scope: Any = ast.parse(text)
    for name in symbol.split("."):
        scope = next((n for n in ast.iter_child_nodes(scope) if name in _names_of(n)), None)
        if scope is None:
            raise KeyError(symbol)
    start = min([scope.lineno, *(decorator.lineno for decorator in getattr(scope, "decorator_list", []))])
    gap = range(0)
    body = getattr(scope, "body", [])
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and isinstance(body[0].value.value, str):
        gap = range(body[0].lineno, (body[0].end_lineno or 0) + 1)
    return start, scope.end_lineno, gap


def _names_of(node: ast.AST) -> list[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return [target.id for target in targets if isinstance(target, ast.Name)]
    return []


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
