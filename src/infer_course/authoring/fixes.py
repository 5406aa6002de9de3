"""`infer-course check --fix`: repairs that need no judgement. What would need one stays a finding."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from infer_course.graph import Graph
from infer_course.markdown import roles
from infer_course.problems import Problem, Rule
from infer_course.schema import CARD_SECTIONS, json_schema

Fix = Callable[[list[str], Problem], bool]
"""Mends the lines of a file in place; False where it cannot. Lines of a problem count from 1."""

_UNITS: tuple[tuple[str, str], ...] = (
    (r"(?<![\w.,-])(\d[\d,.]*)((?:[kKMGT]i?B|ms|µs|us|ns|[MGTP]FLOPs?)(?:/\w+)?)(?!\w)", r"\1 \2"),
    (r"(?<!\w)([KMGTP]i?B)s(?!\w)", r"\1"),
    (r"(?<!\w)([kMGTP]?)FLOPS(?:/s)?(?!\w)", r"\1FLOP/s"),
    (r"(?<!\w)([MGTP])FLOPs/s(?!\w)", r"\1FLOP/s"),
    (r"(?<!\w)([MGTP])FLOPs(?!\w)", r"\1FLOP"),
    (r"(?<!\w)([A-Za-z]+)/sec(?!\w)", r"\1/s"),
    (r"(?<!\w)msec(?!\w)", "ms"),
    (r"(?<!\w)usec(?!\w)", "µs"),
    (r"(?<!\w)secs(?!\w)", "s"),
    (r"(?<=\d )us(?!\w)", "µs"),
    (r"(?<=\d )(?:MS|Ms|mS)(?!\w)", "ms"),
)


def fix(graph: Graph, problems: tuple[Problem, ...]) -> list[Problem]:
    """Mends what can be mended, file by file, and returns the findings that were. Load the graph again afterwards."""
    mended: list[Problem] = []
    by_file: dict[str, list[Problem]] = {}
    for problem in problems:
        if problem.rule in _FIXES or problem.rule == "schema-file":
            by_file.setdefault(problem.file, []).append(problem)
    for name, found in by_file.items():
        path = graph.root / name
        if found[0].rule == "schema-file":
            path.write_text(json_schema(), encoding="utf-8")
            mended += found
        elif path.suffix == ".md":
            mended += _in_file(path, found)
    return mended


def _in_file(path: Path, problems: list[Problem]) -> list[Problem]:
    lines = path.read_text(encoding="utf-8").split("\n")
    # from the end: a line that goes moves none that is still to be looked at; the order of sections last of all
    later_first = sorted(problems, key=lambda problem: (problem.rule == "section-order", -problem.line))
    touched: set[tuple[str, int]] = set()  # a line is mended as a whole, whatever is wrong with it by one rule
    done = []
    for problem in later_first:
        place = (problem.rule, problem.line)
        if place in touched or _FIXES[problem.rule](lines, problem):
            touched.add(place)
            done.append(problem)
    if done:
        path.write_text("\n".join(lines), encoding="utf-8")
    return done


def _units(lines: list[str], problem: Problem) -> bool:
    if not 0 < problem.line <= len(lines):
        return False
    before = lines[problem.line - 1]
    # roles, code and addresses stay as they are, but for {given}, which holds words
    parts = re.split(r"(\{[a-z-]+\}`[^`]*`|`[^`]*`|https?://\S+|\]\([^)]*\))", before)
    for at, part in enumerate(parts):
        if at % 2 == 0 or part.startswith("{given}"):
            for pattern, replacement in _UNITS:
                part = re.sub(pattern, replacement, part, flags=re.ASCII)
            parts[at] = part
    lines[problem.line - 1] = "".join(parts)
    return lines[problem.line - 1] != before


def _bars(lines: list[str], problem: Problem) -> bool:
    before = lines[problem.line - 1]
    text = before
    for role in roles(before):
        text = text.replace(f"`{role.text}`", "`" + re.sub(r"(?<!\\)\|", r"\\|", role.text) + "`")
    lines[problem.line - 1] = text
    return text != before


def _part(lines: list[str], problem: Problem) -> bool:
    folder = re.search(r"/part(\d+)/", problem.file)
    line = lines[problem.line - 1]
    if folder is None or not line.startswith("part:"):
        return False
    lines[problem.line - 1] = f"part: {folder[1]}"
    return True


def _no_heading(lines: list[str], problem: Problem) -> bool:
    if not lines[problem.line - 1].startswith("# "):
        return False
    del lines[problem.line - 1]
    return True


def _order(lines: list[str], problem: Problem) -> bool:
    """Sections of a card in their order; a section that stands twice, or an unknown one, is for its author."""
    if "belongs" not in problem.message:
        return False
    starts = [n for n, line in enumerate(lines) if line.startswith("## ") and not _inside_fence(lines, n)]
    sections = [(lines[start][3:].strip(), lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]
    titles = [title for title, _ in sections]
    if len(set(titles)) != len(titles) or not set(titles) <= set(CARD_SECTIONS):
        return False
    ordered = sorted(sections, key=lambda section: CARD_SECTIONS.index(section[0]))
    body = [line for _, part in ordered for line in [*_trimmed(part), ""]]
    lines[starts[0] :] = body
    return True


def _trimmed(part: list[str]) -> list[str]:
    end = len(part)
    while end and not part[end - 1].strip():
        end -= 1
    return part[:end]


def _inside_fence(lines: list[str], number: int) -> bool:
    return sum(line.lstrip().startswith(("```", "~~~")) for line in lines[:number]) % 2 == 1


_FIXES: dict[Rule, Fix] = {
    "unit-spelling": _units, "table-bar": _bars, "part-is-folder": _part, "page-title": _no_heading, "section-order": _order,
}  # fmt: skip
