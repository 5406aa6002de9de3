"""The Sphinx extension of the course: everything that makes the pages more than their Markdown.

Kept free of the book builder's own modules: any Sphinx with MyST can use it. To read: `source` (a page's source), `roles`, `embeds`,
`measured` (records), `included` (code, drawings), `card_page`, `lesson_page` (directives and arrangement), `pages` (filling and
framing), `filled_pages` (sets, search), `docnodes` (nodes and their HTML), `find_data` (what search looks through), `card_files` (cards
as data), `names` (of models, which do not break), `glossary` (its terms, linked from lessons).
"""

from __future__ import annotations

import os
from typing import Any

from sphinx.application import Sphinx
from sphinx.config import Config

from infer_course.sphinx_ext import (
    calculators,
    card_files,
    card_page,
    course,
    docnodes,
    embeds,
    filled_pages,
    find_data,
    glossary,
    gone,
    included,
    lesson_page,
    measured,
    names,
    offline,
    pages,
    playground,
    roles,
    sitemap,
    social,
    source,
    timeline,
)

PLACES = (
    *("request-path", "part-contents", "doors", "course-map", "stage-list", "lab-index", "record-index", "course-status"),
    *("card-index", "card-browser", "card-print", "set-list", "drill", "mock"),
)


def configure(app: Sphinx, config: Config) -> None:
    """Event `config-inited`: our templates come before the theme's; SITE_URL names the address that a build is published at."""
    config.templates_path = [str(course.TEMPLATES), *config.templates_path]
    if url := os.environ.get("SITE_URL"):
        config.html_baseurl = url.rstrip("/") + "/"
    config.ogp_site_url = config.html_baseurl
    config.html_additional_pages = {**config.html_additional_pages, "404": "404.html"}


def setup(app: Sphinx) -> dict[str, Any]:
    docnodes.add_nodes(app)
    for name, role in (
        ("calc", roles.CalcRole),
        ("measured", roles.MeasuredRole),
        ("given", roles.GivenRole),
        ("playground", playground.PlaygroundRole),
    ):
        app.add_role(name, role())
    for name, directive in (
        ("card-head", card_page.CardHead),
        ("card-rubric", card_page.CardRubric),
        ("lesson-head", lesson_page.LessonHead),
        ("calculator", calculators.Calculator),
        ("calculator-index", calculators.CalculatorIndex),
        ("card-embed", embeds.EmbedCard),
        ("proof", embeds.Proof),
        ("measured-figure", measured.MeasuredFigure),
        ("measured-table", measured.MeasuredTable),
        ("measured-peers", measured.MeasuredPeers),
        ("measured-roofline", measured.MeasuredRoofline),
        ("measured-timeline", timeline.MeasuredTimeline),
        ("lab-code", included.LabCode),
        ("svg-figure", included.SvgFigure),
        ("scheduler-playground", playground.SchedulerPlayground),
        *((place, embeds.filled_by(place)) for place in PLACES),
    ):
        app.add_directive(name, directive)
    app.add_transform(card_page.ArrangeCard)
    app.add_transform(lesson_page.SurroundPages)
    app.add_post_transform(embeds.EmbedCards)
    app.add_post_transform(glossary.LinkTerms)
    app.add_post_transform(names.KeepNames)
    app.connect("config-inited", configure)
    app.connect("builder-inited", course.attach, priority=100)
    app.connect("builder-inited", filled_pages.replace_search)
    app.connect("env-get-outdated", pages.outdated)
    app.connect("source-read", source.rewrite)
    app.connect("doctree-resolved", pages.resolve)
    app.connect("html-page-context", pages.describe, priority=400)
    app.connect("html-page-context", pages.bundles, priority=500)
    app.connect("html-page-context", social.attach, priority=850)
    app.connect("html-page-context", pages.frame, priority=900)
    app.connect("html-collect-pages", filled_pages.write)
    app.connect("build-finished", sitemap.write)
    app.connect("build-finished", find_data.write)
    app.connect("build-finished", gone.remove_gone)
    app.connect("build-finished", card_files.write)
    app.connect("build-finished", playground.write)
    app.connect("build-finished", offline.write, priority=900)
    app.add_css_file("gen/site.css", priority=900)
    app.add_js_file("gen/site.mjs", type="module")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
