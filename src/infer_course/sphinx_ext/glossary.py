"""A lesson links each term of the glossary at its first use, so that no author has to.

The glossary is one page, `book/glossary.md`: an entry has an English name, other names and the Chinese one on lines of their own, then
its definition. Text that is a link, code, a heading or a formula already is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from infer_course.sphinx_ext.course import of

PAGE = "book/glossary"
CLASS = "il-term"
_CJK = re.compile(r"[\u4e00-\u9fff]")
_APART = (nodes.reference, nodes.literal, nodes.math, nodes.raw, nodes.title, nodes.caption, nodes.table, nodes.strong)


@dataclass(frozen=True, slots=True)
class Entry:
    """One definition under all its names. `note` is what a pointer that rests on the link shows."""

    anchor: str
    names: tuple[str, ...]
    note: str


def entries(glossary: nodes.document) -> list[Entry]:
    """The entries of the glossary page."""
    found = []
    for item in glossary.findall(nodes.definition_list_item):
        terms = [child for child in item.children if isinstance(child, nodes.term)]
        names = tuple(term.astext() for term in terms)
        meaning = item.children[-1].astext().partition(". ")[0].rstrip(".")
        chinese = [name for name in names if _CJK.search(name)]
        found.append(Entry(terms[0]["ids"][0], names, " · ".join([*chinese, meaning])))
    return found


def pattern(entries: list[Entry]) -> tuple[re.Pattern[str], Mapping[str, Entry]]:
    """Finds any name, the longest first, in singular or plural; and the entry of a found name (`name_of` it)."""
    named = {_key(name): entry for entry in entries for name in entry.names}
    longest_first = sorted((name for entry in entries for name in entry.names), key=len, reverse=True)
    either = "|".join(_spelled(name) for name in longest_first)
    return re.compile(rf"(?<![\w/-])({either})(?:s|es)?(?![\w/-])"), named


def first_uses(text: str, names: re.Pattern[str], named: Mapping[str, Entry], used: set[str]) -> Iterator[tuple[str, Entry | None]]:
    """`text` in pieces, those that are the first use of a term with its entry. `used` holds anchors and grows."""
    at = 0
    for match in names.finditer(text):
        entry = named[_key(match[1])]
        if entry.anchor not in used:
            used.add(entry.anchor)
            yield text[at : match.start()], None
            yield match[0], entry
            at = match.end()
    yield text[at:], None


def _spelled(name: str) -> str:
    """A name in lower case may begin a sentence; one with capitals (TTFT, KV cache) is written just so."""
    return f"(?i:{re.escape(name[0])}){re.escape(name[1:])}" if name == name.lower() else re.escape(name)


def _key(name: str) -> str:
    return name[0].lower() + name[1:]


class LinkTerms(SphinxPostTransform):
    """Before names are kept on one line, since that cuts text into pieces."""

    default_priority = 880
    formats = ("html",)

    def run(self, **_: Any) -> None:
        docname = self.env.docname
        if docname == PAGE:
            for term in self.document.findall(nodes.term):
                if _CJK.search(term.astext()):
                    term["classes"].append("language-zh")
        elif of(self.app).kind(docname) == "lesson" and PAGE in self.env.all_docs:
            names, named = pattern(entries(self.env.get_doctree(PAGE)))
            target = self.app.builder.get_relative_uri(docname, PAGE)
            link_terms(self.document, target, names, named)


def link_terms(document: nodes.document, target: str, names: re.Pattern[str], named: Mapping[str, Entry]) -> None:
    used: set[str] = set()
    for paragraph in list(document.findall(nodes.paragraph)):
        for text in list(paragraph.findall(nodes.Text)):
            if _apart(text):
                continue
            pieces: list[nodes.Node] = []
            for piece, entry in first_uses(text.astext(), names, named, used):
                if entry is None:
                    pieces += [nodes.Text(piece)] if piece else []
                else:
                    uri = f"{target}#{entry.anchor}"
                    pieces.append(nodes.reference("", piece, refuri=uri, internal=True, reftitle=entry.note, classes=[CLASS]))
            if any(isinstance(piece, nodes.reference) for piece in pieces):
                text.parent.replace(text, pieces)


def _apart(text: nodes.Text) -> bool:
    parent = text.parent
    while parent is not None:
        if isinstance(parent, _APART):
            return True
        parent = parent.parent
    return False
