"""What a calculator hands back: answers, a sentence, warnings, a table, a plot, and the formulas with the numbers in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from infer_course.calculators.fields import FieldError
from infer_course.plot import Plot
from infer_lab.errors import UserError
from infer_lab.formulas import Call, Formula, tracing, untraced
from infer_lab.units import Quantity

SHOWN_DEPTH = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """One result. text: for people. note: what it means or what stands behind it."""

    label: str
    text: str
    note: str = ""


@dataclass(slots=True)
class Sheet:
    """Filled by a calculator from top to bottom; what was there before a refusal stays."""

    answers: list[Answer] = field(default_factory=list)
    verdict: str = ""
    warnings: list[str] = field(default_factory=list)
    refused: str = ""
    steps: dict[str, Call] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    table: tuple[str, tuple[str, ...], list[tuple[str, ...]]] | None = None
    plot: Plot | None = None
    see: str = ""

    def work(self, fn: Formula[...], *args: Any, **kwargs: Any) -> Quantity:
        """Calls a formula and keeps it, and those that it called, for the working."""
        with tracing() as calls:
            result = fn(*args, **kwargs)
        for call in calls:
            if call.depth <= SHOWN_DEPTH:
                self.steps.setdefault(f"{call.name} {call.numbers}", call)
        return result

    def answer(self, label: str, value: Quantity | str, unit: str = "", spec: str = "", note: str = "") -> None:
        text = value if isinstance(value, str) else show(value, unit, spec)
        self.answers.append(Answer(label, text, note))


def show(value: Quantity, unit: str = "", spec: str = "") -> str:
    """A quantity for people: in `unit`, or in a prefix that fits its size."""
    found = value.to(unit) if unit else readable(value)
    shown = found.format(",.0f" if spec.endswith("g") and 1000 <= abs(found.value) < 1e15 else spec)
    for short, full in ((" tok/s", " tokens/s"), (" tok", " tokens"), (" req", " requests"), ("B/tok", "B/token")):
        if shown.endswith(short):
            return shown.removesuffix(short) + full
    return shown


def readable(value: Quantity) -> Quantity:
    """Bytes in decimal prefixes, seconds in s, ms or µs."""
    for base, units in (
        ("B", ("TB", "GB", "MB", "kB", "B")),
        ("s", ("s", "ms", "us")),
        ("FLOP", ("PFLOP", "TFLOP", "GFLOP", "MFLOP", "FLOP")),
    ):
        if value.unit in (base, *units):
            return next((found for unit in units if abs((found := value.to(unit)).value) >= 1), value.to(units[-1]))
    return value


@contextmanager
def at(field_name: str):
    """A refusal of the library inside belongs to this field."""
    try:
        yield
    except UserError as error:
        raise FieldError(field_name, str(error)) from None


def curve(xs: Sequence[float], y: Callable[[float], float | None]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Points of a plotted line; where y refuses (UserError) or gives None there is no point. Not part of the working."""
    found = []
    with untraced():
        for x in xs:
            try:
                value = y(x)
            except UserError:
                continue
            if value is not None:
                found.append((float(x), float(value)))
    return tuple(x for x, _ in found), tuple(y for _, y in found)


def powers(low: float, high: float, per_octave: int = 1) -> list[int]:
    """Whole numbers from low to high, evenly spread on a logarithmic axis."""
    values, k = [], 0
    while (value := round(low * 2 ** (k / per_octave))) <= high:
        values.append(value)
        k += 1
    return sorted(set(values))
