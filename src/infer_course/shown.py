"""The `| unit format` tail that the `{calc}` and `{measured}` roles share, and how a quantity is shown with it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infer_lab.errors import UserError
from infer_lab.units import Quantity

_SPEC = re.compile(r"^,?(\.\d{1,2})?[dfeg]?$")


@dataclass(frozen=True, slots=True)
class Tail:
    """What stands before the bar, and the unit and format after it ("" where there is none). `column` is where the tail begins."""

    head: str
    unit: str
    spec: str


def split_tail(text: str) -> Tail:
    """`a / b | GiB .2f` → head `a / b`, unit `GiB`, spec `.2f`. UserError for a tail of any other form."""
    head, bar, tail = text.partition("|")
    words = tail.split()
    unit, spec = "", ""
    if words and not _SPEC.match(words[0]):
        unit = words.pop(0)
    if words and _SPEC.match(words[0]):
        spec = words.pop(0)
    if bar and (words or not (unit or spec)):
        raise UserError(f"after the bar comes a unit and perhaps a format, such as `| GiB .2f`; got `|{tail}`")
    return Tail(head.strip(), unit, spec)


def convert(value: Quantity, unit: str) -> Quantity:
    """`value` in `unit`; without one only a plain number may stay as it is. UserError says which kind was asked and which came."""
    if unit:
        return value.to(unit)
    if value.is_count:
        return value.to("1") if value.unit not in ("%", "x", "1") else value
    raise UserError(f"the result is {value}: say in which unit to show it, e.g. `| {_example(value)}`")


def render(value: Quantity, spec: str) -> str:
    """Number and unit as the reader sees them."""
    if spec.endswith("d") and not isinstance(value.value, int):
        raise UserError(f"the format `{spec}` is for whole numbers, and {value} is not one; use e.g. `.1f`")
    return value.format(spec)


def grouped(text: str) -> str:
    """`2034 tok/s` → `2,034 tok/s`, so that figures of four digits look like those of five beside them."""
    return re.sub(r"(?<![\d.,])(\d)(\d{3})(?![\d])", r"\1,\2", text)


def count(number: int, name: str) -> str:
    """`1 lesson`, `3 lessons`."""
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _example(value: Quantity) -> str:
    for unit in ("GiB", "ms", "TFLOP", "GB/s", "TFLOP/s", "FLOP/B", "tok/s"):
        try:
            value.to(unit)
        except UserError:
            continue
        return unit
    return value.unit
