"""The mock interview: what is chosen, asked, scored and advised, and an interview played in the terminal."""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from course.tree import Tree, card
from infer_course.card_data import card_data
from infer_course.graph import Graph, load
from infer_course.mock.choose import LENGTHS, LEVELS, Interview, choose, fnv1a, roles
from infer_course.mock.report import items_of, markdown, said
from infer_course.mock.score import Asked, Item, follow_ups, overall, score
from infer_course.mock.terminal import Room, reviews

FIXTURES = Path(__file__).parents[1] / "fixtures"
sys.path.insert(0, str(FIXTURES))
import make_mock_fixtures  # noqa: E402

FIRST, SECOND = "kv-cache-principle", "kv-cache-size-calculation"
ESTIMATE = "estimate: {expr: kv_bytes_per_token(llama_3_8b), unit: KiB, tolerance: 0.03}\nsources:"
ROWS = make_mock_fixtures.rows(random.Random(7))
any_interview = st.tuples(st.sampled_from(sorted(roles())), st.sampled_from(LEVELS), st.sampled_from(LENGTHS), st.integers(0, 2**31))


# choosing


def test_the_shared_cases_are_what_the_rules_give() -> None:
    kept = json.loads((FIXTURES / "mock_cases.json").read_text(encoding="utf-8"))
    assert kept == json.loads(json.dumps(make_mock_fixtures.cases())), "run tests/fixtures/make_mock_fixtures.py and look at the difference"


def test_the_hash_is_fnv_1a() -> None:
    assert [fnv1a(text) for text in ("", "a", "foobar")] == [0x811C9DC5, 0xE40C292C, 0xBF9CF968]


@settings(max_examples=60, deadline=None)
@given(any_interview)
def test_an_interview_fits_its_length_repeats_nothing_and_is_the_same_again(wanted: tuple[str, str, int, int]) -> None:
    role, level, minutes, seed = wanted
    found = choose(ROWS, roles()[role], level, minutes, seed)
    assert found == choose(list(reversed(ROWS)), roles()[role], level, minutes, seed)
    assert len(set(found.cards)) == len(found.cards) >= 1
    assert found.minutes <= minutes or len(found.cards) == 1
    by_id = {row["id"]: row for row in ROWS}
    lessons = [by_id[one]["lessons"][0]["id"] for one in found.cards]
    assert len(set(lessons)) == len(lessons)
    assert any(by_id[one]["estimate"] for one in found.cards)
    places = [(by_id[one]["kind"] == "system-design", LEVELS.index(by_id[one]["level"])) for one in found.cards]
    assert places == sorted(places)
    assert level == "mid" or all(by_id[one]["level"] != {"junior": "senior", "senior": "junior"}[level] for one in found.cards)


def test_a_role_is_asked_more_of_what_it_weighs() -> None:
    def share(role: str, part: int) -> float:
        found = [one for seed in range(60) for one in choose(ROWS, roles()[role], "mid", 45, seed).cards]
        return sum(int(one.split("-")[1]) % 9 == part for one in found) / len(found)

    assert share("kernel", 3) > 2 * share("serving", 3) and share("platform", 8) > 2 * share("kernel", 8)


def test_with_few_cards_there_is_an_interview_all_the_same_and_with_none_there_is_none() -> None:
    role = roles()["serving"]
    assert choose([], role, "mid", 30, 1) == Interview((), 0.0, 30)
    assert len(choose(ROWS[:1], role, ROWS[0]["level"], 15, 1).cards) == 1


# scoring

ITEMS = (
    Item("j1", "junior", True),
    Item("j2", "junior", False),
    Item("m1", "mid", True),
    Item("m2", "mid", True),
    Item("s1", "senior", True),
    Item("r1", "red_flag", False),
)


def test_follow_ups_ask_after_what_was_missing_lowest_level_first_then_go_deeper() -> None:
    assert follow_ups(ITEMS, frozenset(), "mid", 5) == [("j1", None), ("m1", None)]
    assert follow_ups(ITEMS, frozenset({"j1", "j2", "m1"}), "mid", 5) == [("m2", None)]
    assert follow_ups(ITEMS, frozenset({"j1", "m1", "m2"}), "mid", 5) == []  # j2 is missing, and nobody asks after it
    assert follow_ups(ITEMS, frozenset({"j1", "j2", "m1", "m2"}), "mid", 5) == [(None, 0), (None, 1)]
    assert follow_ups(ITEMS, frozenset({"j1", "j2"}), "junior", 1) == [(None, 0)]


def test_a_recovered_item_counts_half_and_a_red_flag_costs_one() -> None:
    ticked = frozenset({"j1", "j2", "m1"})
    assert score(ITEMS, ticked, [Asked("m2", None, "yes")], "mid").had == 3.5
    assert score(ITEMS, ticked, [Asked("m2", None, "partly")], "mid").had == 3
    flagged = score(ITEMS, ticked | {"r1"}, [], "mid")
    assert (flagged.share, flagged.flags, said(flagged)) == (0.5, 1, "3 of 4 items, 1 red flag")


@pytest.mark.parametrize(
    ("ticked", "reached", "rating"),
    [
        ("", None, 1),
        ("j1", None, 1),
        ("j1 j2", "junior", 2),
        ("j1 j2 m1", "junior", 3),
        ("j1 j2 m1 m2", "mid", 4),
        ("j1 j2 m1 m2 s1", "senior", 4),
        ("j1 j2 m1 m2 s1 r1", "mid", 3),
        ("m1 m2 s1", None, 2),
    ],
)
def test_a_level_is_reached_with_two_thirds_of_it_and_of_all_below(ticked: str, reached: str | None, rating: int) -> None:
    found = score(ITEMS, frozenset(ticked.split()), [], "mid")
    assert (found.reached, found.rating) == (reached, rating)


@given(st.sets(st.sampled_from([item.id for item in ITEMS])), st.sampled_from(LEVELS))
def test_one_item_more_is_never_worth_less_unless_it_is_a_red_flag(ticked: set[str], level: str) -> None:
    before = score(ITEMS, frozenset(ticked), [], level)
    for item in ITEMS:
        after = score(ITEMS, frozenset(ticked | {item.id}), [], level)
        assert after.share <= before.share if item.level == "red_flag" else after.share >= before.share


def test_overall_is_the_lower_median() -> None:
    def of(*levels: str | None) -> str | None:
        return overall(
            [score(ITEMS, frozenset({"senior": "j1 j2 m1 m2 s1", "junior": "j1 j2", None: ""}[one].split()), [], "mid") for one in levels]
        )

    assert (
        of("junior", "senior", "senior") == "senior" and of("junior", "senior") == "junior" and of(None, "senior") is None and of() is None
    )


# in the terminal


class Script:
    """Keys in the order of a list; `line` types a line. `^C` interrupts."""

    def __init__(self, *pressed: str) -> None:
        self.pressed: Iterator[str] = iter(pressed)

    def key(self, seconds: float | None = None) -> str | None:
        for one in self.pressed:
            if one == "^C":
                raise KeyboardInterrupt
            return one
        raise AssertionError("the interview waits for a key that the script does not have")


def line(text: str = "") -> tuple[str, ...]:
    return (*("space" if letter == " " else letter for letter in text), "enter")


def play(graph: Graph, *pressed: str, level: str = "senior", cards: tuple[str, ...] = (FIRST, SECOND)) -> tuple[str, Room]:
    out, tick = io.StringIO(), iter(range(0, 1_000_000, 10))
    room = Room(
        graph, Interview(cards, 20.0, 30), level, Script(*pressed), Console(file=out, width=100, highlight=False), lambda: float(next(tick))
    )
    room.run()
    return out.getvalue(), room


def written(graph: Graph, room: Room, level: str = "senior") -> str:
    rows = card_data(graph)["cards"]
    return markdown(graph, room.interview, room.answers, role="Engineer", level=level, seed=7, day="2025-07-01", rows=rows)


def test_an_interview_asks_after_what_was_missing_and_the_report_says_what_to_do(tree: Tree) -> None:
    tree.write(f"questions/part0/{FIRST}.md", card(FIRST, 3, SECOND).replace("sources:", ESTIMATE, 1))
    graph = load(tree.root)
    one_of_three = (*line("Which model?"), *line("64 KiB"), "space", "b", "space", "space", "n")  # its missing one is asked after
    all_of_them = (*line(), "space", "a", "b", "c", "space", "space", "y", "space", "p")  # the chain goes deeper
    shown, room = play(graph, *one_of_three, *all_of_them)
    first, second = room.answers
    assert first.clarified == "Which model?" and first.estimate == 64 and "too small" in first.verdict
    assert [one.item for one in first.asked] == ["formula"] and [one.chain for one in second.asked] == [0, 1]
    text = written(graph, room)
    assert "1 of 3 items; below junior level" in text and "3 of 3 items; senior level" in text
    assert "You asked first: Which model?" in text and "Missing (junior): States the formula." in text and "(not answered)" in text
    assert "## Read" in text and "infer-course show kv-cache-principle" in text and "below junior level**" in text
    assert shown.index("What is the 2 for?") > shown.index("States the formula.")


def test_leaving_early_keeps_what_was_answered_and_names_what_was_not_reached(tree: Tree) -> None:
    graph = load(tree.root)
    for leave in ((*line("q"), "q"), ("^C",)):
        _, room = play(graph, *line(), "space", "a", "b", "c", "space", "space", "y", "space", "y", *leave)
        assert [answer.card for answer in room.answers] == [FIRST]
        assert "## Not reached" in written(graph, room) and graph.cards[SECOND].title.en in written(graph, room)


def test_a_question_that_was_left_out_is_not_scored(tree: Tree) -> None:
    graph = load(tree.root)
    _, room = play(graph, *line(), "j", *line(), "q")
    assert room.answers == [] and "0 of 2 questions" in written(graph, room)


def test_the_drill_gets_each_question_with_a_grade_by_share(tree: Tree) -> None:
    graph = load(tree.root)
    _, room = play(graph, *line(), "space", "a", "space", "space", "y", *line(), "q")
    (kept,) = reviews(graph, room.answers, "senior", 1_800_000_000_000)
    assert (kept["card"], kept["rating"], kept["mode"], kept["mock"], kept["rubric"]) == (FIRST, 1, "explain", True, ["formula"])
    assert items_of(graph.cards[FIRST].rubric)[0].follow_up
