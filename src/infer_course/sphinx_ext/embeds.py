"""Cards on other pages, and the places that are filled from the graph: indexes, the path of a request, the proof on the home page."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.nodes import Node
from docutils.parsers.rst import directives
from sphinx.addnodes import pending_xref
from sphinx.environment import BuildEnvironment
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.docutils import SphinxDirective

from infer_course import calc, measure
from infer_course.nodes import Card
from infer_course.sphinx_ext.card_page import direct_answer
from infer_course.sphinx_ext.course import docname, of
from infer_course.sphinx_ext.docnodes import card_embed, element, from_graph, provenance, raw
from infer_course.sphinx_ext.roles import calc_tip, measured_tip
from infer_lab.errors import UserError


def embed(env: BuildEnvironment, card: Card) -> card_embed:
    """The place of a card on the page that is being read, which is written anew whenever the card changes."""
    env.note_dependency(str(Path(env.srcdir) / card.path))
    return card_embed(card=card.id)


class EmbedCard(SphinxDirective):
    """```{card-embed} kv-cache-principle```: the card as it looks everywhere, its direct answer behind one action."""

    required_arguments = 1

    def run(self) -> list[Node]:
        graph = of(self.env.app).graph
        if self.arguments[0] not in graph.cards:
            raise self.error(f"no card has the id `{self.arguments[0]}`")
        return [embed(self.env, graph.cards[self.arguments[0]])]


class EmbedCards(SphinxPostTransform):
    """Fills `card_embed` nodes before references are resolved, so that links inside a copied answer lead right from here."""

    default_priority = 4

    def run(self, **_: Any) -> None:
        course = of(self.app)
        for node in list(self.document.findall(card_embed)):
            card = course.graph.cards[node["card"]]
            answer = direct_answer(course, self.env.get_doctree(docname(card.path)))
            for copied in answer:
                for part in copied.findall(nodes.Element):
                    part["ids"] = []
                    if isinstance(part, pending_xref):
                        part["refdoc"] = self.env.docname
                    if isinstance(part, (nodes.math, nodes.math_block)):
                        self.env.get_domain("math").data["has_equations"][self.env.docname] = True
            reveal = raw('<summary><span class="il-when-closed">Answer</span><span class="il-when-open">Hide</span></summary>')
            box = element(
                "article",
                from_graph(template="card-face", args={"card": card.id}),
                element("details", reveal, element("div", *answer, klass="il-flow il-face-answer"), klass="il-face-reveal"),
                from_graph(template="card-face-foot", args={"card": card.id}),
                klass="il-face",
            )
            node.replace_self(box)


class FromGraph(SphinxDirective):
    """A place that the template of the same name fills; options are handed to it as they stand."""

    template: ClassVar[str]
    optional_arguments = 1
    option_spec: ClassVar[dict[str, Any]] = {"part": directives.nonnegative_int}

    def run(self) -> list[Node]:
        return [from_graph(template=self.template, args={"argument": (self.arguments or [""])[0], **self.options})]


def filled_by(template: str) -> type[FromGraph]:
    return type("FromGraphDirective", (FromGraph,), {"template": template})


class Proof(SphinxDirective):
    """Predicted, measured and said, with one real figure from a record. Where the record does not exist there is nothing at all."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "predict": directives.unchanged_required,
        "measure": directives.unchanged_required,
        "card": directives.unchanged_required,
    }

    def run(self) -> list[Node]:
        graph = of(self.env.app).graph
        reference = self.options["measure"]
        record = reference.partition(":")[0].strip()
        if record not in graph.measurements:
            return []
        try:
            predicted = calc.evaluate(self.options["predict"], graph)
            measured = measure.evaluate(reference, graph)
        except UserError as error:
            raise self.error(str(error)) from None
        numbers = (
            ("predict", "Predict it", predicted.formula, provenance("", predicted.text, kind="calc", tip=calc_tip(predicted))),
            (
                "measure",
                "Measure it",
                f"{measured.device}, {measured.date}",
                provenance("", measured.text, kind="measured", tip=measured_tip(measured)),
            ),
        )
        rows = [
            element(
                "div",
                raw(f"<dt>{escape(name)}</dt>"),
                element("dd", element("p", number, klass="il-proof-number"), raw(f'<p class="il-label">{escape(source)}</p>')),
                klass=f"il-proof-{kind}",
            )
            for kind, name, source, number in numbers
        ]
        said = element("dd", *self.parse_content_to_nodes(), from_graph(template="proof-card", args={"card": self.options["card"]}))
        rows.append(element("div", raw("<dt>Say it</dt>"), said, klass="il-proof-say"))
        return [element("dl", *rows, klass="il-proof")]
