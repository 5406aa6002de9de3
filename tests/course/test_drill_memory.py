"""Memory is what the log says, whatever the order it comes in, and the committed due dates are the ones that this program computes."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_course.drill import memory
from infer_course.drill.memory import DAY_MS

LOG = json.loads((Path(__file__).resolve().parents[1] / "fixtures/drill_log.json").read_text(encoding="utf-8"))["reviews"]


def test_every_due_date_of_the_shared_log() -> None:
    by_card: dict[str, list] = {}
    for row in sorted(LOG, key=lambda row: row[1]):
        by_card.setdefault(row[0], []).append(row)
    assert len(LOG) == 4800 and len(by_card) == 400
    for rows in by_card.values():
        known = None
        for _, at, rating, due, stability in rows:
            known = memory.after(known, at, rating)
            assert known.due == due
            assert known.stability == pytest.approx(stability, rel=1e-6)


def test_the_log_in_any_order_gives_the_same_memory() -> None:
    reviews = [{"card": card, "at": at, "rating": rating} for card, at, rating, _, _ in LOG]
    first = memory.replay(reviews)
    random.Random(1).shuffle(reviews)
    assert memory.replay(reviews) == first
    assert all(first[card].reviews == 12 for card in first)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(st.integers(60_000, 400 * DAY_MS), st.integers(1, 4)), min_size=1, max_size=10))
def test_an_interval_is_whole_days_from_one_day_to_a_year(steps: list[tuple[int, int]]) -> None:
    at, known = 1_700_000_000_000, None
    for gap, rating in steps:
        at += gap
        known = memory.after(known, at, rating)
        assert known.last == at and (known.due - at) % DAY_MS == 0 and 1 <= known.days <= 365
    assert known is not None
    assert known.first <= known.last and known.lapses <= known.reviews == len(steps) and known.rating == steps[-1][1]


def test_better_grades_wait_longer() -> None:
    days = [memory.after(None, 0, rating).days for rating in (1, 2, 3, 4)]
    assert days == sorted(days) and days[3] > days[0]
