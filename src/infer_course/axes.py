"""Axes of a drawn figure: where the ticks stand, what they say, and where a value falls. Linear, or logarithmic with plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Axis:
    """Maps `low..high` onto `start..end` in pixels (end < start for an axis that goes up)."""

    low: float
    high: float
    start: float
    end: float
    log: bool
    ticks: tuple[float, ...]

    def at(self, value: float) -> float:
        low, high, value = (math.log(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def axis(values: Sequence[float], start: float, end: float, log: bool, most_ticks: int, from_zero: bool = False) -> Axis:
    """An axis that holds `values`. ValueError where a logarithmic one cannot: zero or less."""
    if not values:
        raise ValueError("there is nothing to draw")
    low, high = min(values), max(values)
    if log:
        if low <= 0:
            raise ValueError(f"a logarithmic axis cannot hold {low:g}")
        if low == high:
            low, high = low / 2, high * 2
        ticks = _log_ticks(values, low, high, most_ticks)
        return Axis(min(low, ticks[0]), max(high, ticks[-1]), start, end, True, ticks)
    if from_zero:
        low = min(low, 0.0)
    if low == high:
        low, high = low - 1, high + 1
    ticks = _linear_ticks(low, high, most_ticks)
    return Axis(low if not from_zero else min(low, ticks[0]), max(high, ticks[-1]), start, end, False, ticks)


def _linear_ticks(low: float, high: float, most: int) -> tuple[float, ...]:
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.ceil(high / step - 1e-9)
    ticks = tuple(round(k * step, 12) for k in range(first, last + 1))
    return ticks if len(ticks) <= most else tuple(t for t in ticks if t <= high * (1 + 1e-9))


def _log_ticks(values: Sequence[float], low: float, high: float, most: int) -> tuple[float, ...]:
    """Powers of two where the values are such, otherwise 1-2-5 or decades, thinned until they fit."""
    if all(value >= 1 and math.log2(value).is_integer() for value in values):
        first, last = round(math.log2(low)), round(math.log2(high))
        step = max(1, math.ceil((last - first) / (most - 1)))
        return tuple(2.0**k for k in range(first, last + 1, step))
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for parts in ((1, 2, 5), (1, 3), (1,)):
        ticks = tuple(m * 10.0**k for k in decades for m in parts if low * 0.999 <= m * 10.0**k <= high * 1.001)
        if 2 <= len(ticks) <= most:
            return ticks
    every = max(1, math.ceil(len(decades) / most))
    ticks = tuple(10.0**k for k in decades[::every])
    return ticks if len(ticks) > 1 else (low, high)


def plain(value: float) -> str:
    """A tick as people write it: 1,024; 0.5; 1e-6 only where nothing shorter reads well."""
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e9:
        text = f"{value:,.4f}".rstrip("0").rstrip(".")
        return text if abs(value) < 1000 else f"{value:,.0f}" if float(value).is_integer() else text
    return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")
