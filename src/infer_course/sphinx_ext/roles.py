"""The roles of numbers: `{calc}` computes, `{measured}` looks up, `{given}` marks a figure that the text takes as its premise.

Whoever reads a figure can ask it where it is from: hover, focus or tap shows the formula with its inputs, or machine, day and commit.
"""

from __future__ import annotations

from html import escape

from docutils import nodes
from docutils.nodes import Node, system_message
from sphinx.util.docutils import SphinxRole

from infer_course import calc, measure
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import provenance
from infer_lab.errors import UserError

MAX_STEPS = 5


def calc_tip(found: calc.Evaluated) -> str:
    """HTML of the note on a computed number: what was asked, then the formulas with their inputs, outermost first."""
    rows = [f'<span class="il-tip-head">computed: {escape(found.formula)}</span>']
    if found.numbers not in (found.text, str(found.quantity)) and not (found.steps and found.numbers == str(found.steps[0].result)):
        rows.append(f'<span class="il-tip-row"><code>{escape(found.numbers)}</code></span>')
    shown = [step for step in found.steps if step.depth <= 1][:MAX_STEPS]
    for step in shown:
        rows.append(
            f'<span class="il-tip-row">{escape(step.name)}<br/>= <code>{escape(step.symbols)}</code>'
            f"<br/>= <code>{escape(step.numbers)}</code><br/>= <code>{escape(str(step.result))}</code></span>"
        )
    for record in found.measured:
        rows.append(f'<span class="il-tip-row">{escape(record.text)}: {escape(record.provenance)}</span>')
    return " ".join(rows)


def measured_tip(found: measure.Measured) -> str:
    """HTML of the note on a measured number: machine, day, commit, how often, how far it spread."""
    rows = [f'<span class="il-tip-head">measured: {escape(found.device)}, {escape(found.date)}</span>']
    if found.n and found.n > 1:
        spread = f", p10 to p90 {escape(found.spread)}" if found.spread else ""
        rows.append(f'<span class="il-tip-row">median of {found.n}{spread}</span>')
    if found.note:
        rows.append(f'<span class="il-tip-row">{escape(found.note)}</span>')
    state = " with local changes" if found.dirty else ""
    rows.append(f'<span class="il-tip-row"><code>{escape(found.ref)}</code> at <code>{escape(found.commit[:7])}</code>{state}</span>')
    return " ".join(rows)


class _NumberRole(SphinxRole):
    """What the two roles share: an error in a number is an error of the build, at its line."""

    kind = ""

    def shown(self) -> tuple[str, str]:
        raise NotImplementedError

    def run(self) -> tuple[list[Node], list[system_message]]:
        try:
            text, tip = self.shown()
        except UserError as error:
            message = self.inliner.reporter.error(f"{{{self.kind}}}`{self.text}`: {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        node = provenance(self.rawtext, "", nodes.Text(text), kind=self.kind, tip=tip)
        return [node], []


class CalcRole(_NumberRole):
    """{calc}`kv_bytes_per_token(llama_3_8b) | KiB`"""

    kind = "calc"

    def shown(self) -> tuple[str, str]:
        found = calc.evaluate(self.text, of(self.env.app).graph)
        return found.text, calc_tip(found)


class MeasuredRole(_NumberRole):
    """{measured}`h200/kv-cache-by-hand:step_time | ms .2f`"""

    kind = "measured"

    def shown(self) -> tuple[str, str]:
        found = measure.evaluate(self.text, of(self.env.app).graph)
        return found.text, measured_tip(found)


class GivenRole(SphinxRole):
    """{given}`4,096 tokens`: typed by the author, as the premise of what follows."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        return [nodes.inline(self.rawtext, self.text, classes=["il-given"])], []
