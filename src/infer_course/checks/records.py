"""Measurement records and sources can be trusted: known units, fresh code, a clean tree, links that somebody looked at."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from infer_course.graph import Graph
from infer_course.measure import changed_sources
from infer_course.nodes import Card, Lesson, Measurement
from infer_course.problems import Problem
from infer_lab.errors import UserError
from infer_lab.units import Quantity

SOURCE_DAYS = 365


def check_records(graph: Graph) -> Iterator[Problem]:
    for record in graph.measurements.values():
        yield from _units(record)
        again = "measure again (`make labs-gpu`, or the record's command)"
        if changed := changed_sources(graph.root, record):
            message = f"the record `{record.id}` is older than its sources: {', '.join(changed)}."
            yield Problem("warning", record.path, 1, message, again, "stale-record")
        if record.git.dirty:
            message = f"the record `{record.id}` was measured with uncommitted changes."
            yield Problem("warning", record.path, 1, message, f"commit, then {again}", "dirty-record")
        if not record.sources:
            message = f"the record `{record.id}` names no sources, so nobody can tell when it is out of date."
            yield Problem("warning", record.path, 1, message, "pass the files that it measures to infer_lab.bench", "stale-record")


def check_sources(graph: Graph, today: datetime.date) -> Iterator[Problem]:
    """Cited pages were looked at within a year of `today`, and not after it."""
    for node in (*graph.lessons.values(), *graph.cards.values()):
        for index, source in enumerate(node.sources):
            line = node.document.meta_line(f"sources.{index}.checked")
            yield from _source(node, line, source.title, source.checked, today)


def _source(node: Card | Lesson, line: int, title: str, checked: datetime.date, today: datetime.date) -> Iterator[Problem]:
    age = (today - checked).days
    if age > SOURCE_DAYS:
        message = f"the source “{title}” was last looked at {age} days ago."
        yield Problem("warning", node.path, line, message, "read it again, then set `checked`", "old-source")
    elif age < -1:
        message = f"the source “{title}” is said to be checked on {checked}, which is still to come."
        yield Problem("error", node.path, line, message, "set `checked` to the day on which it was read", "old-source")


def _units(record: Measurement) -> Iterator[Problem]:
    named = [(f"values.{name}", value.unit) for name, value in record.values.items()]
    for name, series in record.series.items():
        named += [(f"series.{name}.x", series.x.unit), (f"series.{name}.y", series.y.unit)]
    for where, unit in named:
        try:
            Quantity(0, unit or "1")
        except UserError as error:
            yield Problem("error", record.path, 1, f"`{where}` of `{record.id}`: {error}.", "write the record with a known unit", "record")
