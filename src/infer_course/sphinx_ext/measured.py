"""Directives that show measurement records. Nothing is typed in.

`{measured-figure}` draws series, `{measured-table}` lists values, `{measured-peers}` compares cases with peers and the floor, and
`{measured-roofline}` places the cases of several records under the limits of the machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from docutils import nodes
from docutils.nodes import Node
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from infer_course.figure import data_table, html_of
from infer_course.measure import find_record
from infer_course.nodes import Measurement
from infer_course.plot import Plot
from infer_course.sphinx_ext.compared import Compared, by_operation, compared, shares_html, shown_time
from infer_course.sphinx_ext.course import Course, of
from infer_course.sphinx_ext.docnodes import element, from_graph, raw
from infer_course.sphinx_ext.records import plot_of
from infer_course.sphinx_ext.roofline import roofline, roofline_html
from infer_lab.errors import UserError


def _scale(argument: str) -> bool:
    return directives.choice(argument, ("log", "linear")) == "log"


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
            chosen = self._chosen(first)
            plot = self._plot(chosen)
            key = nodes.make_id(f"fig-{self.options.get('name') or '-'.join((first, *self._wanted()))}")
            picture = html_of(plot, key)
        except (UserError, ValueError) as error:
            raise self.error(f"measured-figure {first}: {error}") from None
        see = self.parse_content_to_nodes() if self.content else []
        records = list(dict.fromkeys(record.id for record, _ in chosen))
        return _figure(picture, key, see, records, data_table(plot))

    def _wanted(self) -> list[str]:
        return [name for name in self.options.get("series", "").replace(",", " ").split() if name]

    def _chosen(self, first: str) -> list[tuple[Measurement, str]]:
        graph = of(self.env.app).graph
        record = find_record(graph, first)
        chosen = []
        for name in self._wanted() or list(record.series):
            other, colon, own = name.rpartition(":")
            chosen.append((find_record(graph, other) if colon else record, own))
        return chosen

    def _plot(self, chosen: list[tuple[Measurement, str]]) -> Plot:
        if not chosen:
            raise ValueError("the record has no series")
        plot = plot_of(chosen, *(self.options.get(option, "") for option in ("title", "xunit", "yunit")))
        return replace(plot, x_log=self.options.get("xscale", plot.x_log), y_log=self.options.get("yscale", plot.y_log))


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


def _figure(picture: str, key: str, see: list[Node], records: list[str], table: str) -> list[Node]:
    """A drawn figure: what to see in it, where it is from, and its numbers."""
    caption = element("figcaption", *see, from_graph(template="figure-foot", args={"records": records}), raw(table))
    return [element("figure", raw(picture), caption, klass="il-fig", id=key)]


def _table(course: Course, title: str, groups: list[tuple[str, list[Compared]]]) -> str:
    return course.render("compared", title=title, groups=groups, us=shown_time)


class MeasuredPeers(SphinxDirective):
    """```{measured-peers} h200/gemm```, option `operations`: ours beside peers and the floor, as a figure and a table.

    The content is what to see in it. Device, day and commit are added.
    """

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"operations": directives.unchanged_required}

    def run(self) -> list[Node]:
        course = of(self.env.app)
        wanted = [name.strip() for name in self.options.get("operations", "").split(";") if name.strip()]
        try:
            record = find_record(course.graph, self.arguments[0])
            rows = compared(record, wanted)
        except (UserError, ValueError) as error:
            raise self.error(f"measured-peers {self.arguments[0]}: {error}") from None
        key = nodes.make_id(f"peers-{'-'.join((record.id, *wanted))}")
        title = f"{record.title}: share of the floor's speed"
        table = _table(course, title, by_operation(rows))
        see = self.parse_content_to_nodes() if self.content else []
        return _figure(shares_html(rows, title, key), key, see, [record.id], table)


class MeasuredRoofline(SphinxDirective):
    """```{measured-roofline} h200/attention h200/gemm```: every case of these records under the limits in `<device>/limits`."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[Node]:
        graph = of(self.env.app).graph
        try:
            records = [find_record(graph, name) for name in self.arguments[0].replace(",", " ").split()]
            limits = find_record(graph, f"{records[0].device.slug}/limits")
            roof = roofline(records, limits)
        except (UserError, ValueError) as error:
            raise self.error(f"measured-roofline: {error}") from None
        key = nodes.make_id(f"roofline-{self.arguments[0]}")
        see = self.parse_content_to_nodes() if self.content else []
        ids = [record.id for record in (*records, limits)]
        return _figure(roofline_html(roof, key), key, see, ids, _table(of(self.env.app), roof.title, list(roof.cases.items())))
