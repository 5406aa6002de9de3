"""What an expression of the `{calc}` role may name, and nothing else: formulas, model shapes, cards, and a few plain functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from infer_lab import calculator, hardware
from infer_lab.errors import UserError
from infer_lab.presets import PRESETS
from infer_lab.units import Quantity, quantity


@lru_cache(maxsize=1)
def names() -> Mapping[str, Any]:
    """Everything that an expression may name: calculator formulas, model shapes, cards, and a few plain functions."""
    formulas = {name: found for name in calculator.__all__ if isinstance(found := getattr(calculator, name), calculator.Formula)}
    models = {name.replace("-", "_").replace(".", "_"): model for name, model in PRESETS.items()}
    plain = {"quantity": quantity, "min": min, "max": max, "ceil": _ceil, "floor": _floor}
    return {**models, **hardware.GPUS, **formulas, **plain}


def _ceil(value: Quantity | float) -> int:
    return math.ceil(_plain_count(value))


def _floor(value: Quantity | float) -> int:
    return math.floor(_plain_count(value))


def _plain_count(value: Quantity | float) -> float:
    number = quantity(value)
    if not number.is_count:
        raise UserError(f"only a plain number is rounded to a whole one, not {number}")
    return number.base


def figures_of(owner: Any) -> Mapping[str, int | float | Quantity]:
    """The numbers of a model shape or a card, by field name."""
    if not is_dataclass(owner) or isinstance(owner, (type, Quantity)):
        return {}
    values = {entry.name: getattr(owner, entry.name) for entry in fields(owner)}
    return {name: v for name, v in values.items() if isinstance(v, (int, float, Quantity)) and not isinstance(v, bool)}
