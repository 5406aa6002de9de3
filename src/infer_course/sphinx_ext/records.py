"""Measurement records as pictures and tables: which series go into one plot, in which units, and the same figures as text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape

from infer_course.figure import html_of
from infer_course.graph import Graph, texts_of
from infer_course.nodes import Measurement
from infer_course.plot import KINDS, Line, Plot
from infer_lab.units import Quantity

SHOWN_UNITS = {"1": "", "x": "×", "us": "µs", "tok": "tokens", "tok/s": "tokens/s", "req": "requests"}


def plot_of(chosen: Sequence[tuple[Measurement, str]], title: str = "", x_unit: str = "", y_unit: str = "") -> Plot:
    """Series of records in one plot, lines to the front. ValueError for an unknown series, or units that do not go together."""
    lines, units = [], []
    for owner, name in chosen:
        if name not in owner.series:
            raise ValueError(f"`{owner.id}` has no series `{name}`; it has {', '.join(owner.series) or 'none'}")
        found = owner.series[name]
        x_to, y_to = x_unit or found.x.unit, y_unit or found.y.unit
        order = sorted(range(len(found.x.values)), key=lambda i: found.x.values[i])
        p10, p90 = (_in(values, found.y.unit, y_to, order) if values else () for values in (found.y.p10, found.y.p90))
        x, y = _in(found.x.values, found.x.unit, x_to, order), _in(found.y.values, found.y.unit, y_to, order)
        lines.append(Line(found.title, found.kind, x, y, p10, p90))
        units.append((x_to, y_to))
    if len(set(units)) > 1:
        raise ValueError(f"the series have different units, {sorted(set(units))}: say `:xunit:` and `:yunit:`, or draw them apart")
    record, name = chosen[0]
    first = record.series[name]
    x_label, y_label = _axis_name(first.x.label, units[0][0]), _axis_name(first.y.label, units[0][1])
    drawn = tuple(sorted(lines, key=lambda line: -KINDS.index(line.kind)))
    plot = Plot(title or f"{record.title}: {y_label} against {x_label}", x_label, y_label, drawn)
    return Plot(plot.title, x_label, y_label, drawn, _spans_decades(plot.all_x), _spans_decades(plot.all_y))


def plots_of_record(record: Measurement) -> list[str]:
    """HTML of all that a record drew: one plot for each pair of units; lines of one name are of different cases, so each has its own."""
    groups: dict[tuple[str, str, int], list[tuple[Measurement, str]]] = {}
    titles: Counter[tuple[str, str, str]] = Counter()
    for name, found in record.series.items():
        units = (found.x.unit, found.y.unit)
        case = titles[(*units, found.title)]
        titles[(*units, found.title)] += 1
        groups.setdefault((*units, case), []).append((record, name))
    cases = [_shared_end([name for _, name in chosen]) if len(groups) > 1 else "" for chosen in groups.values()]
    drawn = []
    for number, (case, chosen) in enumerate(zip(cases, groups.values(), strict=True)):
        head = f'<p class="il-label">{escape(case)}</p>' if case else ""
        drawn.append(head + html_of(plot_of(chosen), f"all-{record.id.replace('/', '-')}-{number}"))
    return drawn


def _shared_end(names: Sequence[str]) -> str:
    """`cublas-4096x4096`, `floor-4096x4096` → `4096x4096`; nothing where a name is alone or nothing is shared."""
    ends = [tuple(reversed(re.split(r"[-_]", name))) for name in names]
    shared = [words[0] for words in zip(*ends, strict=False) if len(set(words)) == 1]
    return " ".join(reversed(shared)) if len(names) > 1 else ""


def cited_values(graph: Graph, record_id: str) -> list[str]:
    """Names of the record's values that some text cites, in the record's order."""
    citing = re.compile(re.escape(record_id) + r":([\w-]+)")
    nodes: Iterable = (*graph.lessons.values(), *graph.cards.values(), *graph.labs.values())
    texts = [*(text for node in nodes for text in texts_of(node)), *(page.text for page in graph.pages.values())]
    cited = {name for text in texts for name in citing.findall(text.body)}
    return [name for name in graph.measurements[record_id].values if name in cited]


def _in(values: tuple[float | int, ...], unit: str, wanted: str, order: list[int]) -> tuple[float, ...]:
    return tuple(float(Quantity(values[i], unit).to(wanted).value) for i in order)


def _axis_name(label: str, unit: str) -> str:
    shown = SHOWN_UNITS.get(unit, unit)
    return f"{label}, {shown}" if shown and not label.endswith(shown) else label


def _spans_decades(values: list[float]) -> bool:
    """Whether a logarithmic axis is the natural one: positive values over a factor of 30 or more."""
    return bool(values) and min(values) > 0 and max(values) >= 30 * min(values)
