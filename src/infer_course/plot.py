"""Draws the series of a measurement record as SVG that belongs to the page: its colours are the page's, its text is text.

Why not a plotting library: a picture made elsewhere has one background, one size and no words. The colour language is fixed (predicted:
orange, dashed; measured: green, solid, with its points; limit: ink hairline; peer: purple). Every line is named where it ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil
from textwrap import wrap

from infer_course.axes import Axis, axis, plain

KINDS = ("measured", "predicted", "limit", "peer")
CHAR = 6.9  # mean width of a bold 13 px character in the system faces, with a little air
MARK_WIDTH = 13  # of a mark beside a name
FEW_POINTS, MARKS = 40, 16  # each point of a line is marked up to so many; of more, about so many
ROW, NAME_WIDTH, LEGEND_WIDTH = 15.5, 24, 44  # a row of a name, in pixels, and how many characters it holds before it breaks


@dataclass(frozen=True, slots=True)
class Line:
    """One series: its points in order of x, and the 10th and 90th percentiles of y where they were recorded.

    joined=False draws points only. A single point is a place of its own: a large dot with its name beside it. dots: mark the points of the
    line (None: those of measured and peer lines, where they are few; see `Plot.marked`).
    """

    name: str
    kind: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    p10: tuple[float, ...] = ()
    p90: tuple[float, ...] = ()
    joined: bool = True
    dots: bool | None = None

    @property
    def is_place(self) -> bool:
        return len(self.x) == 1


@dataclass(frozen=True, slots=True)
class Plot:
    """What a figure shows. `x_label` and `y_label` carry their units."""

    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_log: bool = False
    y_log: bool = False

    @property
    def curves(self) -> tuple[Line, ...]:
        return tuple(line for line in self.lines if not line.is_place)

    def marked(self, line: Line) -> range:
        """The points of a line that bear a mark. Of many points some do, where another line is of the same kind."""
        every = range(len(line.x))
        if line.dots is not None:
            return every if line.dots else range(0)
        if not line.joined:
            return every
        if line.kind not in ("measured", "peer"):
            return range(0)
        if len(line.x) <= FEW_POINTS:
            return every
        return every[:: ceil(len(line.x) / MARKS)] if self.has_twins(line) else range(0)

    def has_twins(self, line: Line) -> bool:
        return sum(other.kind == line.kind for other in self.curves) > 1

    @property
    def all_x(self) -> list[float]:
        return [value for line in self.lines for value in line.x]

    @property
    def all_y(self) -> list[float]:
        return [value for line in self.lines for value in (*line.y, *line.p10, *line.p90)]


@dataclass(frozen=True, slots=True)
class Frame:
    """The plotting area inside the picture, in pixels."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float


def draw(plot: Plot, key: str, narrow: bool = False) -> str:
    """The picture as an `<svg>` string; `key` makes its ids unique on the page. Wide: lines named at their ends. Narrow: named above."""
    y_probe = axis(plot.all_y, 1, 0, plot.y_log, 6, from_zero=not plot.y_log)
    left = 14 + max(len(plain(tick)) for tick in y_probe.ticks) * 7.2
    if narrow:
        names = sum(_legend_height(line.name) for line in plot.curves)
        frame = Frame(360, 300 + names, left, 348, 34 + names, 0)
        frame = Frame(frame.width, frame.height, left, frame.right, frame.top, frame.height - 44)
    else:
        room = max((len(part) for line in plot.curves for part in _wrapped(line.name)), default=0) * CHAR + 14 + MARK_WIDTH
        frame = Frame(720, 400, left, 720 - room, 36, 400 - 46)
    x = axis(plot.all_x, frame.left, frame.right, plot.x_log, 5 if narrow else 8)
    y = axis(plot.all_y, frame.bottom, frame.top, plot.y_log, 6, from_zero=not plot.y_log)
    parts = [
        f'<svg class="il-plot il-plot--{"narrow" if narrow else "wide"}" viewBox="0 0 {frame.width:g} {frame.height:g}" role="img" '
        f'aria-labelledby="{key}-t"><title id="{key}-t">{escape(plot.title)}</title>',
        *_grid(plot, frame, x, y, narrow),
        *(_line(line, plot.marked(line), x, y, number) for number, line in enumerate(plot.curves)),
        *(_place(line, frame, x, y) for line in plot.lines if line.is_place),
        *(_names_above(plot) if narrow else _names_at_ends(plot, frame, x, y)),
        "</svg>",
    ]
    return "".join(parts)


def _grid(plot: Plot, frame: Frame, x: Axis, y: Axis, narrow: bool) -> list[str]:
    parts = []
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<line class="il-grid" x1="{frame.left:.1f}" x2="{frame.right:.1f}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text class="il-tick" x="{frame.left - 8:.1f}" y="{at + 4.2:.1f}" text-anchor="end">{plain(tick)}</text>')
    for tick in x.ticks:
        at = x.at(tick)
        parts.append(f'<line class="il-tickmark" x1="{at:.1f}" x2="{at:.1f}" y1="{frame.bottom:.1f}" y2="{frame.bottom + 5:.1f}"/>')
        parts.append(f'<text class="il-tick" x="{at:.1f}" y="{frame.bottom + 19:.1f}" text-anchor="middle">{plain(tick)}</text>')
    parts.append(f'<line class="il-axis" x1="{frame.left:.1f}" x2="{frame.right:.1f}" y1="{frame.bottom:.1f}" y2="{frame.bottom:.1f}"/>')
    top = 14
    parts.append(f'<text class="il-axis-name" x="0" y="{top}">{escape(plot.y_label)}</text>')
    parts.append(f'<text class="il-axis-name" x="{frame.right:.1f}" y="{frame.height - 6}" text-anchor="end">{escape(plot.x_label)}</text>')
    return parts


def _line(line: Line, marked: range, x: Axis, y: Axis, number: int) -> str:
    points = [(x.at(a), y.at(b)) for a, b in zip(line.x, line.y, strict=True)]
    parts = []
    if line.p10 and line.p90:
        upper = [(x.at(a), y.at(b)) for a, b in zip(line.x, line.p90, strict=True)]
        lower = [(x.at(a), y.at(b)) for a, b in zip(line.x, line.p10, strict=True)]
        parts.append(f'<polygon class="il-band il-k-{line.kind}" points="{_coordinates([*upper, *reversed(lower)])}"/>')
    if line.joined:
        parts.append(f'<polyline class="il-line il-k-{line.kind}" points="{_coordinates(points)}"/>')
    for i in marked:
        said = f"<title>{escape(line.name)}: {plain(line.y[i])} at {plain(line.x[i])}</title>"
        parts.append(f'<g class="il-dot il-k-{line.kind}">{said}{_marker(*points[i], number)}</g>')
    return "".join(parts)


def _place(line: Line, frame: Frame, x: Axis, y: Axis) -> str:
    """One point that matters, over everything else, its name on the side where there is room."""
    px, py = x.at(line.x[0]), y.at(line.y[0])
    left = px > (frame.left + frame.right) / 2
    at = f'x="{px + (-11 if left else 11):.1f}" y="{max(py - 9, frame.top - 6):.1f}" text-anchor="{"end" if left else "start"}"'
    dot = f'<circle cx="{px:.1f}" cy="{py:.1f}" r="6"/>'
    return f'<g class="il-dot il-k-{line.kind}">{dot}</g><text class="il-name il-place il-k-{line.kind}" {at}>{escape(line.name)}</text>'


def _marker(px: float, py: float, number: int) -> str:
    """A second sign beside colour: lines of one kind differ in the shape of their points."""
    shape = number % 3
    if shape == 1:
        return f'<rect x="{px - 3.2:.1f}" y="{py - 3.2:.1f}" width="6.4" height="6.4"/>'
    if shape == 2:
        return f'<path d="M{px:.1f} {py - 4.2:.1f}l4.2 7.2h-8.4z"/>'
    return f'<circle cx="{px:.1f}" cy="{py:.1f}" r="3.6"/>'


def _coordinates(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{px:.1f},{py:.1f}" for px, py in points)


def _wrapped(name: str) -> list[str]:
    return wrap(name, NAME_WIDTH) or [""]


def _names_at_ends(plot: Plot, frame: Frame, x: Axis, y: Axis) -> list[str]:
    """Each name where its line ends, pushed apart where they would cover each other, with a hairline back where one had to move, and with
    the line's mark where others of its kind have another."""
    ends = sorted(((y.at(line.y[-1]), x.at(line.x[-1]), number, line) for number, line in enumerate(plot.curves)), key=lambda end: end[0])
    heights = [ROW * len(_wrapped(line.name)) + 2 for *_, line in ends]
    edge, parts = frame.right + 10, []
    middles = apart([at for at, *_ in ends], heights, frame.top - 20, frame.bottom + 4)
    for (at, end, number, line), middle in zip(ends, middles, strict=True):
        if abs(middle - at) > 5 or end < frame.right - 6:
            parts.append(f'<polyline class="il-leader" points="{end + 6:.1f},{at:.1f} {edge - 2:.1f},{middle:.1f}"/>')
        rows, start = _wrapped(line.name), edge
        first = middle - ROW * (len(rows) - 1) / 2 + 4.4
        if plot.marked(line) and plot.has_twins(line):
            parts.append(f'<g class="il-dot il-k-{line.kind}">{_marker(edge + 4, first - 4.4, number)}</g>')
            start += MARK_WIDTH
        spans = "".join(f'<tspan x="{start:.1f}" y="{first + ROW * n:.1f}">{escape(row)} </tspan>' for n, row in enumerate(rows))
        parts.append(f'<text class="il-name il-k-{line.kind}">{spans}</text>')
    return parts


def apart(wanted: Sequence[float], heights: Sequence[float], low: float, high: float) -> list[float]:
    """Middles of labels of those heights, as near to the wanted ones (ascending) as they can be without touching, inside low..high."""
    placed: list[float] = []
    for at, height in zip(wanted, heights, strict=True):
        least = placed[-1] + (heights[len(placed) - 1] + height) / 2 if placed else low + height / 2
        placed.append(max(at, least))
    for index in range(len(placed) - 1, -1, -1):
        last = index == len(placed) - 1
        most = high - heights[index] / 2 if last else placed[index + 1] - (heights[index] + heights[index + 1]) / 2
        placed[index] = min(placed[index], most)
    return placed


def _legend_rows(name: str) -> list[str]:
    return wrap(name, LEGEND_WIDTH) or [""]


def _legend_height(name: str) -> float:
    return 19 + ROW * (len(_legend_rows(name)) - 1)


def _names_above(plot: Plot) -> list[str]:
    parts, at = [], 36.0
    for number, line in enumerate(plot.curves):
        if line.joined:
            parts.append(f'<line class="il-line il-k-{line.kind}" x1="0" x2="26" y1="{at - 4.5:g}" y2="{at - 4.5:g}"/>')
        if plot.marked(line):
            parts.append(f'<g class="il-dot il-k-{line.kind}">{_marker(13, at - 4.5, number)}</g>')
        rows = enumerate(_legend_rows(line.name))
        spans = "".join(f'<tspan x="34" y="{at + ROW * n:g}">{escape(row)} </tspan>' for n, row in rows)
        parts.append(f'<text class="il-name il-k-{line.kind}">{spans}</text>')
        at += _legend_height(line.name)
    return parts
