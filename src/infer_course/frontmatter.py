"""Reads a lesson, a card or a notebook into its front matter and its text, remembering on which line each thing stands.

Line numbers are the point: a rule that says "questions/part0/x.md:14" is mended in seconds. YAML and JSON parsers drop them, so
front matter is composed to nodes first (keys keep their marks) and notebooks are searched for the lines of their cells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import yaml

from infer_course.errors import CourseError
from infer_course.markdown import scan


class DocumentError(CourseError):
    """A file has no readable front matter; `line` says where, `fix` what to write."""

    def __init__(self, message: str, line: int, fix: str) -> None:
        super().__init__(message)
        self.line, self.fix = line, fix


@dataclass(frozen=True, slots=True)
class Text:
    """A stretch of markdown and the file line of each of its lines. `front` marks text that stands in the front matter."""

    body: str
    lines: tuple[int, ...]
    front: bool = False

    def line(self, index: int) -> int:
        """File line of the text's line `index` (from 0)."""
        return self.lines[min(index, len(self.lines) - 1)]


@dataclass(frozen=True, slots=True)
class Section:
    """A `##` section: its heading, the heading's line, and the text up to the next `##`."""

    title: str
    line: int
    text: Text

    @property
    def body(self) -> str:
        return self.text.body

    def parts(self, level: int = 3) -> tuple[Section, ...]:
        """The sections one level down, `### …` by default: a card's follow-up questions with their answers."""
        return split_sections(self.text, level)


@dataclass(frozen=True, slots=True)
class Document:
    """A parsed file. `meta_lines` maps a dotted path of the front matter ("rubric.0.level") to its line."""

    path: str
    meta: dict[str, Any]
    meta_lines: Mapping[str, int]
    texts: tuple[Text, ...]
    sections: tuple[Section, ...] = ()

    def meta_line(self, dotted: str) -> int:
        """Line of that front matter entry, or of the nearest entry around it."""
        while dotted:
            if dotted in self.meta_lines:
                return self.meta_lines[dotted]
            dotted = dotted.rpartition(".")[0]
        return 1

    def section(self, title: str) -> Section | None:
        return next((section for section in self.sections if section.title == title), None)


def split_sections(text: Text, level: int = 2) -> tuple[Section, ...]:
    """Cuts `text` at its headings of exactly `level`; headings inside code do not count."""
    scanned = scan(text.body)
    marks = [heading for heading in scanned.headings if heading.level == level]
    ends = [*(heading.line for heading in marks[1:]), len(scanned.lines)]
    return tuple(Section(mark.title, text.line(mark.line), _cut(text, mark.line + 1, end)) for mark, end in zip(marks, ends, strict=False))


def _cut(text: Text, start: int, end: int) -> Text:
    body = text.body.split("\n")[start:end]
    lines = tuple(text.line(index) for index in range(start, max(end, start + 1)))
    return Text("\n".join(body), lines)


def read_markdown(root: Path, path: Path) -> Document:
    """The document at `path`; DocumentError when its front matter is missing or is not YAML."""
    relative = path.relative_to(root).as_posix()
    raw = _read(path)
    lines = raw.split("\n")
    if lines[0].strip() != "---":
        raise DocumentError(
            "the file does not begin with front matter.", 1, "begin it with a `---` line, the fields, and a second `---` line"
        )
    try:
        end = next(number for number, line in enumerate(lines[1:], 1) if line.rstrip() == "---")
    except StopIteration:
        raise DocumentError("the front matter is not closed.", 1, "write a line `---` after the last field") from None
    meta, meta_lines = read_yaml("\n".join(lines[1:end]), first_line=2)
    body = Text("\n".join(lines[end + 1 :]), tuple(range(end + 2, max(len(lines), end + 2) + 1)))
    return Document(relative, meta, meta_lines, (body,), split_sections(body))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a mark that readers do not see
    except UnicodeDecodeError as error:
        raise DocumentError(f"the file is not UTF-8 (byte {error.start}).", 1, "save it as UTF-8") from None


class _Loader(yaml.SafeLoader):
    """Days stay text, so that one that does not exist is reported at its own field and not as broken YAML."""

    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _mend(what: str) -> str:
    """What to do about a complaint of the YAML parser."""
    if "\\t" in what:
        return "indent with spaces, not with tabs"
    if "special characters" in what:
        return "delete the control character"
    if "expected ',' or" in what:
        return "close the bracket that was opened on this line or before it"
    return "quote a value that holds a colon, `#` or quotes"


def read_yaml(text: str, first_line: int = 1) -> tuple[dict[str, Any], dict[str, int]]:
    """A YAML mapping and the line of each of its entries by dotted path."""
    try:
        node = yaml.compose(text, Loader=_Loader)
        value = yaml.load(text, Loader=_Loader)  # a SafeLoader with fewer kinds
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark, at = getattr(error, "problem_mark", None), getattr(error, "position", 0)
        what = " ".join((getattr(error, "problem", None) or str(error)).partition('in "<')[0].split())
        line = first_line + (mark.line if mark else text[: at if isinstance(at, int) else 0].count("\n"))
        raise DocumentError(f"the front matter is not YAML: {what}.", line, _mend(what)) from None
    if not isinstance(node, yaml.MappingNode) or not isinstance(value, dict):
        raise DocumentError(
            "the front matter is not a list of `field: value` lines.", first_line, "write one field a line, e.g. `id: my-slug`"
        )
    found: dict[str, int] = {}
    _collect_lines(node, "", first_line, found)
    return {str(key): entry for key, entry in value.items()}, found


def _collect_lines(node: yaml.Node, prefix: str, first_line: int, found: dict[str, int]) -> None:
    if isinstance(node, yaml.MappingNode):
        for key, entry in node.value:
            dotted = f"{prefix}{key.value}"
            line = first_line + key.start_mark.line
            if dotted in found:
                raise DocumentError(f"the field `{dotted}` stands twice.", line, "keep one of them")
            found[dotted] = line
            _collect_lines(entry, f"{dotted}.", first_line, found)
    elif isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            found[f"{prefix}{index}"] = first_line + entry.start_mark.line
            _collect_lines(entry, f"{prefix}{index}.", first_line, found)


def read_notebook(root: Path, path: Path) -> Document:
    """The markdown cells of a notebook as texts, and its `infer_course` metadata as front matter."""
    relative = path.relative_to(root).as_posix()
    raw = _read(path)
    try:
        notebook = json.loads(raw)
    except (json.JSONDecodeError, RecursionError) as error:
        raise DocumentError(f"the notebook is not JSON: {error}.", getattr(error, "lineno", 1), "open and save it with Jupyter") from None
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    meta = (notebook.get("metadata") or {}).get("infer_course") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not isinstance(meta, dict):
        raise DocumentError(
            "the notebook's metadata has no `infer_course`.", 1, 'add {"infer_course": {"id": …, "part": …}} to its metadata'
        )
    file_lines = raw.split("\n")
    return Document(relative, meta, _json_lines(file_lines, meta), tuple(_cell_texts(file_lines, cells)))


def _json_lines(file_lines: list[str], meta: dict[str, Any]) -> dict[str, int]:
    start = next((number for number, line in enumerate(file_lines) if '"infer_course"' in line), 0)
    found = {}
    for key in meta:
        found[str(key)] = next((n + 1 for n, line in enumerate(file_lines[start:], start) if json.dumps(key) in line), start + 1)
    return found


def _cell_texts(file_lines: list[str], cells: list[Any]) -> list[Text]:
    texts, cursor = [], 0
    for cell in cells:
        if not isinstance(cell, dict) or cell.get("cell_type") != "markdown":
            continue
        source = cell.get("source", "")
        body = "".join(source) if isinstance(source, list) else str(source)
        pieces = source if isinstance(source, list) else [body]
        lines: list[int] = []
        for piece in pieces:
            written = {json.dumps(piece), json.dumps(piece, ensure_ascii=False)}
            cursor = next((n for n in range(cursor, len(file_lines)) if any(w in file_lines[n] for w in written)), cursor)
            lines.extend([cursor + 1] * (piece.count("\n") or 1))
        texts.append(Text(body, tuple(lines + lines[-1:]) or (1,)))
    return texts
