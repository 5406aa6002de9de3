"""The scheduler playground: the prepared scenarios, played while the page is built, so that it says something before and without Python.

The page gets one run drawn (the template `playground.html`) and the description of the form; every prepared run is a file that the page's
script reads, `_static/playground/<id>.json`, equal to what the same Python gives in the reader's browser.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.nodes import Node, system_message
from markupsafe import Markup
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

from infer_course.sphinx_ext.course import of
from infer_course.sphinx_ext.docnodes import from_graph, raw
from infer_lab.errors import UserError
from infer_lab.sim.playground import play
from infer_lab.sim.prepared import DEFAULT, PREPARED, Prepared, prepared
from infer_lab.sim.scenario import form

KINDS = ("waiting", "preempted", "swapped", "prefill", "again", "decode", "drafts")
"""What a lane can show, in the order in which it is drawn."""


@cache
def view(scenario_id: str) -> dict[str, Any]:
    return play(prepared(scenario_id).spec)


def about(scenario: Prepared) -> dict[str, Any]:
    return {name: getattr(scenario, name) for name in ("id", "title", "title_zh", "see", "at_ms", "watch")}


class SchedulerPlayground(SphinxDirective):
    """```{scheduler-playground}```"""

    def run(self) -> list[Node]:
        data = {"scenarios": [about(scenario) for scenario in PREPARED.values()], "form": form()}
        html = of(self.env.app).render(
            "playground",
            scenarios=PREPARED.values(),
            chosen=PREPARED[DEFAULT],
            view=view(DEFAULT),
            watched=[row for key in PREPARED[DEFAULT].watch for row in view(DEFAULT)["figures"] if row["key"] == key],
            kinds=KINDS,
            data=Markup(json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")),
        )
        return [raw(html)]


class PlaygroundRole(SphinxRole):
    """`` {playground}`thrash` `` links to that scenario under its title."""

    def run(self) -> tuple[list[Node], list[system_message]]:
        try:
            scenario = prepared(self.text.strip())
        except UserError as error:
            message = self.inliner.reporter.error(f"{{playground}}`{self.text}`: {error}", line=self.lineno)
            return [self.inliner.problematic(self.rawtext, self.rawtext, message)], [message]
        return [nodes.inline("", "", from_graph(template="playground-link", args={"scenario": about(scenario)}))], []


def write(app: Sphinx, error: Exception | None) -> None:
    """Event `build-finished`: one file for each prepared scenario."""
    if error is not None or app.builder.format != "html":
        return
    folder = Path(app.outdir, "_static", "playground")
    folder.mkdir(parents=True, exist_ok=True)
    for scenario in PREPARED.values():
        text = json.dumps(about(scenario) | view(scenario.id), ensure_ascii=False, separators=(",", ":"))
        path = folder / f"{scenario.id}.json"
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
