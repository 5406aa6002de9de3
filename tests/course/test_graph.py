"""The graph answers from either end of every edge, keeps what is planned apart from what is written, and reads files by line."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from course.tree import Tree, card, notebook, record
from infer_course.check import check
from infer_course.content_map import content_map
from infer_course.errors import MeasureError, NotACheckoutError, UnknownIdError
from infer_course.frontmatter import Text, read_markdown, read_notebook, split_sections
from infer_course.graph import load
from infer_course.loader import find_root
from infer_course.markdown import count_words, links, roles, scan, words_only
from infer_course.measure import changed_sources, evaluate, lookup
from infer_lab.bench.environment import Environment
from infer_lab.bench.record import Record
from infer_lab.units import Quantity

A, B, LESSON, LAB, RECORD = "kv-cache-principle", "kv-cache-size-calculation", "kv-cache", "kv-cache-by-hand", "h200/kv-cache-by-hand"


def test_every_edge_is_seen_from_both_ends(tree: Tree) -> None:
    graph = load(tree.root)
    assert [c.id for c in graph.cards_of_lesson(LESSON)] == [A, B]
    assert [lesson.id for lesson in graph.lessons_of_card(A)] == [LESSON]
    assert [lab.id for lab in graph.labs_of_lesson(LESSON)] == [LAB]
    assert [lesson.id for lesson in graph.lessons_of_lab(LAB)] == [LESSON]
    assert [lab.id for lab in graph.labs_of_card(A)] == [LAB]
    assert [c.id for c in graph.cards_of_lab(LAB)] == [A, B]
    assert [c.id for c in graph.asked_before(A)] == [B]
    assert [m.id for m in graph.measurements_of_card(A)] == [RECORD]
    assert [m.id for m in graph.measurements_of_lesson(LESSON)] == [RECORD]
    assert [m.id for m in graph.measurements_of_lab(LAB)] == [RECORD]
    assert [c.id for c in graph.cards_of_measurement(RECORD)] == [A, B]
    assert [lesson.id for lesson in graph.lessons_of_measurement(RECORD)] == [LESSON]
    assert [lab.id for lab in graph.labs_of_measurement(RECORD)] == [LAB]


def test_a_record_that_only_the_text_cites_is_an_edge_too(tree: Tree) -> None:
    tree.write("measurements/h200/limits.json", json.dumps(record(id="h200/limits")))
    tree.edit(f"questions/part0/{A}.md", "4 * kv_bytes_per_token(llama_3_8b)", 'measured("h200/limits:cached")')
    graph = load(tree.root)
    assert [m.id for m in graph.measurements_of_card(A)] == [RECORD, "h200/limits"]
    assert [c.id for c in graph.cards_of_measurement("h200/limits")] == [A]


def test_a_record_that_only_the_home_page_shows_is_no_orphan(tree: Tree) -> None:
    tree.write("measurements/h200/limits.json", json.dumps(record(id="h200/limits")))
    tree.write("book/index.md", "# Home\n\n```{proof}\n:predict: 1 + 1\n:measure: h200/limits:cached | KiB\n```\n")
    graph = load(tree.root)
    assert [page.path for page in graph.pages_of_measurement("h200/limits")] == ["book/index.md"]
    assert "orphan" not in {p.rule for p in check(graph, datetime.date(2025, 7, 1), run_code=False)}


def test_records_written_by_the_library_can_be_read(tree: Tree) -> None:
    git = {"commit": "0123456789abcdef", "dirty": False}
    device = {"slug": "h200", "name": "NVIDIA H200", "kind": "cuda", "clocks_mhz_after": {"sm": 1, "memory": 1}}
    environment = Environment(device, {"python": "3.11"}, git, "2025-06-02T10:00:00+00:00", "python x.py")
    written = Record("kv-cache-by-hand", "KV cache by hand", environment=environment, sources=["src/infer_lab/thing.py"], root=tree.root)
    written.add_value("cached", Quantity(131_072, "B"), note="from the pool")
    written.add_samples("step_time", [1.0, 1.1, 1.2], "ms")
    written.add_series("step", "Step time", ("context", "tok", [1, 2]), ("step", "ms", [1.0, 1.1]))
    written.write(tree.root / "measurements")
    graph = load(tree.root)
    assert graph.problems == ()
    assert evaluate(f"{RECORD}:step_time | us", graph).text == "1100 µs"
    assert lookup(graph, f"{RECORD}:step_time").n == 3
    assert check(graph, datetime.date(2025, 7, 1), run_code=False) == ()


def test_ids_of_the_content_map_are_planned_until_they_are_written(tree: Tree) -> None:
    graph = load(tree.root)
    assert graph.planned["roofline"].startswith("GPU memory hierarchy")
    assert "chunked-prefill" in graph.planned
    assert not {A, LESSON} & set(graph.planned)
    with pytest.raises(UnknownIdError, match="planned but not written"):
        graph.node("roofline")
    with pytest.raises(UnknownIdError, match=f"Did you mean '{A}'"):
        graph.node("kv-cache-principal")
    assert graph.node(A).title_en and graph.node(RECORD).title_en


def test_sets_name_their_cards_and_are_found_from_them(tree: Tree) -> None:
    tree.write(
        "questions/sets/one-evening.yaml", f"id: one-evening\ntitle: {{en: One evening, zh: 一个晚上}}\ncards: [{A}, chunked-prefill]\n"
    )
    graph = load(tree.root)
    assert graph.problems == ()
    assert graph.sets["one-evening"] in graph.sets_of_card(A)
    tree.edit("questions/sets/one-evening.yaml", "chunked-prefill", "chunked-prefil")
    (found,) = load(tree.root).problems
    assert (found.file, found.line, found.rule) == ("questions/sets/one-evening.yaml", 3, "unknown-id")


def test_landing_pages_are_neither_lessons_nor_cards(tree: Tree) -> None:
    tree.write("book/part0/index.md", "# Part 0\n")
    tree.write("questions/part0/index.md", "# Cards\n")
    assert load(tree.root).problems == ()


def test_one_unreadable_file_does_not_hide_the_others(tree: Tree) -> None:
    tree.write(f"questions/part0/{B}.md", "no front matter")
    graph = load(tree.root)
    assert list(graph.cards) == [A]
    assert [p.rule for p in graph.problems] == ["unreadable"]


def test_one_id_for_a_card_and_a_lesson_is_refused(tree: Tree) -> None:
    tree.write(f"questions/part0/{LESSON}.md", card(LESSON, 3, A))
    assert "duplicate-id" in {p.rule for p in load(tree.root).problems}


def test_a_folder_that_is_no_checkout_is_refused_by_name(tmp_path: Path, tree: Tree) -> None:
    with pytest.raises(NotACheckoutError, match="`book/` and `questions/`"):
        load(tmp_path / "measurements")
    assert find_root(tree.root / "book" / "part0") == tree.root
    with pytest.raises(NotACheckoutError, match="--root"):
        find_root(Path("/"))


def test_parts_of_a_card_are_read_with_their_lines(tree: Tree) -> None:
    found = load(tree.root).cards[A]
    name = f"questions/part0/{A}.md"
    assert [f.question for f in found.follow_up_questions] == ["Why is Q not cached?", "What does GQA change?", "How would you prove it?"]
    assert found.follow_up_questions[1].line == tree.line_of(name, "### What does GQA")
    assert [m.pitfall for m in found.mistakes] == ["Using query heads.", "Forgetting V."]
    assert found.mistakes[0].line == tree.line_of(name, "**Using query")
    assert found.mistakes[1].text == "Tempting because the name says cache; it halves the answer."


def test_a_measured_value_knows_where_it_comes_from(tree: Tree) -> None:
    graph = load(tree.root)
    found = evaluate(f"{RECORD}:step_time | us .0f", graph)
    assert (found.text == "1230 µs" and found.spread == "1,200 µs to 1,300 µs") or found.spread == "1200 µs to 1300 µs"
    assert found.provenance.startswith("NVIDIA H200, 2025-06-02, commit 0123456, median of 50")
    assert lookup(graph, f"{RECORD}:cached").text == "131,072 B"
    assert evaluate(f"{RECORD}:speedup", graph).text == "3.5×"
    for wrong, reason in ((RECORD, "step_time, cached, speedup"), ("h200/nothing:x", "no record"), (f"{RECORD}:cached | ms", "kinds")):
        with pytest.raises(MeasureError, match=reason):
            evaluate(wrong, graph)


def test_a_record_is_stale_when_a_source_changed_or_went(tree: Tree) -> None:
    def changed() -> tuple[str, ...]:
        graph = load(tree.root)
        return changed_sources(graph.root, graph.measurements[RECORD])

    assert changed() == ()
    tree.write("src/infer_lab/thing.py", "x = 3\n")
    assert changed() == ("src/infer_lab/thing.py",)
    tree.path("src/infer_lab/thing.py").unlink()
    assert changed() == ("src/infer_lab/thing.py (gone)",)


class TestMarkdown:
    def test_headings_and_roles_inside_code_do_not_count(self) -> None:
        text = "## A\n\n```python\n## B\n{calc}`1`\n```\n\n{calc}`2`\n\n`` {calc}`3` ``\n"
        assert [h.title for h in scan(text).headings] == ["A"]
        assert [(r.text, r.line) for r in roles(text)] == [("2", 7)]

    def test_a_longer_fence_holds_a_shorter_one(self) -> None:
        found = scan("````{note}\n```python\n## x\n```\nprose\n````\nmore")
        assert [(f.directive, f.language) for f in found.fences] == [("note", ""), ("", "python")]
        assert [line for line, keep in zip(found.lines, found.prose, strict=True) if keep] == ["prose", "more"]

    def test_options_of_a_directive_are_read(self) -> None:
        (fence,) = scan("```{measured-figure}\n:record: a/b\n:series: s, t\n\ncaption\n```").fences
        assert fence.options == {"record": "a/b", "series": "s, t"} and fence.directive == "measured-figure"

    def test_a_role_may_run_over_a_line_but_not_over_a_paragraph(self) -> None:
        assert [r.text for r in roles("{calc}`1 +\n2`")] == ["1 + 2"]
        assert roles("{calc}`1 +\n\n2`") == ()

    def test_a_bar_in_a_table_is_seen(self) -> None:
        bare, escaped = roles("| {calc}`1 | x` | {calc}`2 \\| x` |")
        assert bare.splits_table and not escaped.splits_table and escaped.text == "2 | x"

    def test_links_and_images_are_found(self) -> None:
        assert links("See [a\nb](x.md#y), ![p](p.png 'title') and `[c](d)`.")[:2] == (("x.md#y", 0), ("p.png", 1))

    def test_a_role_is_one_word(self) -> None:
        assert count_words("Each token costs {calc}`a + b | KiB` and $x + y$ in `code here`.") == 8

    @given(st.text(alphabet="`~:{}#$|\\\n ab[]()<>!-%", max_size=80))
    def test_no_text_breaks_the_scanner_and_lines_stay(self, text: str) -> None:
        assert len(scan(text).lines) == text.count("\n") + 1
        assert words_only(text).count("\n") == text.count("\n")
        assert all(role.line <= text.count("\n") for role in roles(text))

    def test_sections_keep_their_lines(self) -> None:
        text = Text("intro\n## A\na\n\n## B\nb", tuple(range(10, 16)))
        a, b = split_sections(text)
        assert (a.title, a.line, a.body, a.text.line(0)) == ("A", 11, "a\n", 12)
        assert (b.title, b.line, b.body) == ("B", 14, "b")


def test_lines_of_front_matter_go_down_to_the_entry(tree: Tree) -> None:
    name = f"questions/part0/{A}.md"
    document = read_markdown(tree.root, tree.path(name))
    assert document.meta_line("rubric.1.text") == tree.line_of(name, "id: meaning")
    assert document.meta_line("rubric.1.nothing") == tree.line_of(name, "id: meaning")
    assert document.meta_line("nothing") == 1


def test_lines_of_notebook_cells_are_those_of_the_file(tree: Tree) -> None:
    name = f"labs/part0/{LAB}.ipynb"
    tree.write(name, json.dumps(notebook("# T\n\nOne é.\nTwo."), indent=1))
    (text,) = read_notebook(tree.root, tree.path(name)).texts
    assert text.line(2) == tree.line_of(name, "One") and text.line(3) == tree.line_of(name, "Two.")


class TestContentMap:
    def test_it_has_all_cards_lessons_and_questions(self) -> None:
        known = content_map()
        assert (len(known.cards), len(known.lessons), len(known.questions), len(known.parts)) == (124, 65, 141, 9)

    def test_every_question_is_answered_by_some_card_and_every_card_has_a_lesson(self) -> None:
        known = content_map()
        assert all(known.cards_answering(question) for question in known.questions)
        assert all(c.lesson in known.lessons and c.part == known.lessons[c.lesson].part for c in known.cards.values())
        assert all(known.cards_of_lesson(lesson) for lesson in known.lessons)
        assert all(question in known.questions for c in known.cards.values() for question in c.questions)

    def test_ids_are_one_space_of_slugs(self) -> None:
        known = content_map()
        ids = [*known.lessons, *known.cards]
        assert len(ids) == len(set(ids))
        assert all(i == i.lower() and i.replace("-", "").isalnum() for i in ids)
        assert {"kv-cache", "kv-cache-principle", "kv-cache-size-calculation", "kv-cache-throughput-ceiling"} <= set(ids)
