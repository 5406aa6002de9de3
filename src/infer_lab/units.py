"""Numbers that know their unit, so that GB is never taken for GiB, nor bytes for seconds.

Why: most wrong answers in capacity arithmetic are not wrong formulas but mixed units (80 GB is 74.5 GiB). A `Quantity` carries its unit
through + - * /, refuses to add or convert across kinds, and keeps whole numbers whole: `Quantity(131_072, "B").to("KiB")` is exactly 128.

Kinds: bytes (B, kB … TB decimal; KiB … TiB binary), operations (FLOP), time (s, ms, us, ns, min, h), and quotients ("GB/s", "FLOP/B").
Counted things (`tok`, `step`, `req`, `x`, `%`, `1`) have no dimension, as radians have none: a rate of 1/s may be read as tok/s,
and bytes per token (`B/tok`) as bytes.
Pure Python: it also runs in the browser.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from infer_lab.errors import UnitError

Number = int | float
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_COUNTED = frozenset({"tok", "step", "req"})

# symbol → (base symbol, scale). An empty base means a pure number.
_UNITS: dict[str, tuple[str, Fraction]] = {
    "1": ("", Fraction(1)), "x": ("", Fraction(1)), "%": ("", Fraction(1, 100)),
    "B": ("B", Fraction(1)), "FLOP": ("FLOP", Fraction(1)), "s": ("s", Fraction(1)),
    "ms": ("s", Fraction(1, 10**3)), "us": ("s", Fraction(1, 10**6)), "ns": ("s", Fraction(1, 10**9)),
    "min": ("s", Fraction(60)), "h": ("s", Fraction(3600)),
    **{name: (name, Fraction(1)) for name in _COUNTED},
    **{f"{p}B": ("B", Fraction(f)) for p, f in (_DECIMAL | _BINARY).items()},
    **{f"{p}FLOP": ("FLOP", Fraction(f)) for p, f in _DECIMAL.items() if p != "k"},
}  # fmt: skip
_SHOWN = {"us": "µs", "x": "×"}


@dataclass(frozen=True, slots=True)
class _Unit:
    """scale · product of base symbols to their powers; `kind` leaves out the counted ones, which any count may stand for."""

    powers: tuple[tuple[str, int], ...]
    scale: Fraction

    @property
    def kind(self) -> tuple[tuple[str, int], ...]:
        return tuple((s, p) for s, p in self.powers if s not in _COUNTED)

    @property
    def name(self) -> str:
        """The unprefixed unit of these dimensions, e.g. `B/tok`."""
        above = [s if p == 1 else f"{s}^{p}" for s, p in self.powers if p > 0]
        below = [s if p == -1 else f"{s}^{-p}" for s, p in self.powers if p < 0]
        return "/".join(["*".join(above) or "1", *below])


@lru_cache(maxsize=512)
def _parse(text: str) -> _Unit:
    powers: dict[str, int] = {}
    scale = Fraction(1)
    for i, part in enumerate(text.split("/")):
        sign = 1 if i == 0 else -1
        for factor in part.split("*"):
            symbol, _, exponent = factor.strip().partition("^")
            if symbol not in _UNITS or (exponent and not exponent.isdigit()):
                near = "".join(f" (write {known})" for known in _UNITS if known != symbol and known.lower() == symbol.lower())
                raise UnitError(f"no unit is called {text!r}{near}; units are {', '.join(_UNITS)}, and quotients such as GB/s or FLOP/B")
            base, factor_scale = _UNITS[symbol]
            power = sign * int(exponent or 1)
            scale *= factor_scale**power
            if base:
                powers[base] = powers.get(base, 0) + power
    return _Unit(tuple(sorted((s, p) for s, p in powers.items() if p)), scale)


def _combine(a: _Unit, b: _Unit, sign: int) -> _Unit:
    powers = dict(a.powers)
    for symbol, power in b.powers:
        powers[symbol] = powers.get(symbol, 0) + sign * power
    return _Unit(tuple(sorted((s, p) for s, p in powers.items() if p)), Fraction(1))


def _times(value: Number, scale: Fraction) -> Number:
    """value · scale, exact when the value is whole and the result is too."""
    if scale == 1:
        return value
    if isinstance(value, int):
        return _plain(value * scale)
    return value * scale.numerator / scale.denominator


def _plain(value: Fraction) -> Number:
    return value.numerator if value.denominator == 1 else value.numerator / value.denominator


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """value in `unit`. Products and quotients come out in base units; sums keep the left operand's unit."""

    value: Number
    unit: str = "1"

    def __post_init__(self) -> None:
        if isinstance(self.value, bool) or not isinstance(self.value, (int, float)):
            raise UnitError(f"a quantity needs an int or a float, got {type(self.value).__name__} ({self.value!r})")
        _parse(self.unit)

    @property
    def base(self) -> Number:
        """The value in base units (B, FLOP, s, or a plain number)."""
        return _times(self.value, _parse(self.unit).scale)

    @property
    def is_count(self) -> bool:
        """True for a number without dimension: a count, a ratio, a percentage."""
        return not _parse(self.unit).kind

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit of its kind; UnitError if the kinds differ."""
        here, there = _parse(self.unit), _parse(unit)
        if here.kind != there.kind:
            raise UnitError(f"cannot show {self} in {unit}: {self.unit} and {unit} are of different kinds")
        return Quantity(_times(self.value, here.scale / there.scale), unit)

    def format(self, spec: str = "") -> str:
        """Number and unit for people. `spec` is Python's format specification for the number (".2f"); empty chooses four figures."""
        number = format(self.value, spec) if spec else show_number(self.value)
        symbol = "/".join(_SHOWN.get(part, part) for part in self.unit.split("/"))
        if self.unit == "1":
            return number
        if symbol.startswith("1/"):
            return number + symbol[1:]
        return f"{number}{symbol}" if self.unit in ("%", "x") else f"{number} {symbol}"

    def __str__(self) -> str:
        return self.format()

    def __float__(self) -> float:
        return float(self._count("float"))

    def __int__(self) -> int:
        return int(self._count("int"))

    def __bool__(self) -> bool:
        return self.value != 0

    def __neg__(self) -> Quantity:
        return Quantity(-self.value, self.unit)

    def __abs__(self) -> Quantity:
        return Quantity(abs(self.value), self.unit)

    def __add__(self, other: Quantity | Number) -> Quantity:
        return Quantity(self.value + self._same_kind(other, "add"), self.unit)

    def __sub__(self, other: Quantity | Number) -> Quantity:
        return Quantity(self.value - self._same_kind(other, "subtract"), self.unit)

    def __radd__(self, other: Number) -> Quantity:
        return quantity(other) + self

    def __rsub__(self, other: Number) -> Quantity:
        return quantity(other) - self

    def __mul__(self, other: Quantity | Number) -> Quantity:
        if not isinstance(other, Quantity):
            return Quantity(self.value * other, self.unit)
        return Quantity(self.base * other.base, _combine(_parse(self.unit), _parse(other.unit), 1).name)

    __rmul__ = __mul__

    def __truediv__(self, other: Quantity | Number) -> Quantity:
        if not isinstance(other, Quantity):
            return Quantity(_divide(self.value, other), self.unit)
        return Quantity(_divide(self.base, other.base), _combine(_parse(self.unit), _parse(other.unit), -1).name)

    def __rtruediv__(self, other: Number) -> Quantity:
        return quantity(other) / self

    def __pow__(self, exponent: int) -> Quantity:
        if not self.is_count:
            raise UnitError(f"only plain numbers are raised to a power, not {self}")
        return Quantity(self.base**exponent)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (int, float)):
            other = quantity(other)
        if not isinstance(other, Quantity):
            return NotImplemented
        return _parse(self.unit).kind == _parse(other.unit).kind and self.base == other.base

    def __hash__(self) -> int:
        return hash((_parse(self.unit).kind, self.base))

    def __lt__(self, other: Quantity | Number) -> bool:
        return self.base < self._base_of(other)

    def __le__(self, other: Quantity | Number) -> bool:
        return self.base <= self._base_of(other)

    def __gt__(self, other: Quantity | Number) -> bool:
        return self.base > self._base_of(other)

    def __ge__(self, other: Quantity | Number) -> bool:
        return self.base >= self._base_of(other)

    def _count(self, what: str) -> Number:
        if not self.is_count:
            raise UnitError(f"{self} is no plain number: say {what}(q.to(unit).value) with the unit that you mean")
        return self.base

    def _base_of(self, other: Quantity | Number) -> Number:
        other = quantity(other)
        self._check_kind(other, "compare")
        return other.base

    def _same_kind(self, other: Quantity | Number, verb: str) -> Number:
        """The other operand's value, in this one's unit."""
        other = quantity(other)
        self._check_kind(other, verb)
        return _times(other.value, _parse(other.unit).scale / _parse(self.unit).scale)

    def _check_kind(self, other: Quantity, verb: str) -> None:
        if _parse(self.unit).kind != _parse(other.unit).kind:
            raise UnitError(f"cannot {verb} {self} and {other}: {self.unit} and {other.unit} are of different kinds")


def quantity(value: Quantity | Number, unit: str = "1") -> Quantity:
    """`value` as a Quantity; a bare number is taken to be in `unit`, a Quantity must be of that kind when one is asked for."""
    if isinstance(value, Quantity):
        return value if unit == "1" else value.to(unit)
    return Quantity(value, unit)


def show_number(value: Number) -> str:
    """Whole numbers with thousands separators, others to four significant figures."""
    if isinstance(value, int):
        return f"{value:,}"
    if not math.isfinite(value):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.4g}"


def _divide(a: Number, b: Number) -> Number:
    if b == 0:
        raise UnitError("division by zero")
    return _plain(Fraction(a, b)) if isinstance(a, int) and isinstance(b, int) else a / b
