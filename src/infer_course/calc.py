"""Evaluates the expressions of the `{calc}` role: arithmetic over `infer_lab.calculator`, typed in units, and nothing else.

Why: a number in the text is computed while the book is built, so it cannot be wrong by typing, and hovering shows the formula with the
numbers put in. Content comes from pull requests, so an expression is parsed to a syntax tree and only a short list of node kinds is
walked: there is no `eval`, no attribute but a model's or a card's figures, no loop, and sizes are bounded.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer_course.errors import CalcError
from infer_course.graph import Graph, load
from infer_course.measure import Measured, lookup
from infer_course.problems import did_you_mean
from infer_course.shown import convert, render, split_tail
from infer_course.vocabulary import figures_of, names
from infer_lab.calculator import tracing
from infer_lab.errors import UserError
from infer_lab.units import Quantity, quantity

MAX_LENGTH, MAX_NODES, MAX_EXPONENT, MAX_SIZE = 500, 120, 128, 10**60
SHOWN_DEPTH = 1
_BINARY: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_REFUSED = {
    ast.Compare: "comparisons", ast.BoolOp: "and/or", ast.IfExp: "conditions", ast.Lambda: "functions", ast.Subscript: "indexing",
    ast.List: "lists", ast.Tuple: "tuples", ast.Dict: "dictionaries", ast.Set: "sets", ast.JoinedStr: "f-strings",
    ast.Starred: "unpacking", ast.NamedExpr: "assignment", ast.Await: "await", ast.ListComp: "comprehensions",
    ast.GeneratorExp: "comprehensions", ast.Attribute: "attributes other than a model's or a card's figures",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Step:
    """One formula that was used: in symbols, with the numbers in, and its result. depth 0 was called by the expression itself."""

    name: str
    symbols: str
    numbers: str
    result: Quantity
    depth: int

    def __str__(self) -> str:
        parts = dict.fromkeys([self.name, self.symbols, self.numbers, str(self.result)])
        return f"{'  ' * self.depth}{' = '.join(parts)}"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A result and its working. `text` is what the reader sees; `formula` the expression, `numbers` the same with values put in."""

    expr: str
    quantity: Quantity
    text: str
    formula: str
    numbers: str
    steps: tuple[Step, ...] = ()
    measured: tuple[Measured, ...] = ()

    @property
    def explanation(self) -> str:
        """The working, line by line, for hover and focus: the expression, then each formula, then where measured inputs are from."""
        lines = [] if self._is_one_call else [f"{self.formula} = {self.numbers} = {self.text}"]
        lines += [str(step) for step in self.steps if step.depth <= SHOWN_DEPTH]
        if self._is_one_call and self.steps and str(self.steps[0].result) != self.text:
            lines[0] += f" = {self.text}"
        lines += [f"{found.ref}: {found.text} ({found.provenance})" for found in self.measured]
        return "\n".join(dict.fromkeys(lines))

    @property
    def _is_one_call(self) -> bool:
        return bool(self.steps) and self.numbers == str(self.steps[0].result)


def evaluate(text: str, source: Graph | Path | None = None) -> Evaluated:
    """What a `{calc}` role shows: an expression, and after a bar the unit and format: `kv_budget(h100_80gb, llama_3_8b) | GiB .1f`.

    `source` is where `measured("record:name")` looks. CalcError for everything that is not allowed, does not fit in units, or cannot be
    computed; the message has the column.
    """
    graph = load(source) if isinstance(source, Path) else source
    try:
        tail = split_tail(text)
    except UserError as error:
        raise CalcError(str(error)) from None
    offset = len(text) - len(text.lstrip()) + 1
    tree = _parse(tail.head, offset)
    walk = _Walk(tail.head, offset, graph)
    with tracing() as calls:
        value = walk.number(tree)
    try:
        shown = convert(quantity(value), tail.unit)
        result = render(shown, tail.spec)
    except (UserError, ValueError, OverflowError, ArithmeticError) as error:
        raise CalcError(str(error)) from None
    steps = tuple(Step(call.name, call.symbols, call.numbers, call.result, call.depth) for call in calls)
    if isinstance(tree, ast.Call):
        steps = _outermost_first(steps)
    return Evaluated(tail.head, shown, result, _pretty(tail.head), walk.with_numbers(), steps, tuple(walk.measured))


def _outermost_first(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The last call of the expression and what it called, then the calls that made its arguments, which were evaluated before it."""
    start = max((index for index, step in enumerate(steps) if step.depth == 0), default=0)
    return (*steps[start:], *steps[:start])


def _parse(expr: str, offset: int) -> ast.expr:
    if not expr:
        raise CalcError("the expression is empty")
    if len(expr) > MAX_LENGTH:
        raise CalcError(f"the expression has {len(expr)} characters; at most {MAX_LENGTH} are read")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # e.g. "invalid decimal literal": the walk below refuses what is not a number
            tree = ast.parse(expr, mode="eval").body
    except SyntaxError as error:
        raise CalcError(f"column {(error.offset or 1) + offset - 1}: not an expression: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise CalcError(f"not an expression: {error}") from None
    if (count := sum(1 for _ in ast.walk(tree))) > MAX_NODES:
        raise CalcError(f"the expression has {count} parts; at most {MAX_NODES} are read: split the sum, or add a calculator function")
    return tree


@dataclass(slots=True)
class _Walk:
    """One evaluation of a tree. `spans` collects (start, end, shown value) of what is replaced when the numbers are put in."""

    expr: str
    offset: int
    graph: Graph | None
    measured: list[Measured] = field(default_factory=list)
    spans: list[tuple[int, int, str]] = field(default_factory=list)
    call_depth: int = 0

    def fail(self, node: ast.expr | ast.keyword, reason: str) -> CalcError:
        column = len(self.expr.encode()[: node.col_offset].decode(errors="ignore")) + self.offset
        return CalcError(f"column {column}: {reason}")

    def number(self, node: ast.expr) -> int | float | Quantity:
        value = self.value(node)
        if isinstance(value, bool) or not isinstance(value, (int, float, Quantity)):
            what = ast.get_source_segment(self.expr, node) or "this"
            kind = f"text ({what[:40]})" if isinstance(value, str) else f"`{what[:40]}`"
            raise self.fail(node, f"{kind} is no number; give it to a calculator function")
        plain = value.value if isinstance(value, Quantity) else value
        if not abs(plain) <= MAX_SIZE:  # false for nan and infinity as well
            raise self.fail(node, "the result is not a number of reasonable size")
        return value

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                return number
            case ast.Constant(value=str() | bool() as literal) if self.call_depth:
                return literal
            case ast.Name(id=name):
                return self.named(node, name)
            case ast.Attribute(value=ast.Name() as owner, attr=attr):
                return self.attribute(node, self.named(owner, owner.id), attr)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return self.computed(node, operator.neg, self.number(operand))
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.number(operand)
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return self.power(node, self.number(left), self.number(right))
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return self.computed(node, _BINARY[type(op)], self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id="measured")):
                return self.lookup(node)
            case ast.Call(func=ast.Name(id=name) as function):
                return self.call(node, self.named(function, name), name)
        raise self.fail(
            node, f"{_REFUSED.get(type(node), 'this')} cannot stand in a calculation; allowed are numbers, names, + - * / **, calls"
        )

    def named(self, node: ast.expr, name: str) -> Any:
        if name not in names():
            raise self.fail(node, f"nothing is called `{name}`.{did_you_mean(name, [*names(), 'measured'])}")
        found = names()[name]
        return found

    def attribute(self, node: ast.Attribute, owner: Any, attr: str) -> Any:
        figures = figures_of(owner)
        if attr not in figures:
            known = f"; it has {', '.join(figures)}" if figures else ""
            raise self.fail(node, f"`{ast.unparse(node)[:60]}` is no figure of a model or a card{known}.{did_you_mean(attr, figures)}")
        self.replace(node, figures[attr])
        return figures[attr]

    def computed(self, node: ast.expr, operation: Callable[..., Any], *operands: Any) -> Any:
        try:
            return operation(*operands)
        except (UserError, ArithmeticError, ValueError, TypeError) as error:
            raise self.fail(node, str(error)) from None

    def power(self, node: ast.expr, base: Any, exponent: Any) -> Any:
        exponent = self.computed(node, _as_plain, exponent)
        if abs(exponent) > MAX_EXPONENT:
            raise self.fail(node, f"an exponent of at most {MAX_EXPONENT} is allowed, got {exponent:g}")
        size = abs(base.base if isinstance(base, Quantity) else base)
        if size > 1 and math.log10(size) * exponent > math.log10(MAX_SIZE):
            raise self.fail(node, "the power is not a number of reasonable size")
        result = self.computed(node, operator.pow, base, exponent)
        if isinstance(result, complex):
            raise self.fail(node, "a root of a negative number")
        return result

    def lookup(self, node: ast.Call) -> Quantity:
        match node:
            case ast.Call(args=[ast.Constant(value=str() as ref)], keywords=[]):
                pass
            case _:
                raise self.fail(node, 'write measured("<device>/<record>:<value>")')
        if self.graph is None:
            raise self.fail(node, "there are no measurement records here to look it up in")
        try:
            found = lookup(self.graph, ref)
        except UserError as error:
            raise self.fail(node, str(error)) from None
        self.measured.append(found)
        self.replace(node, found.quantity)
        return found.quantity

    def call(self, node: ast.Call, function: Any, name: str) -> Any:
        if not callable(function) or figures_of(function):
            raise self.fail(node, f"`{name}` is not a function")
        outer = len(self.spans)
        self.call_depth += 1
        arguments = [_collapsed(self.value(argument)) for argument in node.args]
        keywords = {}
        for keyword in node.keywords:
            if keyword.arg is None:
                raise self.fail(keyword, "unpacking cannot stand in a calculation")
            keywords[keyword.arg] = _collapsed(self.value(keyword.value))
        self.call_depth -= 1
        try:
            result = function(*arguments, **keywords)
        except UserError as error:
            raise self.fail(node, str(error)) from None
        except Exception as error:  # an argument of the wrong kind surfaces inside the function in any way at all
            raise self.fail(node, f"{name} cannot be called like this: {type(error).__name__}: {error}") from None
        if isinstance(result, (int, float, Quantity)):
            del self.spans[outer:]
            self.replace(node, quantity(result))
        return result

    def replace(self, node: ast.expr, value: Any) -> None:
        self.spans.append((node.col_offset, node.end_col_offset or node.col_offset, str(value)))

    def with_numbers(self) -> str:
        """The expression with every call, figure and measured value replaced by what it came to."""
        text = self.expr.encode()
        for start, end, shown in sorted(self.spans, reverse=True):
            text = text[:start] + shown.encode() + text[end:]
        return _pretty(text.decode())


def _as_plain(value: Any) -> int | float:
    if not isinstance(value, Quantity):
        return value
    if not value.is_count:
        raise UserError(f"an exponent is a plain number, not {value}")
    return value.base


def _collapsed(value: Any) -> Any:
    """A dimensionless quantity as the plain number that arguments such as `tp` want."""
    return value.value if isinstance(value, Quantity) and value.unit == "1" else value


def _pretty(expr: str) -> str:
    expr = re.sub(r"""quantity\(([\w.]+), ["']([^"']+)["']\)""", r"\1 \2", expr)  # quantity(1, "B") is 1 B to a reader
    return " ".join(expr.replace("**", "^").replace("*", "·").split())
