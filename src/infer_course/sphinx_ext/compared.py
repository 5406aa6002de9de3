"""Our kernels beside what a user would pick instead, and beside the machine: what the cases of a record come to.

A case (see `schema.MeasuredCase`) knows the fewest bytes and operations of its work, the shortest time that the measured limits allow (the
floor), our time and those of peers. From that come a picture (share of the floor's speed), a table, and the place on a roofline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from infer_course.nodes import Measurement
from infer_lab.units import Quantity

ROW, HEAD, FOOT = 22, 30, 46  # heights in pixels: of a case, of an operation's name, of the axis
STEPS = (0, 0.25, 0.5, 0.75, 1)


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer's time, and how many times as long as ours it is."""

    label: str
    us: float
    ratio: float


@dataclass(frozen=True, slots=True)
class Compared:
    """One case, times in microseconds. `share`: the floor over our time."""

    operation: str
    shape: str
    us: float
    floor_us: float
    flops: float
    nbytes: float
    rivals: tuple[Rival, ...]

    @property
    def share(self) -> float:
        return self.floor_us / self.us

    @property
    def rate(self) -> str:
        """What was reached, in the unit of what limits the work."""
        if self.flops / self.nbytes > 100:
            return Quantity(self.flops / self.us * 1e6, "FLOP/s").to("TFLOP/s").format(".0f")
        return Quantity(self.nbytes / self.us * 1e6, "B/s").to("TB/s").format(".2f")


def compared(record: Measurement, operations: Iterable[str] = ()) -> list[Compared]:
    """The cases of the record, in its order; all, or those of some operations. ValueError where there are none."""
    wanted = set(operations)
    if unknown := wanted - {case.operation for case in record.cases.values()}:
        raise ValueError(f"`{record.id}` has no case of {', '.join(sorted(unknown))}")
    rows = []
    for case in record.cases.values():
        if not wanted or case.operation in wanted:
            us = _us(record, case.ours)
            rivals = tuple(Rival(label, _us(record, name), _us(record, name) / us) for label, name in case.peers.items())
            rows.append(Compared(case.operation, case.shape, us, case.floor_us, case.flops, case.bytes, rivals))
    if not rows:
        raise ValueError(f"`{record.id}` holds no cases to compare")
    return rows


def by_operation(rows: Sequence[Compared]) -> list[tuple[str, list[Compared]]]:
    return [(operation, [row for row in rows if row.operation == operation]) for operation in dict.fromkeys(row.operation for row in rows)]


def shown_time(us: float) -> str:
    """In the unit that a kernel's time, a step's or a whole run's reads well in."""
    unit = "us" if us < 1e4 else "ms" if us < 1e7 else "s"
    return Quantity(us, "us").to(unit).format()


def _us(record: Measurement, name: str) -> float:
    value = record.values[name]
    return float(Quantity(value.value, value.unit).to("us").value)


# -- share of the floor's speed, a row for each case ----------------------------------------------------------------------------


def shares_html(rows: Sequence[Compared], title: str, key: str) -> str:
    """The picture for wide and for narrow places."""
    return f'<div class="il-plot-box">{_shares(rows, title, f"{key}-w", False)}{_shares(rows, title, f"{key}-n", True)}</div>'


def _shares(rows: Sequence[Compared], title: str, key: str, narrow: bool) -> str:
    width, left, right = (360, 6, 340) if narrow else (720, 286, 700)
    row_height = ROW * 2 - 8 if narrow else ROW
    most = max(1.0, *(share for row in rows for share in (row.share, *(row.floor_us / rival.us for rival in row.rivals))))
    labels = list(dict.fromkeys(rival.label for row in rows for rival in row.rivals))

    def at(share: float) -> float:
        return left + share / most * (right - left)

    y, parts = 10.0 + 19 * (1 + (len(labels) if narrow else -(-len(labels) // 2))), []
    top = y
    for operation, group in by_operation(rows):
        y += HEAD
        parts.append(f'<text class="il-axis-name" x="0" y="{y - 9:g}">{escape(operation)}</text>')
        for row in group:
            middle = y + row_height - 11
            parts.append(f'<line class="il-grid" x1="{left}" x2="{right}" y1="{middle:g}" y2="{middle:g}"/>')
            parts.append(
                f'<text class="il-tick" x="{0 if narrow else 12}" y="{middle - 14 if narrow else middle + 4:g}">{escape(row.shape)}</text>'
            )
            for rival in row.rivals:
                said = f"{rival.label}: {shown_time(rival.us)}, {row.floor_us / rival.us:.0%} of the floor's speed"
                parts.append(_mark("peer", at(row.floor_us / rival.us), middle, labels.index(rival.label), said))
            parts.append(_mark("measured", at(row.share), middle, -1, f"ours: {shown_time(row.us)}, {row.share:.0%} of the floor's speed"))
            y += row_height
    ticks = "".join(
        f'<line class="il-{"axis" if step == 1 else "grid"}" x1="{at(step):.1f}" x2="{at(step):.1f}" y1="{top:g}" y2="{y + 4:g}"/>'
        f'<text class="il-tick" x="{at(step):.1f}" y="{y + 20:g}" text-anchor="middle">{step:.0%}</text>'
        for step in STEPS
    )
    name = f'<text class="il-axis-name" x="{right}" y="{y + 38:g}" text-anchor="end">share of the floor&#39;s speed</text>'
    legend = _legend(labels, narrow)
    return (
        f'<svg class="il-plot il-plot--{"narrow" if narrow else "wide"}" viewBox="0 0 {width} {y + FOOT:g}" role="img" '
        f'aria-labelledby="{key}-t"><title id="{key}-t">{escape(title)}</title>{legend}{ticks}{"".join(parts)}{name}</svg>'
    )


def _legend(labels: Sequence[str], narrow: bool) -> str:
    parts = [_mark("measured", 6, 8, -1, "ours"), '<text class="il-name il-k-measured" x="16" y="12.4">ours</text>']
    for number, label in enumerate(labels):
        x, y = (0, 8 + 19 * (number + 1)) if narrow else (360 * (number % 2), 8 + 19 * (number // 2 + 1))
        parts.append(_mark("peer", x + 6, y, number, label))
        parts.append(f'<text class="il-name il-k-peer" x="{x + 16}" y="{y + 4.4:g}">{escape(label)}</text>')
    return "".join(parts)


def _mark(kind: str, x: float, y: float, number: int, said: str) -> str:
    """Ours is a disc; peers differ in shape, and in being filled or not, since all have the colour of peers."""
    shapes = ("M-4 -4h8v8h-8z", "M0 -5l4.6 8.4h-9.2z", "M0 -5.4l5.4 5.4l-5.4 5.4l-5.4 -5.4z", "M0 5l4.6 -8.4h-9.2z")
    path = "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0 -9.2 0z" if number < 0 else shapes[number % 4]
    hollow = " il-hollow" if number >= 4 else ""
    return (
        f'<path class="il-dot il-k-{kind}{hollow}" transform="translate({x:.1f} {y:.1f})" d="{path}"><title>{escape(said)}</title></path>'
    )
