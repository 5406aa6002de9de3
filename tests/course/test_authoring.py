"""Beginning a card, lesson or lab; mechanical repairs; the preview that follows the editor."""

from __future__ import annotations

import datetime
import json
import threading
import urllib.request
from pathlib import Path

import nbformat
import pytest

from course.tree import Tree
from infer_course.authoring import create, fixes, live
from infer_course.check import check
from infer_course.content_map import content_map
from infer_course.errors import CourseError
from infer_course.graph import load
from infer_course.problems import Problem
from infer_course.schema import CARD_SECTIONS
from infer_course.web_server import open_server

TODAY = datetime.date(2025, 7, 1)
CARD = "questions/part0/kv-cache-principle.md"
LESSON = "book/part0/kv-cache.md"
TOC = """format: jb-book
root: index
parts:
  - caption: "Part 0 · Foundations"
    chapters:
      - file: book/part0/index
      - file: book/part0/kv-cache
      - file: labs/part0/kv-cache-by-hand
      - file: questions/part0/index
"""


@pytest.fixture
def course(tree: Tree) -> Tree:
    tree.write("_toc.yml", TOC)
    return tree


def problems(tree: Tree) -> tuple[Problem, ...]:
    return check(load(tree.root), TODAY, run_code=False)


def chapters(tree: Tree) -> list[str]:
    lines = (tree.root / "_toc.yml").read_text(encoding="utf-8").split("\n")
    return [line.split("file: ")[1] for line in lines if "file: " in line]


# new


@pytest.mark.parametrize("kind", ["concept", "calculation", "coding", "debugging", "system-design", "behavioral"])
def test_a_new_card_has_every_section_and_only_its_todos_are_left(course: Tree, kind: str) -> None:
    known = next(card for card in content_map().cards.values() if card.kind == kind and card.id in load(course.root).planned)
    create.create(course.root, "card", known.id, today=TODAY)
    found = [p for p in problems(course) if known.id in p.file]
    assert {p.rule for p in found} <= {"unfinished", "orphan", "cycle", "mistakes", "broken-link"} and "unfinished" in {
        p.rule for p in found
    }
    card = load(course.root).cards[known.id]
    assert (card.part, card.kind, card.lessons) == (known.part, kind, (known.lesson,))
    assert [s.title for s in card.sections] == [name for name in CARD_SECTIONS if card.section(name)]


def test_a_new_lesson_stands_after_the_lessons_of_its_part_and_a_lab_after_its_labs(course: Tree) -> None:
    create.create(course.root, "lesson", "prefill-and-decode", today=TODAY)
    create.create(course.root, "lab", "my-lab", part=0, title="My lab", lessons=["kv-cache"])
    assert chapters(course) == [
        "book/part0/index", "book/part0/kv-cache", "book/part0/prefill-and-decode", "labs/part0/kv-cache-by-hand", "labs/part0/my-lab",
        "questions/part0/index",
    ]  # fmt: skip


def test_the_first_page_of_a_part_brings_its_landing_pages_in_the_order_of_the_parts(course: Tree) -> None:
    create.create(course.root, "card", "paged-kv-block-manager", today=TODAY)
    create.create(course.root, "lesson", next(x.id for x in content_map().lessons.values() if x.part == 2), today=TODAY)
    assert (course.root / "book/part5/index.md").is_file() and (course.root / "questions/part2/index.md").is_file()
    parts = [int(name.split("part")[1][0]) for name in chapters(course)]
    assert parts == sorted(parts) and set(parts) == {0, 2, 5}


def test_a_new_lab_runs_as_it_stands(course: Tree) -> None:
    (path,) = [p for p in create.create(course.root, "lab", "my-lab", part=0, title="My lab", lessons=["kv-cache"]) if p.suffix == ".ipynb"]
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    exec("\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code"), {})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"kind": "card", "name": "kv-cache-principle"}, "exists already"),
        ({"kind": "card", "name": "No Slug"}, "small letters"),
        ({"kind": "card", "name": "prefill-vs-decod"}, "prefill-vs-decode"),
        ({"kind": "card", "name": "my-own", "part": 0, "title": "Mine?"}, "--lesson"),
        ({"kind": "lesson", "name": "my-own"}, "--title"),
        ({"kind": "lab", "name": "my-own", "part": 17, "title": "T"}, "--part 0…8"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["name"],
)
def test_what_cannot_be_begun_is_refused_in_words_and_nothing_is_written(course: Tree, arguments: dict, says: str) -> None:
    before = sorted(course.root.rglob("*"))
    with pytest.raises(CourseError, match=says):
        create.create(course.root, **arguments)
    assert sorted(course.root.rglob("*")) == before


# check --fix


def test_units_are_mended_in_prose_and_left_alone_in_code_roles_and_addresses(course: Tree) -> None:
    course.edit(LESSON, "Say it aloud.", "Say it: {given}`80GB` at {given}`5 us`, [GBs](https://a.org/80GB), `80GB`.")
    found = problems(course)
    assert {p.rule for p in found} == {"unit-spelling"}
    assert len(fixes.fix(load(course.root), found)) == len(found)
    assert "{given}`80 GB` at {given}`5 µs`, [GB](https://a.org/80GB), `80GB`." in (course.root / LESSON).read_text(encoding="utf-8")
    assert problems(course) == ()


def test_sections_come_into_order_and_nothing_is_lost(course: Tree) -> None:
    path = course.root / CARD
    text = path.read_text(encoding="utf-8")
    head, rest = text.split("## Direct answer", 1)
    answer, others = rest.split("## 中文回答", 1)
    path.write_text(f"{head}## 中文回答{others.rstrip()}\n\n## Direct answer{answer}", encoding="utf-8")
    before = sorted(line for line in path.read_text(encoding="utf-8").split("\n") if line.strip())
    found = problems(course)
    assert {p.rule for p in found} == {"section-order"}
    assert fixes.fix(load(course.root), found)
    assert problems(course) == ()
    assert sorted(line for line in path.read_text(encoding="utf-8").split("\n") if line.strip()) == before


def test_part_heading_bar_and_schema_are_mended_and_a_second_time_there_is_nothing_to_do(course: Tree) -> None:
    course.edit(CARD, "part: 0", "part: 3")
    course.edit(LESSON, "Say it aloud.", "# A title\n\n| a | b |\n| - | - |\n| {calc}`kv_bytes_per_token(llama_3_8b) | KiB` | c |")
    course.edit("questions/schema.json", "rubric", "rubrik")
    rules = {p.rule for p in problems(course)}
    assert rules >= {"part-is-folder", "page-title", "table-bar", "schema-file"}
    fixes.fix(load(course.root), problems(course))
    left = problems(course)
    assert not {p.rule for p in left} & {"part-is-folder", "page-title", "table-bar", "schema-file"}
    assert fixes.fix(load(course.root), left) == []


def test_what_needs_judgement_stays_a_finding(course: Tree) -> None:
    course.edit(CARD, "## Going deeper", "## Direct answer\n\nAgain.\n\n## Going deeper")
    found = problems(course)
    assert fixes.fix(load(course.root), found) == [] and problems(course) == found


# preview


def page(root: Path, text: str) -> None:
    (root / "_build" / "html").mkdir(parents=True, exist_ok=True)
    (root / "_build" / "html" / "index.html").write_text(f"<html><body>{text}</body></html>")


def test_the_preview_builds_after_a_save_keeps_the_last_good_pages_and_tells_mistakes(course: Tree) -> None:
    def build(root: Path, output: Path) -> bool:
        if "broken" in (root / LESSON).read_text(encoding="utf-8"):
            raise CourseError("line 3 is broken")
        page(root, "built")
        return True

    preview = live.Preview(course.root, course.root / "_build", build)
    assert preview.look() and not preview.look() and preview.builds == 1
    course.edit(LESSON, "Say it aloud.", "broken")
    assert preview.look() and preview.error == "line 3 is broken" and preview.builds == 1
    course.edit(LESSON, "broken", "mended")
    assert preview.look() and preview.error == "" and preview.builds == 2


def test_pages_of_the_preview_follow_and_files_outside_are_not_shown(course: Tree) -> None:
    page(course.root, "hello")
    (course.root / "secret.html").write_text("secret</body>")
    preview = live.Preview(course.root, course.root / "_build", lambda *_: True)
    with open_server(course.root / "_build" / "html", 0) as server:
        server.answer = preview.answer
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        with urllib.request.urlopen(f"{address}/") as answer:
            assert b"hello<script>" in answer.read()
        with urllib.request.urlopen(f"{address}{live.STATE}") as answer:
            assert json.load(answer) == {"build": 0, "error": ""}
        assert preview.answer("/../../secret.html") is None
        server.shutdown()
