"""`infer-course new`: a file that begins right, in its place, listed in the table of contents."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from infer_course.authoring import skeletons
from infer_course.content_map import MappedCard, MappedLesson, Part, content_map
from infer_course.errors import CourseError
from infer_course.problems import did_you_mean
from infer_course.schema import SLUG

Kind = Literal["card", "lesson", "lab"]


class NewPageError(CourseError):
    """Nothing was written; the message says what is in the way."""


def create(
    root: Path,
    kind: Kind,
    name: str,
    *,
    part: int | None = None,
    title: str = "",
    lessons: Sequence[str] = (),
    today: datetime.date | None = None,
) -> list[Path]:
    """Writes the page and what must lead to it, and returns the written or changed files. Never overwrites anything.

    Ids of the content map bring their part, title, order and lesson; any other id needs `part` and `title` (a card its lesson too).
    """
    if not re.fullmatch(SLUG, name):
        raise NewPageError(f"an id is of small letters and digits joined by hyphens, such as kv-cache-principle; not {name!r}")
    day = today or datetime.datetime.now(datetime.UTC).date()
    match kind:
        case "card":
            known = content_map().cards.get(name) or _unknown_card(name, part, title, lessons)
            asked = [f"answers {q}: {content_map().questions[q]}" for q in known.questions]
            path, text, found = f"questions/part{known.part}/{name}.md", skeletons.card(known, asked, day), known.part
        case "lesson":
            lesson = content_map().lessons.get(name) or _unknown_lesson(name, part, title)
            path, text, found = f"book/part{lesson.part}/{name}.md", skeletons.lesson(lesson, day), lesson.part
        case "lab":
            found = _needs(name, "lab", part, title)
            path, text = f"labs/part{found}/{name}.ipynb", skeletons.lab(name, found, title, lessons or ["TODO"])
    target = root / path
    if target.exists():
        raise NewPageError(f"{path} exists already; it was not touched")
    written = [*_landing_pages(root, found), target]
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")
    if kind != "card" and _list(root, found, path.rpartition(".")[0]):
        written.append(root / "_toc.yml")
    return written


def _needs(name: str, kind: str, part: int | None, title: str, known: Iterable[str] = ()) -> int:
    parts = [p.part for p in content_map().parts]
    if part is None or part not in parts or not title:
        near = did_you_mean(name, known)
        raise NewPageError(
            f"the content map has no {kind} {name!r}.{near} Say `--part {parts[0]}…{parts[-1]}` and `--title` for a new one."
        )
    return part


def _unknown_card(name: str, part: int | None, title: str, lessons: Sequence[str]) -> MappedCard:
    found = _needs(name, "card", part, title, content_map().cards)
    if not lessons:
        raise NewPageError("a card belongs to a lesson: say `--lesson <id>`")
    return MappedCard(name, found, 99, lessons[0], title, "concept", "mid", ())


def _unknown_lesson(name: str, part: int | None, title: str) -> MappedLesson:
    return MappedLesson(name, f"{part}.9", _needs(name, "lesson", part, title, content_map().lessons), 99, title, skeletons.TODO)


def _landing_pages(root: Path, part: int) -> list[Path]:
    """The two pages of a part that holds nothing yet, and its section in the table of contents."""
    known = next(p for p in content_map().parts if p.part == part)
    written = []
    for path, text in (
        (
            f"book/part{part}/index.md",
            f"# {known.title_en}\n\nTODO: the ideas of this part in three sentences.\n\n```{{part-contents}} {part}\n```\n",
        ),
        (f"questions/part{part}/index.md", f"# {_short(known)}: questions\n\nTODO.\n\n```{{card-index}}\n:part: {part}\n```\n"),
    ):
        if not (root / path).exists():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text, encoding="utf-8")
            written.append(root / path)
    toc = (root / "_toc.yml").read_text(encoding="utf-8")
    if f"book/part{part}/index" not in toc:
        files = "".join(f"      - file: {name}/part{part}/index\n" for name in ("book", "questions"))
        section = f'  - caption: "Part {part} · {_short(known)}"\n    chapters:\n{files}'
        later = [m for m in re.finditer(r'^  - caption: "Part (\d+)', toc, re.MULTILINE) if int(m[1]) > part]
        at = later[0].start() if later else len(toc.rstrip()) + 1
        (root / "_toc.yml").write_text(toc[:at].rstrip("\n") + "\n" + section + toc[at:], encoding="utf-8")
        written.append(root / "_toc.yml")
    return written


def _short(part: Part) -> str:
    return part.title_en.partition(":")[0]


def _list(root: Path, part: int, docname: str) -> bool:
    """Puts a lesson after the part's last lesson or index, a lab after the last lab or lesson. False if it is there already."""
    toc = root / "_toc.yml"
    lines = toc.read_text(encoding="utf-8").split("\n")
    entry = f"      - file: {docname}"
    if entry in lines:
        return False
    groups = ("book", "labs", "questions")
    before = groups[: groups.index(docname.partition("/")[0]) + 1]
    places = [n for n, line in enumerate(lines) if any(line.startswith(f"      - file: {group}/part{part}/") for group in before)]
    lines.insert(places[-1] + 1, entry)
    toc.write_text("\n".join(lines), encoding="utf-8")
    return True
