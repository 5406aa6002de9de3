"""Markdown of the course with its numbers put in: for readers outside the book (terminal, search index, decks)."""

from __future__ import annotations

import re

from infer_course import calc, measure
from infer_course.errors import CourseError
from infer_course.graph import Graph
from infer_course.markdown import replace_roles
from infer_course.tex import without_tex

_DIRECTIVE = re.compile(r"^\s*(`{3,}|~{3,}|:{3,}).*$|^\s*:[\w-]+:.*$", re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\]\n]|\n(?!\s*\n))*)\]\([^)\n]*\)")
_MARKS = re.compile(r"\*\*|(?<!\w)\*(?=\S)|(?<=\S)\*(?!\w)|`+|^#{1,6}\s+|^\s*[-*]\s+|^\s*>\s?|\$\$?", re.MULTILINE)
_RULE = re.compile(r"^\s*\|?[\s:|-]{3,}\|?\s*$", re.MULTILINE)


def with_numbers(text: str, graph: Graph) -> str:
    """Markdown with `{calc}`, `{measured}` and `{given}` replaced by what they come to; other roles by their text."""

    def number(name: str, body: str) -> str:
        try:
            if name == "calc":
                return calc.evaluate(body, graph).text
            if name == "measured":
                return measure.evaluate(body, graph).text
        except CourseError as error:
            return f"[{error}]"
        return body

    return replace_roles(text, number)


def readable(text: str, graph: Graph) -> str:
    """Markdown for a terminal: numbers put in, formulas as plain text."""
    return without_tex(with_numbers(text, graph))


def plain_text(text: str, graph: Graph) -> str:
    """The words of the markdown on one line, numbers put in: what a search goes through. Code and formulas stay as they are written."""
    text = _COMMENT.sub(" ", with_numbers(text, graph))
    text = _MARKS.sub("", _LINK.sub(r"\1", _RULE.sub(" ", _DIRECTIVE.sub(" ", text))))
    return " ".join(text.replace("|", " ").split())
