"""The roles of numbers: `{calc}` computes, `{measured}` looks up, `{given}` marks a figure that the text takes as its premise.

Whoever reads a figure can ask it where it is from: hover, focus or tap shows the formula with its inputs, or machine, day and commit.
"""

from __future__ import annotations

from docutils import nodes
from docutils.nodes import Node, system_message
from sphinx.util.docutils import SphinxRole

from infer_course import calc, measure
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import provenance
from infer_lab.errors import UserError

MAX_STEPS = 5


def calc_tip(found: calc.Evaluated) -> str:
    """The note on a computed number, line by line: what was asked, then the formulas with their inputs, outermost first.

    A line that begins with `= ` goes on with the one before it.
    """
    lines = [f"computed: {found.formula}"]
    first = str(found.steps[0].result) if found.steps else ""
    if found.numbers not in (found.text, str(found.quantity), first, found.formula):
        lines.append(f"= {found.numbers}")
    for step in [step for step in found.steps if step.depth <= 1][:MAX_STEPS]:
        lines += [step.name, f"= {step.symbols}", f"= {step.numbers}", f"= {step.result}"]
    lines += [f"{record.text}: {record.provenance}" for record in found.measured]
    return "\n".join(lines)


def measured_tip(found: measure.Measured) -> str:
    """The note on a measured number: machine and day, how often and how far it spread, where it is recorded."""
    lines = [f"measured: {found.device}, {found.date}"]
    if found.n and found.n > 1:
        lines.append(f"median of {found.n}" + (f", p10 to p90 {found.spread}" if found.spread else ""))
    if found.note:
        lines.append(found.note)
    lines.append(f"{found.ref}, commit {found.commit[:7]}{' with local changes' if found.dirty else ''}")
    return "\n".join(lines)


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
