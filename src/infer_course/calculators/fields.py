"""What a reader may enter: labelled fields, and how their text is read. The only place where text becomes numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from infer_course.errors import CourseError
from infer_lab.errors import UserError
from infer_lab.units import Quantity, quantity

Kind = Literal["choice", "count", "number", "share", "amount"]
_NUMBER = re.compile(r"([+-]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d[\d_ ]*)(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*(.*)", re.IGNORECASE)
_THOUSANDS = {"k": 10**3, "K": 2**10, "Ki": 2**10, "M": 10**6, "Mi": 2**20}
_SPELT = {"µs": "us", "mb": "MB", "gb": "GB", "tb": "TB", "kib": "KiB", "mib": "MiB", "gib": "GiB", "gb/s": "GB/s", "tb/s": "TB/s"}


class FieldError(CourseError):
    """What stands in a field cannot be used; `field` is its name, the message says what would do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True, slots=True)
class Field:
    """One input. default: its text. unit: of a bare number. low, high: the allowed range, in `unit`. when: (other field, its values) for
    a field that is there for some choices only. more: among the inputs that are folded away."""

    name: str
    label: str
    default: str
    kind: Kind = "count"
    unit: str = ""
    options: tuple[tuple[str, str], ...] = ()
    hint: str = ""
    low: float = 0
    high: float = 1e18
    when: tuple[str, tuple[str, ...]] | None = None
    more: bool = False

    def read(self, text: str) -> Any:
        """The value of `text`: the chosen option, an int, a float or a Quantity. FieldError if it is none."""
        text = text.strip()
        if self.kind == "choice":
            if text not in dict(self.options):
                raise FieldError(self.name, f"choose one of {', '.join(shown for _, shown in self.options)}")
            return text
        found = _NUMBER.fullmatch(text)
        if found and found[2].startswith(","):
            raise FieldError(self.name, "a comma parts thousands, as in 131,072; write a fraction with a point")
        if not found or len(text) > 40:
            raise FieldError(self.name, f"write a number{f', in {self._spoken_unit}' if self.unit else ''}, such as {self.default}")
        value, unit = float(re.sub(r"[,_ ]", "", found[1])), found[2].strip()
        if not math.isfinite(value):
            raise FieldError(self.name, "write a number of reasonable size")
        read = getattr(self, f"_{self.kind}")(value, unit)
        plain = float(read.to(self.unit).value if isinstance(read, Quantity) else read)
        if not self.low <= plain <= self.high:
            raise FieldError(self.name, f"from {self._bound(self.low)} to {self._bound(self.high)}, got {text}")
        return read

    def spelt_out(self, text: str) -> str:
        """How `text` was understood, where that is not plain: `128K` is 131,072."""
        value, bare = self.read(text), re.fullmatch(r"\s*[\d.]+\s*", text)
        if self.kind == "choice" or bare:
            return ""
        shown = f"{value:,}" if isinstance(value, int) else str(value) if isinstance(value, Quantity) else f"{value:.6g}"
        return "" if shown.replace(",", "") == text.strip().replace(",", "") else f"= {shown}"

    @property
    def _spoken_unit(self) -> str:
        return {"1/s": "requests a second", "tok": "tokens", "us": "µs"}.get(self.unit, self.unit)

    def _bound(self, value: float) -> str:
        return f"{value:,.0f}" if value >= 1 or value == 0 else f"{value:g}"

    def _count(self, value: float, unit: str) -> int:
        if unit in ("tokens", "tok", "token", ""):
            unit, factor = "", 1
        elif unit in _THOUSANDS:
            factor = _THOUSANDS[unit]
        else:
            raise FieldError(self.name, f"“{unit}” means nothing here: write a whole number, or 128K for 131,072")
        if (value * factor) % 1:
            raise FieldError(self.name, "write a whole number")
        return int(value * factor)

    def _number(self, value: float, unit: str) -> float:
        if unit in ("x", "×", ""):
            return value
        raise FieldError(self.name, f"write a plain number, without “{unit}”")

    def _share(self, value: float, unit: str) -> float:
        if unit not in ("", "%"):
            raise FieldError(self.name, "write a share, such as 0.8 or 80%")
        return value / 100 if unit else value

    def _amount(self, value: float, unit: str) -> Quantity:
        plain: int | float = int(value) if value.is_integer() else value
        if not unit or unit == self._spoken_unit:
            return Quantity(plain, self.unit)
        try:
            return quantity(Quantity(plain, _SPELT.get(unit, unit)), self.unit)
        except UserError:
            raise FieldError(self.name, f"“{unit}” is no unit of this: write it in {self._spoken_unit}") from None


@dataclass(frozen=True, slots=True)
class Read:
    """All fields of a form, read: `values` of those that could be, `errors` of the others by field name, `hidden` those not asked for."""

    values: Mapping[str, Any]
    errors: Mapping[str, str]
    hidden: tuple[str, ...]
    spelt: Mapping[str, str]


def read_all(fields: tuple[Field, ...], texts: Mapping[str, str]) -> Read:
    """Reads the fields from `texts`; a name that is missing takes its default, a name that is unknown is left alone."""
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    spelt: dict[str, str] = {}
    hidden = []
    for field in fields:
        text = str(texts.get(field.name, field.default))
        if field.when and str(texts.get(field.when[0], "")) not in field.when[1]:
            hidden.append(field.name)
            text = field.default
        try:
            values[field.name] = field.read(text)
            spelt[field.name] = field.spelt_out(text)
        except FieldError as error:
            errors[field.name] = str(error)
    return Read(values, errors, tuple(hidden), {name: text for name, text in spelt.items() if text})
