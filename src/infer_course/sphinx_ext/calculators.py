"""Calculators on pages: `{calculator}` puts one in its default (or a given) state, `{calculator-index}` lists them all.

What stands on the page is computed at build time by the same function that the page calls in the browser (`infer_course.calculators.view`).
"""

from __future__ import annotations

import json
from html import escape
from typing import Any, ClassVar

from docutils.nodes import Node
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from infer_course.calculators import CALCULATORS, calculator, form, view
from infer_course.calculators.machines import slim
from infer_course.graph import Graph
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import raw
from infer_lab.errors import UserError

HOME = "book/calculators/"


class Calculator(SphinxDirective):
    """```{calculator} kv-cache```: on its own page the whole tool; elsewhere the same, smaller, with a link there.

    `state` sets fields as an address does: `model=llama-3-70b&tp=8`. A field that does not exist, or cannot be read, stops the build.
    """

    required_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"state": directives.unchanged_required}

    def run(self) -> list[Node]:
        name = self.arguments[0]
        try:
            found = calculator(name)
        except UserError as error:
            raise self.error(str(error)) from None
        texts = dict(part.partition("=")[::2] for part in self.options.get("state", "").split("&") if part)
        if unknown := set(texts) - {field.name for field in found.fields}:
            raise self.error(f"the calculator {name} has no field {', '.join(sorted(unknown))}")
        home = self.env.docname == HOME + name
        key = name if home else f"{name}-{self.env.new_serialno('calculator')}"
        records = _records(of(self.env.app).graph) if found.measured else []
        seen = view(name, texts, records, key, folded=not home)
        if seen["errors"]:
            raise self.error("; ".join(f"{field}: {message}" for field, message in seen["errors"].items()))
        metadata = self.env.metadata[self.env.docname]
        metadata["bundle"] = " ".join(dict.fromkeys([*str(metadata.get("bundle", "")).split(), "calculators"]))
        link = f"{self.env.app.builder.get_relative_uri(self.env.docname, HOME + name)}"
        return [raw(_box(name, found.title, key, home, link, form(name, texts, key), seen, records))]


def _records(graph: Graph) -> list[dict[str, Any]]:
    """Limits and timed cases of the GPUs that were measured."""
    documents = [record.model_dump(mode="json") for record in graph.measurements.values()]
    return [slim(d) for d in documents if str(d["id"]).endswith("/limits") or d.get("cases")]


def _box(name: str, title: str, key: str, home: bool, link: str, inputs: str, seen: dict[str, Any], records: list[dict[str, Any]]) -> str:
    data = json.dumps(records, separators=(",", ":")).replace("<", "\\u003c")
    carried = f'<script type="application/json" class="il-calc-records">{data}</script>' if records else ""
    there = f"{link}?{seen['query']}" if seen["query"] else link
    head = "" if home else f'<p class="il-calc-title"><a href="{escape(there)}" data-home="{escape(link)}">{escape(title)}</a></p>'
    return (
        f'<section class="il-calculator{"" if home else " il-calculator--embed"}" data-calculator="{name}" data-key="{key}" '
        f'aria-label="{escape(title)}">{head}'
        f'<div class="il-calc-body"><div class="il-calc-side">{inputs}'
        '<p class="il-calc-noscript">These are the results for the values shown. Changing them needs JavaScript.</p>'
        '<p class="il-calc-tools il-js"><button type="button" class="il-btn il-btn--quiet" data-do="copy">Copy link</button>'
        '<button type="button" class="il-btn il-btn--quiet" data-do="reset" hidden>Reset</button></p>'
        '<p class="il-calc-status" role="status"></p>'
        f'<p class="il-calc-bar" aria-hidden="true">{escape(seen["first"])}</p></div>'
        f'<div class="il-calc-out">{seen["html"]}</div></div>{carried}</section>'
    )


class CalculatorIndex(SphinxDirective):
    """All calculators: what each answers, and its answer in the default state."""

    def run(self) -> list[Node]:
        items = []
        for name, found in CALCULATORS.items():
            seen = view(name, {}, [])
            link = self.env.app.builder.get_relative_uri(self.env.docname, HOME + name)
            items.append(
                f'<li><a href="{link}"><b>{escape(found.asks)}</b><span class="il-label">{escape(found.title)}</span></a>'
                f"<p>{escape(seen['headline'].partition('. ')[2] or seen['headline'])}</p></li>"
            )
        return [raw(f'<ul class="il-calc-index">{"".join(items)}</ul>')]
