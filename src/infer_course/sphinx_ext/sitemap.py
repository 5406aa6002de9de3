"""Writes sitemap.xml from all pages there are.

Why not the usual extension: it lists the pages that this run wrote, so after a build that rewrites one page it lists one.
"""

from __future__ import annotations

from pathlib import Path
from xml.sax.saxutils import escape

from sphinx.application import Sphinx

from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.questions import set_pages


def write(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`. Nothing without an address to publish at."""
    base = app.config.html_baseurl
    if error is not None or app.builder.format != "html" or not base:
        return
    pages = sorted(app.builder.get_target_uri(name) for name in app.env.found_docs | set_pages(of(app).graph))
    rows = "".join(f"  <url><loc>{escape(base.rstrip('/') + '/' + page)}</loc></url>\n" for page in pages)
    text = f'<?xml version="1.0" encoding="utf-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n{rows}</urlset>\n'
    Path(app.outdir, "sitemap.xml").write_text(text, encoding="utf-8")
