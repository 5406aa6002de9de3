"""What every formula checks of its arguments, and the two roundings that keep whole numbers whole."""

from __future__ import annotations

from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError, UserError
from infer_lab.units import Number, Quantity, quantity

Count = int | float | Quantity


def count(value: Count, name: str, least: int = 0) -> int:
    """A whole number of at least `least`; a Quantity must be without dimension."""
    number = quantity(value)
    if not number.is_count:
        raise UserError(f"{name} is a count, got {number}")
    if number.base < least or number.base != int(number.base):
        raise UserError(f"{name} is a whole number of at least {least}, got {number}")
    return int(number.base)


def positive(value: Count, name: str, unit: str = "1", zero: bool = False) -> Quantity:
    """A finite amount above 0 (or of 0, with `zero`) in `unit`."""
    amount = quantity(value, unit)
    if not (0 <= amount.value < float("inf")) or (not zero and amount.value == 0):
        raise UserError(f"{name} is {'at least' if zero else 'more than'} 0, got {amount}")
    return amount


def share(value: Count, name: str, whole: bool = True) -> float:
    """A number in [0, 1], or in [0, 1) where the whole itself makes no sense."""
    number = float(quantity(value))
    if not 0 <= number <= 1 or (number == 1 and not whole):
        raise UserError(f"{name} is a share, from 0 {'to' if whole else 'to below'} 1; got {number:g}")
    return number


def check_tp(model: ModelConfig, tp: int) -> None:
    if not isinstance(tp, int) or tp < 1:
        raise UserError(f"tp is a whole number of GPUs, at least 1; got {tp!r}")
    if model.num_heads % tp:
        raise NotApplicableError(f"{model.name}: {model.num_heads} query heads do not split evenly over tp={tp}")


def whole(value: Number) -> Number:
    """Half a byte per element (int4) must not turn whole totals into floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def split(total: Number, parts: int) -> Quantity:
    """`total` bytes, divided evenly."""
    return Quantity(whole(total), "B") / parts
