"""Code on a card runs as it stands: its `python` blocks under `## Code`, together, in a process of their own with a time limit.

A block that needs a package this machine lacks (torch, on a machine that only builds the book) is a warning: not run, not judged.
Code of the library that a text includes by name must be there.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from infer_course.errors import CourseError
from infer_course.graph import Graph, texts_of
from infer_course.markdown import scan
from infer_course.nodes import Card
from infer_course.problems import Problem
from infer_course.symbols import find_code

TIME_LIMIT_S = 30.0
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_OPTIONAL = {"torch", "triton", "numpy", "transformers"}


def check_code(graph: Graph, time_limit_s: float = TIME_LIMIT_S) -> Iterator[Problem]:
    for card in graph.cards.values():
        section = card.section("Code")
        if section is None:
            continue
        blocks = [fence for fence in scan(section.body).fences if fence.language == "python"]
        if not blocks:
            if card.kind == "coding":
                fix = "write the answer as a ```python block; it is run as it stands"
                yield Problem("error", card.path, section.line, "`## Code` of a coding card holds no ```python block.", fix, "code")
            continue
        lines: list[str] = []
        for block in blocks:  # each block at its own line of the file, so that a traceback points there
            lines += [""] * (section.text.line(block.line) - len(lines)) + block.body.split("\n")
        yield from _run(card, "\n".join(lines) + "\n", section.line, time_limit_s)


def check_included(graph: Graph) -> Iterator[Problem]:
    """Every `{lab-code}` names code that exists."""
    nodes = [(node.path, texts_of(node)) for node in (*graph.lessons.values(), *graph.cards.values(), *graph.labs.values())]
    for path, texts in [*nodes, *((page.path, (page.text,)) for page in graph.pages.values())]:
        for text in texts:
            for fence in scan(text.body).fences:
                if fence.directive == "lab-code":
                    try:
                        find_code(graph.root, fence.argument)
                    except CourseError as error:
                        fix = "name it as `module:Class.method`, as it stands in src/ now"
                        yield Problem("error", path, text.line(fence.line), f"`{fence.argument}`: {error}.", fix, "included-code")


def _run(card: Card, program: str, line: int, time_limit_s: float) -> Iterator[Problem]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "card.py"
        path.write_text(program, encoding="utf-8")
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-X", "utf8", str(path)],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=time_limit_s,
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except subprocess.TimeoutExpired:
            message = f"the code did not finish within {time_limit_s:g} s."
            yield Problem("error", card.path, line, message, "make the example smaller", "code")
            return
    if done.returncode == 0:
        return
    last = done.stderr.strip().split("\n")[-1] if done.stderr.strip() else f"exit status {done.returncode}"
    missing = _MISSING.search(last)
    if missing and missing[1].partition(".")[0] in _OPTIONAL:
        message = f"the code was not run: {missing[1]} is not installed here."
        yield Problem("warning", card.path, line, message, 'pip install "infer-lab[engine]"', "code")
        return
    where = [int(found) for found in re.findall(r'File "[^"]*card\.py", line (\d+)', done.stderr)]
    yield Problem(
        "error", card.path, where[-1] if where else line, f"the code fails: {last[:200]}.", "mend it; it must run as it stands", "code"
    )
