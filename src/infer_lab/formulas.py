"""Formulas that can show their working.

Why: a number in a lesson should answer "how?" on the spot. A function decorated with `@formula("{a} · {b}")` returns its result together
with the named inputs; callers get the plain `Quantity`, and whoever is listening (`tracing()`) gets every call with its formula, once in
symbols and once with the numbers put in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import update_wrapper
from typing import Generic, ParamSpec

from infer_lab.units import Number, Quantity, show_number

P = ParamSpec("P")
Input = Number | Quantity


@dataclass(frozen=True, slots=True)
class Worked:
    """What a formula's function returns: the result, the inputs by name, and the formula if it differs from the declared one."""

    result: Quantity
    inputs: Mapping[str, Input]
    formula: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """One evaluation: `symbols` is the formula in names, `numbers` the same with values. depth 0 is the outermost call."""

    name: str
    symbols: str
    numbers: str
    result: Quantity
    depth: int

    def __str__(self) -> str:
        return f"{self.name} = {self.symbols} = {self.numbers} = {self.result}"


class _Listener:
    """Calls in the order in which they were made (an outer call before the ones that it makes)."""

    __slots__ = ("calls", "depth")

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.depth = 0


_listener: ContextVar[_Listener | None] = ContextVar("formula_listener", default=None)


class Formula(Generic[P]):
    """A closed form: call it for the number, read `.formula` for the symbols."""

    __name__: str

    def __init__(self, template: str, function: Callable[P, Worked]) -> None:
        self.template = template
        self.function = function
        update_wrapper(self, function)

    @property
    def formula(self) -> str:
        """In symbols, e.g. `2 · layers · kv_heads · head_dim · bytes`."""
        return _symbols(self.template)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Quantity:
        listener = _listener.get()
        if listener is None:
            return self.function(*args, **kwargs).result
        place, depth = len(listener.calls), listener.depth
        listener.depth += 1
        try:
            worked = self.function(*args, **kwargs)
        finally:
            listener.depth = depth
        template = worked.formula or self.template
        call = Call(self.__name__, _symbols(template), _numbers(template, worked.inputs), worked.result, depth)
        listener.calls.insert(place, call)
        return worked.result

    def __repr__(self) -> str:
        return f"<formula {self.__name__} = {self.formula}>"


def formula(template: str) -> Callable[[Callable[P, Worked]], Formula[P]]:
    """Declares the formula of a function. Names in braces are inputs, which the function hands back in `Worked.inputs`."""

    def decorate(function: Callable[P, Worked]) -> Formula[P]:
        return Formula(template, function)

    return decorate


@contextmanager
def tracing() -> Iterator[list[Call]]:
    """Collects the formula calls made inside the `with` block, nested ones included."""
    listener = _Listener()
    token = _listener.set(listener)
    try:
        yield listener.calls
    finally:
        _listener.reset(token)


@contextmanager
def untraced() -> Iterator[None]:
    """Calls inside are not collected: the steps of a search are not how a person works out its result."""
    token = _listener.set(None)
    try:
        yield
    finally:
        _listener.reset(token)


def explain(fn: Formula[P], *args: P.args, **kwargs: P.kwargs) -> str:
    """The formula, then the numbers, then the result: `f = a · b = 2 · 3 = 6`."""
    with tracing() as calls:
        fn(*args, **kwargs)
    return str(calls[0])


def _symbols(template: str) -> str:
    return template.replace("{", "").replace("}", "")


def _numbers(template: str, inputs: Mapping[str, Input]) -> str:
    return template.format_map({name: _show(value) for name, value in inputs.items()})


def _show(value: Input) -> str:
    return _readable(value).format() if isinstance(value, Quantity) else show_number(value)


def _readable(q: Quantity) -> Quantity:
    """Large amounts of bytes or operations, and small ones of time, in a prefixed unit; the rest as they are."""
    if q.unit == "B" and q.value >= 10**7:
        return q.to("GB")
    if q.unit == "FLOP" and q.value >= 10**9:
        return q.to("GFLOP")
    if q.unit == "s" and q.value < 1:
        return q.to("ms" if q.value >= 1e-3 or not q.value else "us")
    if q.unit == "B/s" and q.value >= 10**9:
        return q.to("GB/s")
    if q.unit == "FLOP/s" and q.value >= 10**12:
        return q.to("TFLOP/s")
    return q
