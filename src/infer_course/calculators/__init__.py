"""The calculators of the site: forms over `infer_lab.calculator`, the same Python at build time and in the reader's browser.

`view()` is what both call: texts of the fields in, HTML and messages out. Pure Python, no second implementation anywhere: the build renders
the default state with it, the page calls it in Pyodide (`web/src/calculators/page.ts`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from infer_course.calculators import (
    capacity,
    kv_cache,
    parallelism,
    parameters,
    quantization,
    queueing,
    roofline,
    speculation,
)
from infer_course.calculators.fields import Field, FieldError, Read, read_all
from infer_course.calculators.machines import machines
from infer_course.calculators.render import form_html, sheet_html
from infer_course.calculators.sheet import Sheet
from infer_course.errors import CourseError
from infer_lab.errors import InferLabError, UserError


class UnknownCalculatorError(CourseError, InferLabError):
    """There is no calculator of that name; the message lists those that exist."""


@dataclass(frozen=True, slots=True)
class Calculator:
    """`fill` writes a sheet from the values of the fields; `measured` says that it also takes measurement records."""

    id: str
    title: str
    asks: str
    fields: tuple[Field, ...]
    fill: Callable[..., None]
    measured: bool = False


CALCULATORS: Mapping[str, Calculator] = {
    found.id: found
    for found in (
        Calculator("kv-cache", "KV cache and concurrency", "How many requests fit on the card?", kv_cache.FIELDS, kv_cache.fill),
        Calculator("roofline", "Roofline", "What bounds this step, and how fast can it be?", roofline.FIELDS, roofline.fill, measured=True),
        Calculator("parameters", "Parameters and bytes", "What does a decode step read?", parameters.FIELDS, parameters.fill),
        Calculator("speculation", "Speculative yield", "Does drafting pay, and how much of it?", speculation.FIELDS, speculation.fill),
        Calculator("parallelism", "Parallelism and collectives", "What do the GPUs hold, and what do they tell each other?",
                   parallelism.FIELDS, parallelism.fill),
        Calculator("queueing", "Queueing and the knee", "How full may it be before requests wait?", queueing.FIELDS, queueing.fill),
        Calculator("quantization", "Quantized sizes", "How large is it in 8 or 4 bits, really?", quantization.FIELDS, quantization.fill),
        Calculator("capacity", "Capacity planner", "How many GPUs does this load take?", capacity.FIELDS, capacity.fill),
    )
}  # fmt: skip


def calculator(name: str) -> Calculator:
    if name not in CALCULATORS:
        raise UnknownCalculatorError(f"no calculator is called {name!r}; there are {', '.join(CALCULATORS)}")
    return CALCULATORS[name]


def view(
    name: str, texts: Mapping[str, str], records: Iterable[Mapping[str, Any]] = (), key: str = "", folded: bool = False
) -> dict[str, Any]:
    """One state of a calculator.

    texts: what stands in its fields; missing ones take their default. records: measurement records, for those that show them. key: makes
    ids unique on a page. folded: the working is closed at first.

    Returns `html` (the results; "" while a field cannot be read), `errors` and `spelt` by field, `hidden` fields, `headline` for a screen
    reader, `first`: the main answer in a few words, and `query`: the part of an address that leads back to this state.
    """
    found = calculator(name)
    texts = {field.name: str(texts.get(field.name, field.default)) for field in found.fields}
    read = read_all(found.fields, texts)
    errors, html, headline, first = dict(read.errors), "", "", ""
    if not errors:
        sheet = Sheet()
        try:
            found.fill(sheet, read.values, *([machines(records)] if found.measured else []))
        except FieldError as error:
            errors[error.field] = str(error)
        except UserError as error:
            sheet.refused = str(error)[0].upper() + str(error)[1:]
        if not errors:
            html = sheet_html(sheet, f"{key or name}-plot", folded)
            first = f"{sheet.answers[0].label}: {sheet.answers[0].text}" if sheet.answers else ""
            headline = ". ".join(part for part in (first, sheet.refused or sheet.verdict) if part)
            first = sheet.refused or first
    return {"html": html, "errors": errors, "spelt": dict(read.spelt), "hidden": list(read.hidden), "headline": headline, "first": first,
            "query": query(found, texts, read)}  # fmt: skip


def query(found: Calculator, texts: Mapping[str, str], read: Read) -> str:
    """`model=llama-3-70b&tp=8`: what differs from the defaults, of the fields that are asked for."""
    changed = {f.name: texts[f.name] for f in found.fields if f.name not in read.hidden and texts[f.name] != f.default}
    return urlencode(changed)


def form(name: str, texts: Mapping[str, str], key: str = "") -> str:
    """The inputs of a calculator as HTML, with these texts in them."""
    found = calculator(name)
    texts = {field.name: str(texts.get(field.name, field.default)) for field in found.fields}
    return form_html(key or name, found.fields, texts, read_all(found.fields, texts))
