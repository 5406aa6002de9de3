"""However a file is damaged, the course loads and the check reports; it never breaks off."""

from __future__ import annotations

import datetime
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from course.tree import Tree
from infer_course.check import check
from infer_course.graph import load
from infer_course.problems import Problem

FILES = [
    "questions/part0/kv-cache-principle.md",
    "book/part0/kv-cache.md",
    "labs/part0/kv-cache-by-hand.ipynb",
    "measurements/h200/kv-cache-by-hand.json",
    "questions/sets/one-evening.yaml",
    "book/index.md",
]
MARKS = [
    "",
    "---\n",
    "```",
    "{calc}`",
    "`",
    "[]",
    "{}",
    "null",
    ": ",
    "- ",
    "\n",
    "&a *a",
    "!!python/x",
    "\x00",
    "1e999",
    "# ",
    "**",
    "|",
    "\ufeff",
]
PIECES = st.one_of(st.sampled_from(MARKS), st.text(max_size=5))
SET = "id: one-evening\ntitle: {en: One evening, zh: 一个晚上}\ncards: [kv-cache-principle]\n"
HOME = "# Home\n\n```{proof}\n:predict: 1 + 1\n:measure: h200/kv-cache-by-hand:cached | KiB\n```\n"


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 40), PIECES), min_size=1, max_size=4))
def test_a_damaged_file_is_reported_and_nothing_breaks(name: str, cuts: list[tuple[float, int, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree = Tree(Path(folder))
        tree.write("questions/sets/one-evening.yaml", SET)
        tree.write("book/index.md", HOME)
        text = tree.read(name)
        for place, length, piece in cuts:
            at = int(place * len(text))
            text = text[:at] + piece + text[at + length :]
        tree.path(name).write_bytes(text.encode("utf-8", "surrogatepass"))
        found = check(load(tree.root), datetime.date(2025, 7, 1), run_code=False)
        assert all(isinstance(problem, Problem) and problem.line >= 1 and problem.fix for problem in found)
        for problem in found:
            assert tree.path(problem.file).is_file()
