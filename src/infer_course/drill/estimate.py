"""Judges a number that the reader put down before seeing the answer.

Choosing the unit is part of the answer (GB is not GiB), so a number without a unit is asked for one, unless the card's unit is a plain
count. The right value in every unit that may be chosen comes with the card (`asked.py`), so nothing is converted here and the page and the
terminal judge alike (`tests/fixtures/drill_estimates.json`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

State = Literal["right", "off", "not-a-number", "unit-missing", "unit-unknown", "not-positive"]

_NUMBER = re.compile(
    r"^[~≈=]?\s*([+-]?(?:(?:\d{1,3}(?:,\d{3})+(?![\d,])|\d[\d_ ]*)(?:\.\d*)?|\.\d+)(?:e[+-]?\d+)?)\s*([^\d\s,].*)?$",
    re.IGNORECASE | re.ASCII,
)
_THOUSANDS = re.compile(r"^([kKM])(?=$|\s|tok)\s*")
_PER_TOKEN = re.compile(r"(/|per)(tokens?|tok)$")
_SPELT = {
    "byte": "b", "bytes": "b", "×": "x", "times": "x", "percent": "%", "token": "tokens", "tok": "tokens", "tok/s": "tokens/s",
    "token/s": "tokens/s", "request": "requests", "req": "requests", "sec": "s", "second": "s", "seconds": "s", "minute": "min",
    "minutes": "min",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """`value` is the number in the card's own unit (None if it could not be read) and `ratio` is it over the right one."""

    state: State
    value: float | None = None
    ratio: float | None = None
    unit: str = ""


def parse(text: str) -> tuple[float, str] | None:
    """`131,072 B` → (131072, "B"), `120k tokens` → (120000, "tokens"); the unit is "" where none was typed. None without a number."""
    found = _NUMBER.match(text.strip())
    if not found:
        return None
    try:
        number = float(re.sub(r"[,_ ]", "", found[1]))
    except ValueError:
        return None
    unit = (found[2] or "").strip()
    if thousands := _THOUSANDS.match(unit):
        number, unit = number * (1_000_000 if thousands[1] == "M" else 1000), unit[thousands.end() :]
    return (number, unit) if math.isfinite(number) else None


def judge(text: str, unit: str, tolerance: float, choices: Sequence[tuple[str, float]]) -> Judged:
    """`choices` are (unit as shown, the right value in it); `unit` is the card's own, `tolerance` a fraction (0.1 is ±10 %)."""
    read = parse(text)
    if read is None:
        return Judged("not-a-number")
    number, typed = read
    named = {_key(shown): (shown, right) for shown, right in choices}
    if not typed and len(choices) > 1:
        return Judged("unit-missing")
    key = _key(typed)
    plain_count = len(choices) == 1 and choices[0][0] == "" and key != "%"
    found = choices[0] if not typed or plain_count else next((named[name] for name in _readings(key) if name in named), None)
    if found is None:
        return Judged("unit-unknown", unit=typed)
    shown, right = found
    if number <= 0 < right:
        return Judged("not-positive", unit=shown)
    own = next((value for name, value in choices if _key(name) == _key(unit)), right)
    ratio = number / right
    state: State = "right" if abs(ratio - 1) <= tolerance + 1e-9 else "off"
    return Judged(state, ratio * own, ratio, shown)


def _readings(key: str) -> tuple[str, ...]:
    """What a typed unit may mean, most literal first: as it stands, without "per token", TFLOPS as a rate, TFLOPS as a plural."""
    rate = key[:-5] + "flop/s" if key.endswith("flops") else key
    return key, _PER_TOKEN.sub("", key), rate, key.removesuffix("s")


def _key(unit: str) -> str:
    """Units are told apart by their letters only: `kib`, `KiB` and `KIB` are one, `kB` is another."""
    plain = "".join(unit.split()).lower().replace("µ", "u").replace("μ", "u")
    return _SPELT.get(plain, plain)
