"""The evaluator equals Python on arithmetic, refuses everything else by name and column, and never raises anything but CalcError."""

from __future__ import annotations

import ast
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from course.tree import Tree
from infer_course import calc
from infer_course.calc import evaluate
from infer_course.errors import CalcError
from infer_course.graph import load
from infer_lab.units import Quantity

NUMBERS = st.one_of(st.integers(0, 10**6), st.floats(0.001, 1e6, allow_nan=False).map(lambda x: round(x, 6)))


def sums(numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[str]:
    leaf = numbers.map(repr)
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
            inner.map(lambda e: f"-{e}"),
            st.tuples(inner, st.integers(0, 3)).map(lambda t: f"({t[0]}) ** {t[1]}"),
        ),
        max_leaves=8,
    )


@given(sums(NUMBERS))
def test_safe_arithmetic_equals_python(expr: str) -> None:
    try:
        expected = eval(compile(ast.parse(expr, mode="eval"), "expr", "eval"), {"__builtins__": {}})
    except (ZeroDivisionError, OverflowError):
        with pytest.raises(CalcError):
            evaluate(expr)
        return
    try:
        result = evaluate(expr).quantity.value
    except CalcError as error:
        assert "reasonable size" in str(error) or len(expr) > calc.MAX_LENGTH
        return
    assert result == pytest.approx(expected, rel=1e-12, abs=1e-300)


NAMES = [
    "kv_bytes",
    "llama_3_8b",
    "h100_80gb",
    "measured",
    "min",
    "x",
    "__class__",
    "os",
    "quantity",
    "tp",
    "kv_budget",
    "ridge",
    "lambda",
    "if",
]
TOKENS = st.one_of(
    st.sampled_from(
        [*NAMES, *"()+-*/|.,=[]{}:'\"%@!~<>&", "**", "//", " | GiB", ".2f", "1", "0", "1e400", "99999999", "0x", "1_000", "=0.9", "f''"]
    ),
    st.text(max_size=3),
)


@settings(max_examples=400)
@given(st.one_of(st.text(max_size=60), st.lists(TOKENS, max_size=14).map("".join), st.lists(TOKENS, max_size=14).map(" ".join)))
@example("(" * 300 + "1")
@example("-" * 490 + "1")
@example("1" * 499)
@example("10 ** 128 ** 2")
@example("99 ** 99 ** 99")
@example("1\x00")
@example("\ud800")
@example("1 | GiB .99d")
@example("quantity(1, 'B') ** 2")
@example("min(1, 'a')")
@example("(-8) ** 0.5")
@example("0 ** -1")
@example("max(*[1])")
@example("kv_bytes(llama_3_8b, 10**59) * 10**59 | GiB")
def test_no_text_whatever_raises_anything_but_a_calc_error(text: str) -> None:
    try:
        found = evaluate(text)
    except CalcError as error:
        assert str(error)
    else:
        assert math.isfinite(found.quantity.value) and found.text and found.explanation


@pytest.mark.parametrize(
    ("expr", "reason"),
    [
        ("().__class__", "attributes"),
        ("llama_3_8b.__class__", "no figure of a model"),
        ("llama_3_8b.name", "no figure of a model"),
        ("kv_bytes.function", "no figure of a model"),
        ("kv_bytes.__globals__", "no figure of a model"),
        ("(lambda: 1)()", "this"),
        ("[1][0]", "indexing"),
        ("1 if 1 else 2", "conditions"),
        ("1 < 2", "comparisons"),
        ("1 and 2", "and/or"),
        ("f'{1}'", "f-strings"),
        ("[x for x in (1,)]", "comprehensions"),
        ("7 // 2", "this"),
        ("7 % 2", "this"),
        ("~1", "this"),
        ("'text'", "this"),
        ("1j", "this"),
        ("None", "this"),
        ("True", "this"),
        ("open('x')", "nothing is called `open`"),
        ("__import__('os')", "nothing is called `__import__`"),
        ("llama_3_8b(1)", "not a function"),
        ("kv_bytes", "no number"),
        ("kv_bytes('x' * 9)", "text"),
        ("max(*[1])", "unpacking"),
        ("kv_bytes(**{})", "unpacking"),
        ("measured('a', 'b')", "write measured"),
        ("measured(1)", "write measured"),
        ("measured('h200/x:y')", "no measurement records here"),
        ("2 ** 129", "at most 128"),
        ("2 ** quantity(1, 'B')", "plain number"),
        ("10 ** 61", "reasonable size"),
        ("1e999", "reasonable size"),
        ("1 / 0", "zero"),
        ("(-8) ** 0.5", "negative"),
        ("floor(quantity(1, 'B'))", "plain number"),
        ("kv_bytes_per_token(llama_9)", "Did you mean"),
        ("quantity(1, 'bites')", "no unit"),
        ("1 + quantity(1, 'B')", "different kinds"),
        ("max(1, quantity(1, 's'))", "different kinds"),
        ("", "empty"),
        ("1 +", "not an expression"),
        ("+".join("1" * 70), "parts"),
        ("1" * 501, "characters"),
    ],
)
def test_what_is_not_a_calculation_is_refused_for_its_reason(expr: str, reason: str) -> None:
    with pytest.raises(CalcError, match=reason.replace("(", r"\(").replace("?", r"\?")):
        evaluate(expr)


def test_an_error_names_the_column_in_the_text_of_the_role() -> None:
    with pytest.raises(CalcError, match=r"^column 5: nothing is called `b`"):
        evaluate("1 + b")
    with pytest.raises(CalcError, match=r"^column 7: nothing is called `b`"):
        evaluate("  1 + b")
    with pytest.raises(CalcError, match=r"^column 18: nothing is called `b`"):
        evaluate("quantity(1, 'é', b)")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2 + 3 * 4", "14"),
        ("2 ** 10", "1,024"),
        ("1 / 3 | .3f", "0.333"),
        ("0.25 | %", "25%"),
        ("3 / 2 | x .2f", "1.50×"),
        ("kv_bytes_per_token(llama_3_8b) | KiB", "128 KiB"),
        ("kv_bytes_per_token(deepseek_v3) | KiB .1f", "68.6 KiB"),
        ("kv_bytes(llama_3_8b, tokens=4096) | GiB .1f", "0.5 GiB"),
        ("llama_3_8b.num_heads / llama_3_8b.num_kv_heads", "4"),
        ("h100_80gb.bandwidth | TB/s", "3.35 TB/s"),
        ("quantity(1, 'GiB') / quantity(1, 'GB') | .4f", "1.0737"),
        ("ceil(7 / 2) + floor(7 / 2)", "7"),
        ("min(3, 2) * max(3, 2)", "6"),
        ("quantity(1, 'ms') | us", "1,000 µs"),
        ("131072 | tok ,d", "131,072 tok"),
        ("pages(17) * 16", "32"),
    ],
)
def test_results_are_shown_with_unit_and_format(text: str, shown: str) -> None:
    assert evaluate(text).text == shown


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("kv_bytes_per_token(llama_3_8b)", "say in which unit"),
        ("kv_bytes_per_token(llama_3_8b) | s", "different kinds"),
        ("1 | ", "after the bar"),
        ("1 | x .2f more", "after the bar"),
        ("1 | parsec", "no unit"),
        ("1 / 3 | d", "whole numbers"),
    ],
)
def test_a_tail_that_does_not_fit_is_refused(text: str, reason: str) -> None:
    with pytest.raises(CalcError, match=reason):
        evaluate(text)


def test_the_working_is_shown_with_the_numbers_put_in() -> None:
    one = evaluate("kv_bytes_per_token(llama_3_8b) | KiB").explanation
    assert one == "kv_bytes_per_token = 2 · layers · kv_heads · head_dim · bytes = 2 · 32 · 8 · 128 · 2 = 131,072 B/tok = 128 KiB"
    first, second = evaluate("4 * kv_bytes_per_token(llama_3_8b) | KiB").explanation.split("\n")
    assert first == "4 · kv_bytes_per_token(llama_3_8b) = 4 · 131,072 B/tok = 512 KiB"
    assert second.startswith("kv_bytes_per_token = 2 · layers")


def test_formulas_inside_formulas_are_listed_below_them() -> None:
    steps = evaluate("kv_budget(h100_80gb, llama_3_8b) | GiB").steps
    assert [(step.name, step.depth) for step in steps[:2]] == [("kv_budget", 0), ("weight_bytes", 1)]


def test_the_formula_of_the_whole_comes_before_those_of_its_arguments() -> None:
    batch = "max_concurrency(h100_80gb, llama_3_8b, tokens=4096, util=0.92, driver=1)"
    found = evaluate(f"decode_throughput_ceiling(h100_80gb, llama_3_8b, batch={batch}, context=4096) | tok/s ,.0f")
    outer = [step.name for step in found.steps if step.depth == 0]
    assert outer == ["decode_throughput_ceiling", "max_concurrency"]
    assert found.steps[0].name == "decode_throughput_ceiling"
    halves = evaluate("kv_bytes_per_token(llama_2_7b) / kv_bytes_per_token(qwen2_5_7b) | x .1f")
    assert [str(step.result) for step in halves.steps] == ["524,288 B/tok", "57,344 B/tok"]


def test_measured_values_enter_with_their_unit_and_provenance(tree: Tree) -> None:
    graph = load(tree.root)
    found = evaluate('measured("h200/kv-cache-by-hand:cached") / kv_bytes_per_token(llama_3_8b) | x .2f', graph)
    assert found.text == "1.00×"
    assert found.numbers == "131,072 B / 131,072 B/tok"
    assert found.measured[0].device == "NVIDIA H200" and "2025-06-02" in found.explanation
    assert evaluate('measured("h200/kv-cache-by-hand:cached") | KiB', tree.root).quantity == Quantity(128, "KiB")
    with pytest.raises(CalcError, match="different kinds"):
        evaluate('measured("h200/kv-cache-by-hand:cached") + measured("h200/kv-cache-by-hand:step_time") | B', graph)
    with pytest.raises(CalcError, match="Did you mean 'cached'"):
        evaluate('measured("h200/kv-cache-by-hand:cache") | B', graph)


def test_every_name_of_the_calculator_can_be_used() -> None:
    names = calc.names()
    for wanted in ("llama_2_7b", "qwen2_5_7b", "smollm2_135m", "a100_80gb", "h200_141gb", "kv_budget", "max_concurrency"):
        assert wanted in names
    assert all(name.isidentifier() for name in names)
    assert not {"open", "eval", "exec", "getattr", "tracing", "explain"} & set(names)
