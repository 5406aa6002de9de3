"""Sets: the curated ones hold together, and those of the course follow from it."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from course.tree import Tree
from infer_course.check import check
from infer_course.content_map import content_map
from infer_course.graph import Graph, load
from infer_course.stages import STAGES

ROOT = Path(__file__).parents[2]
CARD = "kv-cache-principle"
FILE = "questions/sets/one-evening.yaml"
HEAD = "id: one-evening\ntitle: {en: One evening, zh: 一个晚上}\n"
SECTIONS = HEAD + (
    "sections:\n"
    "  - title: {en: First, zh: 先}\n    cards: [kv-cache-principle, chunked-prefill]\n"
    "  - title: {en: Second, zh: 后}\n    cards: [kv-cache-size-calculation]\n"
)


@pytest.fixture(scope="module")
def course() -> Graph:
    return load(ROOT)


def found(tree: Tree, text: str) -> list[tuple[int, str, str]]:
    """(line, rule, message) of what is wrong with a set of that text."""
    tree.write(FILE, text)
    today = datetime.date(2025, 7, 1)
    return [(p.line, p.rule, p.message) for p in check(load(tree.root), today, run_code=False) if p.file == FILE]


def test_cards_of_sections_are_the_set_in_order(tree: Tree) -> None:
    assert found(tree, SECTIONS) == []
    chosen = load(tree.root).sets["one-evening"]
    assert chosen.cards == ("kv-cache-principle", "chunked-prefill", "kv-cache-size-calculation")
    assert [section.title.en for section in chosen.sections] == ["First", "Second"]


def test_an_unknown_card_in_a_section_is_named_with_its_line(tree: Tree) -> None:
    ((line, rule, message),) = found(tree, SECTIONS.replace("[kv-cache-size-calculation]", "[kv-cache-size-calculatoin]"))
    assert (line, rule) == (7, "unknown-id") and "Did you mean 'kv-cache-size-calculation'" in message


def test_a_card_stands_once_in_a_set(tree: Tree) -> None:
    ((line, rule, message),) = found(tree, SECTIONS.replace("[kv-cache-size-calculation]", "[kv-cache-principle]"))
    assert (line, rule) == (7, "repeated") and "twice" in message
    ((line, rule, _),) = found(tree, HEAD + f"cards:\n  - {CARD}\n  - {CARD}\n")
    assert (line, rule) == (5, "repeated")


def test_a_set_is_written_in_one_way_only_and_is_not_empty(tree: Tree) -> None:
    assert "not as both" in found(tree, SECTIONS + f"cards: [{CARD}]\n")[0][2]
    assert "at least one card" in found(tree, HEAD)[0][2]
    assert "at least one card" in found(tree, HEAD + "cards: []\n")[0][2]


def test_what_a_section_asks_is_a_collected_question_that_its_cards_answer(tree: Tree) -> None:
    asks = SECTIONS.replace(
        "    cards: [kv-cache-principle, chunked-prefill]", '    asks: "0:M10.1"\n    cards: [kv-cache-principle, chunked-prefill]'
    )
    ((line, rule, message),) = found(tree, asks)
    assert (line, rule) == (6, "one-way") and "`chunked-prefill` does not answer `0:M10.1`" in message
    ((line, rule, message),) = found(tree, asks.replace("0:M10.1", "0:M99"))
    assert (line, rule) == (5, "unknown-id") and "no collected question" in message


def test_the_chinese_of_a_set_is_chinese(tree: Tree) -> None:
    ((line, rule, _),) = found(tree, SECTIONS.replace("zh: 后", "zh: then"))
    assert (line, rule) == (6, "chinese")


def test_parts_and_stages_are_sets_without_a_file(tree: Tree) -> None:
    graph = load(tree.root)
    assert [chosen.id for chosen in graph.sets_of_card(CARD)] == ["part-0", "stage-attention-kv"]
    assert not graph.sets["part-0"].curated
    assert {CARD, "kv-cache-size-calculation", "request-lifecycle"} <= set(graph.sets["part-0"].cards)


def test_a_written_lesson_decides_the_stages_of_its_cards(tree: Tree) -> None:
    tree.edit("book/part0/kv-cache.md", "stages: [attention-kv]", "stages: [decode]")
    sets = load(tree.root).sets
    assert CARD in sets["stage-decode"].cards and CARD not in sets["stage-attention-kv"].cards


def test_every_card_of_the_course_is_in_the_set_of_its_part(course: Graph) -> None:
    mapped = {card.id for card in content_map().cards.values()}
    parts = [card for chosen in course.sets.values() if chosen.id.startswith("part-") for card in chosen.cards]
    assert sorted(parts) == sorted(mapped | set(course.cards))


def test_every_stage_of_the_path_is_a_set(course: Graph) -> None:
    assert [i for i in course.sets if i.startswith("stage-")] == [f"stage-{stage.id}" for stage in STAGES]


def test_the_first_round_asks_the_collected_questions_in_their_order(course: Graph) -> None:
    asked = [section.asks for section in course.sets["first-round-ai-infra"].sections]
    assert asked == [f"1:Q{number}" for number in range(1, 22)]


def test_the_coding_set_has_every_coding_card(course: Graph) -> None:
    coding = {card.id for card in content_map().cards.values() if card.kind == "coding"}
    coding = {i for i in coding if i not in course.cards} | {card.id for card in course.cards.values() if card.kind == "coding"}
    assert set(course.sets["coding-round"].cards) == coding


def test_the_path_follows_the_stages(course: Graph) -> None:
    assert [section.title.en for section in course.sets["path-of-a-request"].sections] == [stage.name for stage in STAGES]


def test_the_last_hour_fits_an_hour(course: Graph) -> None:
    cards = course.sets["last-hour"].cards
    minutes = [course.cards[card].minutes if card in course.cards else 3 for card in cards]
    assert 30 <= sum(minutes) <= 90
