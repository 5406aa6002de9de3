"""Queue, plan, statistics and estimates: the shared cases, and what must hold for any log."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_course.drill import estimate, memory, plan, queue
from infer_course.drill.grading import suggestion
from infer_course.drill.memory import DAY_MS, Memory
from infer_course.drill.queue import DrillCard, Filter
from infer_course.drill.statistics import statistics

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
WORLD = json.loads((FIXTURES / "drill_cases.json").read_text(encoding="utf-8"))
CARDS = queue.written(WORLD["cards"])
MEMORIES = memory.replay(WORLD["reviews"])
TODAY: int = WORLD["day_start"]
ESTIMATES = json.loads((FIXTURES / "drill_estimates.json").read_text(encoding="utf-8"))["cases"]
sys.path.insert(0, str(FIXTURES))
from make_drill_fixtures import as_filter  # noqa: E402


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(dataclasses.asdict(value)))


@pytest.mark.parametrize("case", WORLD["queue"], ids=lambda case: case["name"])
def test_shared_queues(case: dict[str, Any]) -> None:
    built = queue.build(
        CARDS, MEMORIES, TODAY, chosen=as_filter(case["filter"]), mode=case["mode"], new=case["new"], minutes=case["minutes"]
    )
    assert as_json(built) == case["expected"]


def test_shared_steps_after_a_grade() -> None:
    by_id = {card.id: card for card in CARDS}
    for case in WORLD["after_grade"]:
        assert list(queue.after_grade(case["rest"], by_id[case["card"]], case["rating"])) == case["expected"]


def test_shared_suggestions() -> None:
    by_id = {card.id: card for card in CARDS}
    assert {case["expected"] for case in WORLD["suggestions"]} >= {1, 2, 3, 4}
    for case in WORLD["suggestions"]:
        assert suggestion(by_id[case["card"]], case["ticked"]) == case["expected"]


@pytest.mark.parametrize("case", WORLD["plan"], ids=lambda case: case["name"])
def test_shared_plans(case: dict[str, Any]) -> None:
    memories = {} if case["empty_log"] else MEMORIES
    made = plan.make(CARDS, memories, TODAY, case["days"], case["minutes_per_day"], as_filter(case["filter"]))
    assert as_json(made) == case["expected"]


def test_shared_statistics() -> None:
    assert statistics(CARDS, WORLD["reviews"], TODAY) == WORLD["statistics"]
    assert statistics(CARDS, WORLD["reviews"][::-1], TODAY) == WORLD["statistics"]


@pytest.mark.parametrize("case", ESTIMATES, ids=lambda case: ascii(f"{case['text']} for {case['unit']}"))
def test_shared_estimates(case: dict[str, Any]) -> None:
    judged = estimate.judge(case["text"], case["unit"], case["tolerance"], [(name, value) for name, value in case["choices"]])
    assert dataclasses.asdict(judged) == case["expected"]


def test_planned_cards_are_never_asked() -> None:
    planned = {row["id"] for row in WORLD["cards"] if row["planned"]}
    assert planned and planned.isdisjoint(queue.build(CARDS, MEMORIES, TODAY, new=1000).cards)


def test_who_drilled_late_yesterday_may_drill_early_today() -> None:
    late = memory.after(None, TODAY - 3600_000, 1)
    assert late.due > TODAY
    assert queue.build(CARDS[:1], {CARDS[0].id: late}, TODAY, new=0).due == (CARDS[0].id,)
    assert queue.build(CARDS[:1], {CARDS[0].id: late}, TODAY - DAY_MS, new=0).due == ()


def test_new_cards_of_today_count_against_the_limit() -> None:
    begun = {card.id: memory.after(None, TODAY + 1000, 3) for card in CARDS[:4]}
    assert len(queue.build(CARDS, begun, TODAY, new=10).new) == 6
    assert len(queue.build(CARDS, begun, TODAY + DAY_MS, new=10).new) == 10


ratings = st.lists(st.integers(1, 4), max_size=60)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(ratings, st.integers(1, 12))
def test_a_forgotten_card_returns_before_the_end_and_no_card_is_lost(grades: list[int], size: int) -> None:
    by_id = {card.id: card for card in CARDS}
    todo: tuple[str, ...] = tuple(card.id for card in CARDS[:size])
    left, turn = set(todo), 0
    while todo and turn < 200:
        rating = grades[turn] if turn < len(grades) else 3
        card, rest = by_id[todo[0]], todo[1:]
        todo = queue.after_grade(rest, card, rating)
        assert sorted(todo) == sorted([*rest, card.id] if rating == 1 else rest)
        if rating == 1:
            assert todo.index(card.id) <= queue.RETURNS_AFTER
        else:
            left.discard(card.id)
        turn += 1
    assert not todo and not left


@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 40), st.integers(1, 120), st.integers(0, 30), st.sampled_from([None, (0,), (1, 2)]))
def test_a_plan_never_takes_more_than_the_days_have_and_says_what_it_leaves_out(
    days: int, minutes: int, seen: int, parts: tuple[int, ...] | None
) -> None:
    memories: dict[str, Memory] = {card_id: MEMORIES[card_id] for card_id in sorted(MEMORIES)[:seen]}
    chosen = Filter(parts=frozenset(parts or ()))
    made = plan.make(CARDS, memories, TODAY, days, minutes, chosen)
    assert len(made.days) == days
    assert all(day.seconds <= minutes * 60 for day in made.days)
    inside = {card.id for card in CARDS if chosen.matches(card)}
    begun = [card_id for day in made.days for card_id in day.new]
    assert len(begun) == len(set(begun))
    assert set(begun) | set(made.left_out) == inside - set(memories) and set(begun).isdisjoint(made.left_out)
    assert days <= 1 or not made.days[-1].new
    if made.fits:
        assert made.minutes_that_fit == minutes
    elif made.minutes_that_fit is not None:
        assert made.minutes_that_fit > minutes
        assert plan.make(CARDS, memories, TODAY, days, made.minutes_that_fit, chosen).fits
        if made.minutes_that_fit - 5 > minutes:
            assert not plan.make(CARDS, memories, TODAY, days, made.minutes_that_fit - 5, chosen).fits


def test_what_is_left_out_is_the_end_of_the_order() -> None:
    made = plan.make(CARDS, {}, TODAY, 4, 20)
    order = [card.id for card in plan.in_order(CARDS, Filter())]
    begun = [card_id for day in made.days for card_id in day.new]
    assert [*begun, *made.left_out] == order and made.left_out
    levels = [next(card for card in CARDS if card.id == card_id).level for card_id in order]
    assert levels == sorted(levels, key=plan.LEVELS.index)


def test_retention_is_measured_over_whole_days_only() -> None:
    card = CARDS[0].id
    log = [
        {"card": card, "at": TODAY - 3 * DAY_MS, "rating": 1},
        {"card": card, "at": TODAY - 3 * DAY_MS + 600_000, "rating": 3},
        {"card": card, "at": TODAY - DAY_MS, "rating": 1},
        {"card": card, "at": TODAY, "rating": 3},
    ]
    assert statistics(CARDS, log, TODAY)["retention"] == {"remembered": 1, "asked": 2}


def test_reviews_of_cards_that_are_gone_count_as_work_only() -> None:
    found = statistics(CARDS, [{"card": "gone", "at": TODAY, "rating": 3, "seconds": 30, "rubric": ["x"], "estimate": 3}], TODAY)
    assert (found["reviews"], found["seconds"], found["seen"], found["weak_items"]) == (1, 30, 0, [])


def test_an_unused_rubric_says_nothing() -> None:
    card: DrillCard = next(card for card in CARDS if len(card.rubric) > 2)
    blank = statistics(CARDS, [{"card": card.id, "at": TODAY, "rating": 3, "rubric": []}], TODAY)
    assert blank["weak_items"] == []
    used = statistics(CARDS, [{"card": card.id, "at": TODAY, "rating": 3, "rubric": [card.rubric[0][0]]}], TODAY)
    assert {row["item"] for row in used["weak_items"]} == {item for item, level in card.rubric[1:] if level != "red_flag"}
