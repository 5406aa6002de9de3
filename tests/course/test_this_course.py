"""The course in this repository keeps its own rules: the same check that authors run, code blocks included."""

from __future__ import annotations

import datetime
from pathlib import Path

from infer_course.check import check
from infer_course.graph import load

ROOT = Path(__file__).parents[2]


def test_the_course_has_no_errors() -> None:
    # The day of the newest source stands for today, so that the result depends on the files alone.
    graph = load(ROOT)
    days = [source.checked for node in (*graph.lessons.values(), *graph.cards.values()) for source in node.sources]
    found = [p for p in check(graph, max(days, default=datetime.date(2025, 1, 1))) if p.severity == "error"]
    assert not found, "\n".join(map(str, found))
