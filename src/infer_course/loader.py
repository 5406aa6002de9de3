"""Finds and reads the course's files; what cannot be read becomes a problem with its line, and the rest is loaded all the same."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from infer_course.errors import NotACheckoutError
from infer_course.frontmatter import Document, DocumentError, Text, read_markdown, read_notebook, read_yaml
from infer_course.nodes import Card, Lab, Lesson, Measurement, Page, SetOfCards
from infer_course.problems import Problem, Rule, did_you_mean
from infer_course.schema import PROVENANCE, SLUG

_RENDERED = {
    "lesson": {"cards", "labs", "measurements", "lessons", "follow_ups"},
    "card": {"asked_before", "cards", "sets"},
    "lab": {"cards", "labs"},
    "set": {"lessons", "labs"},
}
_FORMS = {"url": "be a whole address that begins with https:// or http://", "id": "be lower-case words joined by hyphens"}
_WRITTEN_BY = "delete it: only one side of an edge is written (a card names its lessons and labs, a lab its lessons); the other is rendered"


@dataclass(slots=True)
class Loaded:
    """Everything that could be read, by id, and what was wrong. `unreadable` holds ids whose file exists but is not valid."""

    lessons: dict[str, Lesson] = field(default_factory=dict)
    cards: dict[str, Card] = field(default_factory=dict)
    labs: dict[str, Lab] = field(default_factory=dict)
    measurements: dict[str, Measurement] = field(default_factory=dict)
    sets: dict[str, SetOfCards] = field(default_factory=dict)
    pages: list[Page] = field(default_factory=list)
    unreadable: set[str] = field(default_factory=set)
    problems: list[Problem] = field(default_factory=list)

    def error(self, file: str, line: int, message: str, fix: str, rule: Rule) -> None:
        self.problems.append(Problem("error", file, line, message, fix, rule))


def find_root(start: Path) -> Path:
    """The checkout that contains `start`; NotACheckoutError when there is none."""
    for folder in (start, *start.parents):
        if is_checkout(folder):
            return folder
    raise NotACheckoutError(
        f"{start} is not inside a checkout of the course (a folder with `book/` and `questions/`); change into one, or give --root"
    )


def is_checkout(folder: Path) -> bool:
    return (folder / "book").is_dir() and (folder / "questions").is_dir()


def read_all(root: Path) -> Loaded:
    """Reads lessons, cards, labs, records and sets under `root`."""
    if not is_checkout(root):
        raise NotACheckoutError(f"{root} is not a checkout of the course: it has no `book/` and `questions/` folders")
    out = Loaded()
    for path in sorted(root.glob("book/part*/*.md")):
        if path.stem != "index":
            _add(out, root, path, "lesson", Lesson, out.lessons)
    for path in sorted(root.glob("questions/part*/*.md")):
        if path.stem != "index":
            _add(out, root, path, "card", Card, out.cards)
    for path in sorted(root.glob("labs/part*/*.ipynb")):
        _add(out, root, path, "lab", Lab, out.labs)
    for path in sorted(root.glob("questions/sets/*.yaml")):
        _add(out, root, path, "set", SetOfCards, out.sets)
    for path in sorted(root.glob("measurements/*/*.json")):
        _add_measurement(out, root, path)
    for path in sorted(root.glob("book/**/*.md")):
        is_lesson = path.parent.name.startswith("part") and path.stem != "index"
        if not is_lesson and not any(folder.startswith("_") for folder in path.relative_to(root).parts):
            out.pages.append(_page(root, path))
    _same_id_in_two_kinds(out)
    return out


def _page(root: Path, path: Path) -> Page:
    """A page with its front matter, if it has any, emptied so that lines stay."""
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    end = next((n for n, line in enumerate(lines[1:], 1) if line.rstrip() == "---"), 0) if lines[0].strip() == "---" else -1
    body = "\n".join("" if number <= end else line for number, line in enumerate(lines))
    return Page(path.relative_to(root).as_posix(), Text(body, tuple(range(1, len(lines) + 1))))


def _read(root: Path, path: Path) -> Document:
    if path.suffix == ".ipynb":
        return read_notebook(root, path)
    if path.suffix == ".yaml":
        relative = path.relative_to(root).as_posix()
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise DocumentError("the file is not UTF-8.", 1, "save it as UTF-8") from None
        meta, lines = read_yaml(text)
        return Document(relative, meta, lines, (Text("", (1,)),))
    return read_markdown(root, path)


def _add(out: Loaded, root: Path, path: Path, kind: str, model: type[BaseModel], into: dict[str, Any]) -> None:
    relative = path.relative_to(root).as_posix()
    try:
        document = _read(root, path)
    except DocumentError as error:
        out.error(relative, error.line, f"{kind}: {error}", error.fix, "unreadable")
        out.unreadable.add(path.stem)
        return
    try:
        node: Any = model.model_validate({**document.meta, "path": relative, "document": document})
    except ValidationError as error:
        for found in _causes(error):
            line = document.meta_line(".".join(str(step) for step in found["loc"]))
            message, fix = _explain(kind, found, model)
            out.error(relative, line, message, fix, "front-matter")
        out.unreadable.update({path.stem, str(document.meta.get("id"))})
        return
    _place(out, node, path, kind, document.meta_line("id"), document.meta_line("part"))
    if node.id in into:
        out.error(relative, document.meta_line("id"), f"the id `{node.id}` is taken by {into[node.id].path}.",
                  "give this one an id of its own; ids are never reused", "duplicate-id")  # fmt: skip
    else:
        into[node.id] = node


def _place(out: Loaded, node: Any, path: Path, kind: str, id_line: int, part_line: int) -> None:
    if path.stem != node.id:
        fix = f"rename the file to {node.id}{path.suffix}"
        if re.fullmatch(SLUG, path.stem):
            fix += f", or set `id: {path.stem}` if nobody has used the id yet"
        out.error(node.path, id_line, f"the {kind}'s id is `{node.id}` but its file is called `{path.name}`.", fix, "id-is-file-name")
    folder = path.parent.name
    if folder.startswith("part") and folder != f"part{node.part}":
        out.error(node.path, part_line, f"the {kind} says part {node.part} but stands in `{folder}/`.",
                  f"move the file to part{node.part}/, or set `part: {folder[4:]}`", "part-is-folder")  # fmt: skip


def _explain(kind: str, found: Any, model: type[BaseModel]) -> tuple[str, str]:
    """A pydantic finding as a sentence and a fix."""
    name = ".".join(str(step) for step in found["loc"])
    last = str(found["loc"][-1]) if found["loc"] else ""
    match found["type"]:
        case "missing":
            return f"{kind}: the field `{name}` is missing.", f"add `{last}:`"
        case "extra_forbidden" if name in _RENDERED.get(kind, ()):
            return f"{kind}: `{name}` is the rendered side of an edge, so it cannot be written here.", _WRITTEN_BY
        case "extra_forbidden":
            return f"{kind}: no field is called `{name}`.{did_you_mean(last, model.model_fields)}", "rename or delete it"
        case _:
            shown = repr(found.get("input"))[:60]
            if found["type"].startswith("date"):
                return f"{kind}: `{name}` cannot be {shown}: it is no day.", "write year, month and day, such as 2026-11-29"
            if found["type"] == "string_pattern_mismatch":
                form = _FORMS.get(last, f"match {found['ctx']['pattern']}")
                return f"{kind}: `{name}` cannot be {shown}: it must {form}.", f"correct `{name}`"
            return f"{kind}: `{name}` cannot be {shown}: {found['msg']}.", f"correct `{name}`"


def _causes(error: ValidationError) -> list[Any]:
    """The findings without those that only follow from others (a list is "too short" when its one entry is invalid)."""
    found = error.errors()
    return [
        e
        for e in found
        if e["type"] != "too_short" or not any(len(o["loc"]) > len(e["loc"]) and o["loc"][: len(e["loc"])] == e["loc"] for o in found)
    ]


def _json_line(text: str, loc: tuple[int | str, ...]) -> int:
    """Line of the innermost key of `loc` that the file has, each searched after the one around it."""
    lines, at = text.split("\n"), 0
    for step in loc:
        at = next((n for n in range(at, len(lines)) if f'"{step}":' in lines[n]), at)
    return at + 1


def _add_measurement(out: Loaded, root: Path, path: Path) -> None:
    relative = path.relative_to(root).as_posix()
    expected = f"{path.parent.name}/{path.stem}"
    try:
        text = path.read_text(encoding="utf-8")
        raw = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        out.error(
            relative, getattr(error, "lineno", 1), f"record: not JSON: {error}.", "measure again; records are written by programs", "record"
        )
        out.unreadable.add(expected)
        return
    lost = [name for name in PROVENANCE if not isinstance(raw, dict) or not raw.get(name)]
    if lost:
        out.error(relative, 1, f"record without provenance: {', '.join(f'`{name}`' for name in lost)} missing.",
                  "measure again with infer_lab.bench, which writes where, when and with what", "provenance")  # fmt: skip
        out.unreadable.add(expected)
        return
    try:
        record = Measurement.model_validate({**raw, "path": relative})
    except ValidationError as error:
        for found in _causes(error):
            line = _json_line(text, found["loc"])
            message, _ = _explain("record", found, Measurement)
            rule = "provenance" if found["loc"] and found["loc"][0] in PROVENANCE else "record"
            out.error(relative, line, message, "measure again; records are written by programs, not by hand", rule)
        out.unreadable.add(expected)
        return
    if record.id != expected:
        out.error(relative, 1, f"the record's id is `{record.id}` but its file says `{expected}`.",
                  f"move it to measurements/{record.id}.json", "id-is-file-name")  # fmt: skip
    elif record.device.slug != path.parent.name:
        out.error(relative, 1, f"the record is of device `{record.device.slug}` but stands under `{path.parent.name}/`.",
                  f"move it to measurements/{record.device.slug}/", "id-is-file-name")  # fmt: skip
    if record.id in out.measurements:
        out.error(
            relative, 1, f"the id `{record.id}` is taken by {out.measurements[record.id].path}.", "delete one of them", "duplicate-id"
        )
    else:
        out.measurements[record.id] = record


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _same_id_in_two_kinds(out: Loaded) -> None:
    """Ids of lessons, cards, labs and sets share one space: progress, search and `infer-course show` go by the id alone."""
    seen: dict[str, str] = {}
    for group in (out.lessons, out.cards, out.labs, out.sets):
        for node in group.values():
            if node.id in seen:
                out.error(node.path, node.document.meta_line("id"), f"the id `{node.id}` is taken by {seen[node.id]}.",
                          "give this one an id of its own; ids are shared by lessons, cards, labs and sets", "duplicate-id")  # fmt: skip
            seen.setdefault(node.id, node.path)
