"""A page whose source was renamed or deleted goes with it: the builder removes none, and a reader could still land there."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sphinx.application import Sphinx

from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.questions import set_pages

WRITTEN = ("book", "labs", "questions")


def remove_gone(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`."""
    if error is None and app.builder.format == "html":
        remove(Path(app.outdir), {app.builder.get_target_uri(name) for name in app.env.found_docs | set_pages(of(app).graph)})


def remove(html: Path, pages: Collection[str]) -> list[str]:
    """Deletes the pages under `html` that are none of `pages` (addresses relative to it) and says which; other files stay."""
    gone = [path for folder in WRITTEN for path in (html / folder).rglob("*.html") if path.relative_to(html).as_posix() not in pages]
    for path in gone:
        path.unlink()
    return sorted(path.relative_to(html).as_posix() for path in gone)
