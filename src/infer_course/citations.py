"""Which measurement records a text names: in roles, in calculations, and in the directives that draw or list records."""

from __future__ import annotations

import re
from dataclasses import dataclass

from infer_course.frontmatter import Text
from infer_course.markdown import Fence, Role, roles, scan

_MEASURED_CALL = re.compile(r"""measured\(\s*["']([^"':]+):[^"']*["']\s*\)""")
RECORD_DIRECTIVES = ("measured-figure", "measured-table", "measured-peers", "measured-roofline", "measured-timeline")


@dataclass(frozen=True, slots=True)
class Citation:
    """A place where a text names a measurement record; `line` is of the file."""

    record: str
    line: int


def words(text: str) -> tuple[str, ...]:
    """The entries of an option: split at commas and spaces."""
    return tuple(part for part in re.split(r"[,\s]+", text) if part)


def records_in_role(role: Role) -> tuple[str, ...]:
    """Records that a `{measured}` or `{calc}` role reads."""
    if role.name == "measured":
        return (_record(role.text),)
    return tuple(_MEASURED_CALL.findall(role.text)) if role.name == "calc" else ()


def records_in_fence(fence: Fence) -> tuple[str, ...]:
    """Records that a directive shows: its argument or `:record:`, those before a colon in `:series:`, and `:measure:` of a proof."""
    found: list[str] = []
    if fence.directive in RECORD_DIRECTIVES:
        found += words(fence.options.get("record", "") or fence.argument)
        found += [name.partition(":")[0] for name in words(fence.options.get("series", "")) if ":" in name]
    if "measure" in fence.options:
        found.append(_record(fence.options["measure"]))
    return tuple(dict.fromkeys([*found, *_MEASURED_CALL.findall(fence.options.get("predict", ""))]))


def citations(text: Text) -> tuple[Citation, ...]:
    """Every record that the text names, in order of kind: roles first, then directives."""
    found = [Citation(record, text.line(role.line)) for role in roles(text.body) for record in records_in_role(role)]
    found += [Citation(record, text.line(fence.line)) for fence in scan(text.body).fences for record in records_in_fence(fence)]
    return tuple(found)


def _record(reference: str) -> str:
    return reference.partition(":")[0].strip()
