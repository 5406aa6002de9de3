"""A roofline with every case of some records on it: where its intensity puts it, and how near to the limits of the same machine it came.

Operations are told apart by letters, which read without colour and at any size. (Williams, Waterman, Patterson: Roofline, CACM 2009.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from string import ascii_uppercase

from infer_course.axes import Axis, axis, plain
from infer_course.nodes import Measurement
from infer_course.sphinx_ext.compared import Compared, compared
from infer_lab.units import Quantity

LEGEND_ROW = 19


@dataclass(frozen=True, slots=True)
class Roofline:
    """bandwidth in TB/s and peak in TFLOP/s (16-bit; 8-bit units reach twice that); cases by operation, in order."""

    title: str
    bandwidth: float
    peak: float
    cases: dict[str, list[Compared]]


def roofline(records: Sequence[Measurement], limits: Measurement) -> Roofline:
    """limits: a record with `read_stream` and `matmul_bf16`, as benchmarks/limits.py writes it, of the same machine as the others."""
    stream, matmul = (Quantity(limits.values[name].value, limits.values[name].unit) for name in ("read_stream", "matmul_bf16"))
    cases: dict[str, list[Compared]] = {}
    for record in records:
        if record.device.slug != limits.device.slug:
            raise ValueError(f"`{record.id}` is of another machine than `{limits.id}`")
        for row in compared(record):
            cases.setdefault(row.operation, []).append(row)
    return Roofline(f"Roofline of {limits.device.name}", float(stream.to("TB/s").value), float(matmul.to("TFLOP/s").value), cases)


def roofline_html(roof: Roofline, key: str) -> str:
    """The picture for wide and for narrow places."""
    return f'<div class="il-plot-box">{_draw(roof, f"{key}-w", False)}{_draw(roof, f"{key}-n", True)}</div>'


def _draw(roof: Roofline, key: str, narrow: bool) -> str:
    columns = 1 if narrow else 3
    names = list(roof.cases)
    legend_height = LEGEND_ROW * -(-len(names) // columns)
    width, height = (360, 330 + legend_height) if narrow else (720, 430 + legend_height)
    left, right, top, bottom = 58, width - 8, 34 + legend_height, height - 46
    points = [(row.flops / row.nbytes, row.flops / row.us / 1e6) for rows in roof.cases.values() for row in rows]
    ridge = roof.peak / roof.bandwidth
    x = axis([*(p[0] / 1.5 for p in points), *(p[0] * 1.5 for p in points), 4 * ridge], left, right, True, 5 if narrow else 8)
    y = axis([*(p[1] / 2 for p in points), 2.5 * roof.peak], bottom, top, True, 6)
    parts = [
        f'<svg class="il-plot il-plot--{"narrow" if narrow else "wide"}" viewBox="0 0 {width} {height}" role="img" '
        f'aria-labelledby="{key}-t"><title id="{key}-t">{escape(roof.title)}</title>',
        *(
            _legend(number, name, number % columns * width / columns, 10 + LEGEND_ROW * (number // columns))
            for number, name in enumerate(names)
        ),
        *_axes(x, y, left, right, bottom, top),
        *_roofs(roof, x, y),
    ]
    for number, rows in enumerate(roof.cases.values()):
        for row in rows:
            said = f"{row.operation}, {row.shape}: {row.rate}, {row.share:.0%} of the floor's speed"
            parts.append(_letter(number, x.at(row.flops / row.nbytes), y.at(row.flops / row.us / 1e6), said))
    return "".join(parts) + "</svg>"


def _axes(x: Axis, y: Axis, left: float, right: float, bottom: float, top: float) -> list[str]:
    parts = [f'<line class="il-axis" x1="{left}" x2="{right}" y1="{bottom}" y2="{bottom}"/>']
    for tick in y.ticks:
        parts.append(f'<line class="il-grid" x1="{left}" x2="{right}" y1="{y.at(tick):.1f}" y2="{y.at(tick):.1f}"/>')
        parts.append(f'<text class="il-tick" x="{left - 8}" y="{y.at(tick) + 4.2:.1f}" text-anchor="end">{plain(tick)}</text>')
    for tick in x.ticks:
        parts.append(f'<text class="il-tick" x="{x.at(tick):.1f}" y="{bottom + 19}" text-anchor="middle">{plain(tick)}</text>')
    parts.append(f'<text class="il-axis-name" x="0" y="{top - 12}">TFLOP/s</text>')
    parts.append(f'<text class="il-axis-name" x="{right}" y="{bottom + 40}" text-anchor="end">operations per byte</text>')
    return parts


def _roofs(roof: Roofline, x: Axis, y: Axis) -> list[str]:
    """The slope of the read stream from the left edge up, and where 16-bit and 8-bit units leave it."""
    start, end, parts = max(x.low, y.low / roof.bandwidth), x.high, []
    for peak, words in ((roof.peak, "16-bit matrix limit"), (2 * roof.peak, "8-bit: twice that")):
        corners = [(start, start * roof.bandwidth), (peak / roof.bandwidth, peak), (end, peak)]
        line = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in corners)
        parts.append(f'<polyline class="il-line il-k-limit" points="{line}"/>')
        place = f'x="{x.at(peak / roof.bandwidth) + 12:.1f}" y="{y.at(peak) + 15:.1f}"'
        parts.append(f'<text class="il-name il-k-limit" {place}>{words}</text>')
    return parts


def _legend(number: int, name: str, x: float, y: float) -> str:
    return f'{_letter(number, x + 8, y, name)}<text class="il-name il-k-measured" x="{x + 22:.0f}" y="{y + 4.4:.1f}">{escape(name)}</text>'


def _letter(number: int, x: float, y: float, said: str) -> str:
    letter = ascii_uppercase[number % len(ascii_uppercase)]
    return (
        f'<g class="il-letter" transform="translate({x:.1f} {y:.1f})"><title>{escape(said)}</title><circle r="7.5"/>'
        f'<text y="3.6" text-anchor="middle">{letter}</text></g>'
    )
