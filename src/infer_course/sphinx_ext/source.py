"""Turns the source of a lesson or card into a page: the title comes from the front matter, and the rendered parts get their places.

Only the front matter is replaced, by exactly as many lines, so that every warning still names the line that the author wrote.
"""

from __future__ import annotations

from sphinx.application import Sphinx

from infer_course.nodes import Card, Lesson
from infer_course.sphinx_ext.course import of


def rewrite(app: Sphinx, docname: str, source: list[str]) -> None:
    """Event `source-read`."""
    page = of(app).pages.get(docname)
    if isinstance(page, Card):
        head = [f"# {page.title.en}", "```{card-head}", "```"]
        source[0] = _with_head(source[0], head, orphan=True) + "\n\n```{card-rubric}\n```\n"
    elif isinstance(page, Lesson):
        source[0] = _with_head(source[0], [f"# {page.title.en}", "```{lesson-head}", "```"], orphan=False)


def _with_head(text: str, head: list[str], orphan: bool) -> str:
    """`text` with its front matter replaced by a minimal one and `head`, on the same number of lines."""
    lines = text.split("\n")
    end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    front = ["orphan: true"] if orphan else ["infer_course: lesson"]
    filler = ["#"] * (end + 1 - 2 - len(front) - len(head))
    return "\n".join(["---", *front, *filler, "---", *head, *lines[end + 1 :]])
