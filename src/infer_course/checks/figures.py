"""No typed-in numbers: a speed, a size or a cost in prose is computed (`{calc}`), looked up (`{measured}`) or named as given (`{given}`).

`{given}` is the escape, on purpose a small one: for a premise of the question ("an 80 GB card") or a figure quoted from a cited source.
Counts, shapes, dates and names of models are free.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from infer_course import calc, measure
from infer_course.citations import RECORD_DIRECTIVES, records_in_fence, records_in_role, words
from infer_course.errors import CourseError
from infer_course.frontmatter import Text
from infer_course.graph import Graph, texts_of
from infer_course.markdown import Fence, roles, scan, words_only
from infer_course.nodes import Card, Lab, Lesson, Measurement, Page
from infer_course.problems import Problem, Rule, sentence
from infer_lab.errors import UserError
from infer_lab.units import Quantity

_AMOUNT = r"(?<![\w.,])~?\d[\d,]*(?:\.\d+)?"
_BYTES = r"(?:[kKMGTP]i?B|bytes?|(?<=[ \u00a0\u202f])B)"  # "8B" is a model's size, "8 B" are bytes
_FLOPS = r"[kMGTP]?FLOPs?|[kMGTP]?FLOPS"
# "2×" is a ratio, but "2 × layers" a product; a Chinese character may follow a unit, so words are ASCII words here.
_UNIT = (
    rf"{_BYTES}(?:/(?:s|sec|tok|token))?|(?:{_FLOPS})(?:/(?:s|B|byte))?|[GMT]bit/s|[GMT]b(?:ps|/s)"
    r"|ms|µs|μs|us|ns|msec|usec|seconds?|minutes?|hours?"
    r"|(?:tok|tokens?)(?:/s(?:ec)?|/step| per second| a second)|req(?:uests?)?/s|percent|%|(?<=\d)[×x](?!\s*\d)"
)
TYPED = re.compile(rf"{_AMOUNT}(?:[ \u00a0\u202f-]?(?:{_UNIT})|[ \u00a0\u202f]s)(?![\w/])", re.ASCII)
_SPELLING: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.ASCII), fix)
    for pattern, fix in (
        (r"(?<![\w.,-])\d[\d,.]*(?:[kKMGT]i?B|ms|µs|us|ns|[MGTP]FLOPs?)(?!\w)(?:/\w+)?", "put a space between number and unit: `80 GB`"),
        (r"(?<![\w/])KB(?:/s)?(?!\w)", "KB is ambiguous: write kB (1,000 B) or KiB (1,024 B)"),
        (r"(?<=\d )(?:[kmgt]b|[MGT]b|[KMGT]ib)(?:/s)?(?!\w)", "b is bit: write GB or GiB for bytes, Gbit/s for a network rate"),
        (r"(?<!\w)[KMGTP]i?Bs(?!\w)", "units take no plural: GB, GiB"),
        (r"(?<!\w)[kMGTP]?FLOPS(?:/s)?(?!\w)", "write FLOP/s for a rate and FLOP for an amount, e.g. TFLOP/s"),
        (r"(?<!\w)[MGTP]FLOPs(?:/s)?(?!\w)", "write TFLOP for an amount and TFLOP/s for a rate"),
        (r"(?<!\w)[A-Za-z]+/sec(?!\w)", "write /s"),
        (r"(?<!\w)(?:msec|usec|secs)(?!\w)", "write ms, µs, s"),
        (r"(?<=\d )us(?!\w)", "write µs in text (`us` is for roles)"),
        (r"(?<=\d )(?:MS|Ms|mS)(?!\w)", "milliseconds are ms"),
    )
)
_BINARY_K = re.compile(r"(?<![\w.-])\d+[kK](?=[ \u00a0-](?:tokens?|context|prompt|window|sequence)|上下文)")
Written = Card | Lesson | Lab | Page
_NUMERIC_ROLES = ("calc", "measured")


def check_figures(graph: Graph) -> Iterator[Problem]:
    for node in (*graph.lessons.values(), *graph.cards.values(), *graph.labs.values()):
        for text in texts_of(node):
            yield from _roles(graph, node, text)
            yield from _directives(graph, node, text)
            if not isinstance(node, Lab):
                yield from _spelling(node, text)
                if not text.front:
                    yield from _typed(node, text)
    for card in graph.cards.values():
        yield from _estimate(graph, card)
    for page in graph.pages.values():
        yield from _roles(graph, page, page.text)
        yield from _directives(graph, page, page.text)
        yield from _spelling(page, page.text)


def _error(node: Written, line: int, message: str, fix: str, rule: Rule) -> Problem:
    return Problem("error", node.path, line, message, fix, rule)


def _roles(graph: Graph, node: Written, text: Text) -> Iterator[Problem]:
    for role in roles(text.body):
        line = text.line(role.line)
        if role.splits_table and role.name in _NUMERIC_ROLES:
            fix = f"write `\\|` inside a table: {{{role.name}}}`{role.text.replace('|', chr(92) + '|')}`"
            yield _error(node, line, f"the bar in {{{role.name}}}`{role.text}` would cut its table row.", fix, "table-bar")
        if graph.unreadable.intersection(records_in_role(role)):
            continue  # the record's own problem says it
        try:
            if role.name == "calc":
                calc.evaluate(role.text, graph)
            elif role.name == "measured":
                measure.evaluate(role.text, graph)
        except CourseError as error:
            what, rule = ("calculation", "calc") if role.name == "calc" else ("measurement", "measured")
            yield _error(node, line, sentence(f"{what} `{role.text}`: {error}"), "correct the expression in backticks", rule)


def _directives(graph: Graph, node: Written, text: Text) -> Iterator[Problem]:
    """Figures and tables drawn from records name records, series and values that exist; a proof can be computed."""
    for fence in scan(text.body).fences:
        line, records = text.line(fence.line), records_in_fence(fence)
        if fence.directive in RECORD_DIRECTIVES and not records:
            yield _error(node, line, f"the `{{{fence.directive}}}` names no record.", "write `<device>/<name>` after its name", "measured")
        if graph.unreadable.intersection(records):
            continue
        if fence.directive == "proof" and not graph.measurements.keys() >= set(records):
            continue  # the proof on the home page shows nothing until its record exists
        try:
            if "predict" in fence.options:
                calc.evaluate(fence.options["predict"], graph)
            if "measure" in fence.options:
                measure.evaluate(fence.options["measure"], graph)
            for record in records:
                measure.find_record(graph, record)
            if fence.directive in RECORD_DIRECTIVES and records:
                yield from _chosen(node, line, fence, graph.measurements[records[0]], graph)
        except CourseError as error:
            yield _error(node, line, sentence(f"`{{{fence.directive}}}`: {error}"), "measure it first, or correct the name", "measured")


def _chosen(node: Written, line: int, fence: Fence, record: Measurement, graph: Graph) -> Iterator[Problem]:
    for wanted in words(fence.options.get("series", "")):
        owner, colon, name = wanted.rpartition(":")
        has = graph.measurements[owner].series if colon else record.series
        if name not in has:
            yield _error(node, line, f"the record has no series `{name}`.", f"series are {', '.join(has) or 'none'}", "measured")
    for name in words(fence.options.get("values", "")):
        if name not in record.values:
            yield _error(node, line, f"the record has no value `{name}`.", f"values are {', '.join(record.values) or 'none'}", "measured")


def _typed(node: Written, text: Text) -> Iterator[Problem]:
    for index, line in enumerate(words_only(text.body, "\x00").split("\n")):
        for found in TYPED.finditer(line):
            fix = "compute it with {calc}, look it up with {measured}, or if it is a premise or quoted from a cited source, {given}`…`"
            message = f"the figure “{found[0].strip()}” is typed in."
            yield _error(node, text.line(index), message, fix, "typed-number")


def _spelling(node: Written, text: Text) -> Iterator[Problem]:
    given = [(role.text, role.line) for role in roles(text.body) if role.name == "given"]
    prose = list(enumerate(words_only(text.body, "\x00").split("\n")))
    for content, index in [*((line, i) for i, line in prose), *given]:
        for pattern, fix in _SPELLING:
            for found in pattern.finditer(content):
                yield _error(node, text.line(index), f"unit spelling: “{found[0]}”.", fix, "unit-spelling")
    for index, line in prose:
        for found in _BINARY_K.finditer(line):
            fix = "write the exact count (128K is 131,072), or {given}`128K` when quoting a name"
            yield Problem("warning", node.path, text.line(index), f"“{found[0]}” hides whether K is 1,000 or 1,024.", fix, "unit-spelling")


def _estimate(graph: Graph, card: Card) -> Iterator[Problem]:
    if card.estimate is None:
        return
    line = card.document.meta_line("estimate.expr")
    try:
        Quantity(1, card.estimate.unit)
        result = calc.evaluate(f"{card.estimate.expr} | {card.estimate.unit}", graph)
    except UserError as error:
        yield _error(
            card, line, sentence(f"the estimate cannot be computed: {error}"), "correct `estimate.expr` or `estimate.unit`", "calc"
        )
        return
    if result.quantity.value <= 0:
        fix = "an estimate needs a positive number to be within a tolerance of"
        yield _error(card, line, f"the estimate comes to {result.text}.", fix, "calc")
