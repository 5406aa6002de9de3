"""Where the time of one engine step goes, from a record whose command was told `--timeline`: by kind, with the kernels of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from docutils import nodes
from docutils.nodes import Node
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from infer_course.measure import find_record
from infer_course.nodes import Measurement
from infer_course.sphinx_ext.compared import shown_time
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import element, from_graph, raw
from infer_lab.errors import UserError


@dataclass(frozen=True, slots=True)
class Kind:
    """kernels: (name, microseconds) of the longest ones."""

    name: str
    us: float
    share: float
    launches: float
    kernels: tuple[tuple[str, float], ...]


def kinds(record: Measurement, row: str, most: int = 4) -> list[Kind]:
    """Of one step of that row, the longest first. ValueError where the record has no timeline of it."""
    entries = record.workload.get("timeline", {}).get(row)
    if not entries:
        known = ", ".join(record.workload.get("timeline", {})) or "none"
        raise ValueError(f"`{record.id}` has no timeline of {row!r}; it has {known}")
    total = sum(us for _, _, us, _ in entries)
    found = []
    for name in dict.fromkeys(kind for kind, *_ in entries):
        own = [(kernel, us, launches) for kind, kernel, us, launches in entries if kind == name]
        us = sum(us for _, us, _ in own)
        longest = tuple((kernel.removeprefix("void ").removeprefix("at::native::")[:28], us) for kernel, us, _ in own[:most])
        found.append(Kind(name, us, us / total, sum(launches for *_, launches in own), longest))
    return sorted(found, key=lambda kind: -kind.us)


class MeasuredTimeline(SphinxDirective):
    """```{measured-timeline} h200/engine-latency-llama-3-8b``` with `row: b1-p128`. The content is what to see in it."""

    required_arguments = 1
    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {"row": directives.unchanged_required}

    def run(self) -> list[Node]:
        course = of(self.env.app)
        row = self.options.get("row", "").strip()
        try:
            record = find_record(course.graph, self.arguments[0])
            found = kinds(record, row)
        except (UserError, ValueError) as error:
            raise self.error(f"measured-timeline {self.arguments[0]}: {error}") from None
        table = course.render("timeline", title=f"One step of {row}, {record.title}", kinds=found, shown_time=shown_time)
        see = self.parse_content_to_nodes() if self.content else []
        caption = element("figcaption", *see, from_graph(template="figure-foot", args={"records": [record.id]}))
        key = nodes.make_id(f"timeline-{record.id}-{row}")
        return [element("figure", raw(table), caption, klass="il-fig il-fig--table", id=key)]
