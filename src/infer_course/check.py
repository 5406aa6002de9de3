"""Checks the whole course: every rule over everything that is written, with file, line and fix for each finding.

The rules themselves are in `infer_course.checks`, one file per subject; schema and ids are checked while the graph loads.
"""

from __future__ import annotations

import datetime

from infer_course.checks.code import check_code, check_included
from infer_course.checks.edges import check_edges
from infer_course.checks.figures import check_figures
from infer_course.checks.records import check_records, check_sources
from infer_course.checks.sets import check_sets
from infer_course.checks.structure import check_structure
from infer_course.graph import Graph
from infer_course.problems import Problem, in_reading_order
from infer_course.schema import json_schema

SCHEMA_FILE = "questions/schema.json"


def check(graph: Graph, today: datetime.date, run_code: bool = True) -> tuple[Problem, ...]:
    """All problems of the course, errors first. `today` is the day by which sources count as old."""
    problems = [*graph.problems, *check_structure(graph), *check_figures(graph), *check_edges(graph), *check_sets(graph)]
    problems += [*check_records(graph), *check_sources(graph, today), *check_included(graph), *_schema_file(graph)]
    if run_code:
        problems += check_code(graph)
    return in_reading_order(problems)


def _schema_file(graph: Graph) -> tuple[Problem, ...]:
    path = graph.root / SCHEMA_FILE
    if path.is_file() and path.read_text(encoding="utf-8") == json_schema():
        return ()
    what = "is older than the models it is exported from" if path.is_file() else "is missing"
    return (Problem("error", SCHEMA_FILE, 1, f"the exported schema {what}.", "run `infer-course schema --write`", "schema-file"),)
