"""A card whose answer is a number asks for it first: whoever has put one down reads the answer differently.

The page judges by the card's own `estimate`: the expression is computed when the page is built, and the form carries what it comes to in
each unit that a reader might choose. Choosing the unit is part of the answer (GB is not GiB), so none is chosen beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass

from infer_course import calc
from infer_course.graph import Graph
from infer_course.nodes import Card
from infer_lab.errors import UserError
from infer_lab.units import Quantity

UNITS = (
    ("B", "kB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB"),
    ("us", "ms", "s", "min"),
    ("MFLOP", "GFLOP", "TFLOP", "PFLOP"),
    ("MB/s", "GB/s", "TB/s"),
    ("GFLOP/s", "TFLOP/s", "PFLOP/s"),
)
SHOWN = {"us": "µs", "1": "", "x": "×", "tok": "tokens", "tok/s": "tokens/s", "req": "requests"}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the form needs: choices are (unit as shown, the right value in it); one choice means that the unit is given."""

    choices: tuple[tuple[str, float], ...]
    percent: float
    answer: str
    value: float


def asked_of(card: Card, graph: Graph) -> Asked | None:
    """The estimate that the card asks for, or None when it asks for none."""
    if card.estimate is None:
        return None
    found = calc.evaluate(f"{card.estimate.expr} | {card.estimate.unit}", graph)
    units = next((group for group in UNITS if card.estimate.unit in group), (card.estimate.unit,))
    choices = tuple((SHOWN.get(unit, unit), value) for unit in units if (value := _in(found.quantity, unit)) is not None)
    return Asked(choices, card.estimate.tolerance * 100, found.text, float(found.quantity.value))


def _in(value: Quantity, unit: str) -> float | None:
    try:
        return float(value.to(unit).value)
    except UserError:
        return None
