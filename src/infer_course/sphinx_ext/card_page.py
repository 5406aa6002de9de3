"""The card page: the question stands alone, the answer is behind one action, follow-ups unfold one by one, and the rubric is a checklist.

The author writes plain sections; this moves them into native HTML elements, so that the page works by keyboard and without script.
"""

from __future__ import annotations

from collections.abc import Iterator

from docutils import nodes
from docutils.nodes import Node
from sphinx.transforms import SphinxTransform
from sphinx.util.docutils import SphinxDirective

from infer_course.nodes import Card
from infer_course.schema import RubricItem
from infer_course.sphinx_ext.course import Course, of
from infer_course.sphinx_ext.docnodes import element, from_graph, html_element, raw

LEVELS = (("junior", "A junior answer"), ("mid", "A mid-level answer adds"), ("senior", "A senior answer adds"), ("red_flag", "Red flags"))


class CardHead(SphinxDirective):
    """Placed after the title by `source.rewrite`: chips, the Chinese question, the language switch."""

    def run(self) -> list[Node]:
        return [from_graph(template="card-head", args={})]


class CardRubric(SphinxDirective):
    """The rubric of the front matter as a checklist; its texts are Markdown."""

    def run(self) -> list[Node]:
        card = of(self.env.app).pages[self.env.docname]
        assert isinstance(card, Card)
        form = element("div", klass="il-rubric", data_card=card.id)
        for level, name in LEVELS:
            items = [item for item in card.rubric if item.level == level]
            if items:
                group = element("fieldset", element("legend", nodes.Text(name)), klass="il-rubric-level", data_level=level)
                group.extend(self._item(item) for item in items)
                form.append(group)
        form.append(
            raw(
                '<p class="il-rubric-foot il-js"><output class="il-rubric-score"></output> '
                '<button type="button" class="il-rubric-reset il-linkish" hidden>clear</button></p>'
            )
        )
        return [form]

    def _item(self, item: RubricItem) -> html_element:
        said, _ = self.parse_inline(item.text)
        label = element("label", raw(f'<input type="checkbox" value="{item.id}"/>'), element("span", *said))
        row = element("div", label, klass="il-rubric-item")
        if item.follow_up:
            asked, _ = self.parse_inline(item.follow_up)
            lead = element("span", nodes.Text("Missing? "), klass="il-label")
            row.append(element("p", lead, *asked, klass="il-rubric-ask"))
        return row


class ArrangeCard(SphinxTransform):
    """Moves the sections of a card into the answer, the chain and the lists. Runs before the contents of the page are collected."""

    default_priority = 700

    def apply(self, **_: object) -> None:
        course = of(self.app)
        card = course.pages.get(self.env.docname)
        if not isinstance(card, Card):
            return
        top = next(self.document.findall(nodes.section))
        sections = [child for child in top.children if isinstance(child, nodes.section)]
        for section in sections:
            top.remove(section)
            arrange = {"Direct answer": _direct, "中文回答": _chinese, "Follow-ups": _chain, "Common mistakes": _mistakes}
            arrange.get(_title(section), _plain)(section)
        summary = raw(
            '<summary class="il-reveal"><span class="il-when-closed">Reveal the answer</span>'
            '<span class="il-when-open">Hide the answer</span><kbd class="il-js">Space</kbd></summary>'
        )
        answer = element("details", summary, element("div", *sections, klass="il-answer-in"), klass="il-answer", id="answer")
        if card.estimate:
            top.append(from_graph(template="card-estimate", args={}))
        top.append(answer)
        top.append(from_graph(template="card-foot", args={}))


def direct_answer(course: Course, document: nodes.document) -> list[Node]:
    """The nodes of a card's direct answer, copied, for use on another page."""
    for section in document.findall(nodes.section):
        if "il-direct" in section.get("classes", []):
            return [child.deepcopy() for child in section.children if not isinstance(child, nodes.title)]
    return []


def _title(section: nodes.section) -> str:
    return section.children[0].astext()


def _plain(section: nodes.section) -> None:
    section["classes"].append("il-depth")


def _direct(section: nodes.section) -> None:
    section["classes"].append("il-direct")


def _chinese(section: nodes.section) -> None:
    section["classes"].append("il-zh")
    section["il_lang"] = "zh-Hans"
    inner = element("div", *section.children[1:], klass="il-flow", lang="zh-Hans")
    section.children = section.children[:1]
    section.append(inner)


def _chain(section: nodes.section) -> None:
    section["classes"].append("il-followups")
    intro = [child for child in section.children[1:] if not isinstance(child, nodes.section)]
    links = element("ol", klass="il-chain")
    for question in [child for child in section.children if isinstance(child, nodes.section)]:
        summary = element("summary", *question.children[0].children)
        body = element("div", *question.children[1:], klass="il-flow il-chain-answer")
        anchor = question["ids"][0]
        link = raw(f'<p class="il-followup-link"><a href="#{anchor}" aria-label="Link to this follow-up">#</a></p>')
        links.append(element("li", element("details", summary, body, link, klass="il-followup", id=anchor)))
    del section[1:]
    section.extend([*intro, links, raw('<p class="il-chain-left il-label il-js" hidden></p>')])


def _mistakes(section: nodes.section) -> None:
    section["classes"].append("il-mistakes")
    listed = element("div", klass="il-mistake-list")
    for paragraphs in _by_lead(section.children[1:]):
        listed.append(element("div", *paragraphs, klass="il-mistake il-flow"))
    del section[1:]
    section.append(listed)


def _by_lead(children: list[Node]) -> Iterator[list[Node]]:
    """Groups that begin with a paragraph whose first words are bold."""
    group: list[Node] = []
    for child in children:
        words = [part for part in child.children if not (isinstance(part, nodes.Text) and not part.strip())]
        leads = isinstance(child, nodes.paragraph) and bool(words) and isinstance(words[0], nodes.strong)
        if leads and group:
            yield group
            group = []
        group.append(child)
    if group:
        yield group
