"""What surrounds a lesson and a lab: where it is on the path, what one can do after it, and at its end the cards, labs and sources.

The lists come from the graph: nobody writes a backlink.
"""

from __future__ import annotations

from docutils import nodes
from docutils.nodes import Node
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from infer_course.nodes import Card, Lab, Lesson
from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import element, from_graph
from infer_course.sphinx_ext.embeds import embed


class LessonHead(SphinxDirective):
    """Placed after the title by `source.rewrite`: path, time, prerequisites, and the objectives, whose texts are Markdown."""

    def run(self) -> list[Node]:
        lesson = of(self.env.app).pages[self.env.docname]
        assert isinstance(lesson, Lesson)
        goals = element("ul", klass="il-goals")
        for objective in lesson.objectives:
            text, _ = self.parse_inline(objective)
            goals.append(element("li", *text))
        lead = element("p", nodes.Text("After this you can"), klass="il-label")
        return [from_graph(template="lesson-head", args={}), element("div", lead, goals, klass="il-objectives")]


class SurroundPages(SphinxTransform):
    """Appends the rendered sections to lessons and labs, early enough to stand in the list of contents."""

    default_priority = 701

    def apply(self, **_: object) -> None:
        course = of(self.app)
        page = course.pages.get(self.env.docname)
        if page is None or isinstance(page, Card):
            return
        top = next(self.document.findall(nodes.section), None)
        if top is None:
            self.document.reporter.warning(f"{page.path} has no title: its first cell must begin with `# `", line=1)
            return
        if isinstance(page, Lesson):
            cards = course.graph.cards_of_lesson(page.id)
            if course.graph.labs_of_lesson(page.id):
                top.append(_section("run-it", "Run it", from_graph(template="lesson-labs", args={})))
            if cards:
                top.append(_section("interview-connection", "Interview connection", *(embed(self.env, card) for card in cards)))
            top.append(_section("sources", "Sources", from_graph(template="sources", args={})))
        elif isinstance(page, Lab):
            top.insert(1, from_graph(template="lab-head", args={}))
            cards = course.graph.cards_of_lab(page.id)
            if cards:
                top.append(_section("what-it-proves", "What it proves", *(embed(self.env, card) for card in cards)))
            top.append(from_graph(template="lab-foot", args={}))


def _section(anchor: str, title: str, *children: nodes.Node) -> nodes.section:
    section = nodes.section("", nodes.title("", title), *children, ids=[anchor], names=[nodes.fully_normalize_name(title)])
    section["classes"].append("il-rendered")
    return section
