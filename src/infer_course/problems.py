"""What is wrong in the content, in a form that a person can act on: the file, the line, and the fix.

Every rule of the course yields these rather than raising, so that one run shows everything there is to mend.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning"]
Rule = Literal[
    "unreadable", "front-matter", "id-is-file-name", "part-is-folder", "duplicate-id", "unknown-id", "provenance", "record", "schema-file",
    "missing-section", "section-order", "unknown-section", "empty-section", "page-title", "word-limit", "chinese", "follow-ups", "mistakes",
    "rubric", "calc", "measured", "typed-number", "unit-spelling", "table-bar", "orphan", "one-way", "cycle", "repeated", "broken-link",
    "stale-record", "dirty-record", "old-source", "code", "included-code", "unfinished",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `file` is relative to the checkout, `line` counts from 1, `rule` is the stable name of what it breaks."""

    severity: Severity
    file: str
    line: int
    message: str
    fix: str
    rule: Rule

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.severity}: {self.message} Fix: {self.fix}"

    def as_dict(self) -> dict[str, str | int]:
        return asdict(self)


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the nearest known name, or nothing when none is near."""
    near = difflib.get_close_matches(wrong, sorted(known), n=1, cutoff=0.6)
    return f" Did you mean {near[0]!r}?" if near else ""


def sentence(text: str) -> str:
    """`text` with a full stop, unless it ends a sentence already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def a_few(names: Iterable[str], most: int = 8) -> str:
    """The first names of a list, and how many there are beside them."""
    listed = list(names)
    rest = len(listed) - most
    return ", ".join(listed[:most]) + (f" and {rest} more" if rest > 0 else "")


def in_reading_order(problems: Iterable[Problem]) -> tuple[Problem, ...]:
    """Without repeats, errors first, then by file and line."""
    return tuple(sorted(dict.fromkeys(problems), key=lambda p: (p.severity != "error", p.file, p.line, p.rule, p.message)))
