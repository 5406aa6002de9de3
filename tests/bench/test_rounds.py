from __future__ import annotations

import gc
from collections import Counter
from functools import partial

import pytest

from infer_lab.bench import timer
from infer_lab.bench.rounds import against, in_rounds, one_of_many, sampler, told_apart
from infer_lab.bench.timer import Timing
from infer_lab.errors import UserError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that tests turn by hand: seconds in clock[0]."""
    now = [0.0]
    monkeypatch.setattr(timer.time, "perf_counter", lambda: now[0])
    return now


def test_each_round_takes_one_of_each_and_turns_the_order() -> None:
    order: list[str] = []

    def take(key: str) -> float:
        order.append(key)
        return float(len(order))

    taken = in_rounds({key: partial(take, key) for key in "abc"}, rounds=2, warmup=1)
    assert "".join(order) == "abc" + "cba" + "abc"
    assert {key: t.samples for key, t in taken.items()} == {"a": (6.0, 7.0), "b": (5.0, 8.0), "c": (4.0, 9.0)}


def test_a_slow_spell_moves_no_median(clock: list[float]) -> None:
    """The host takes twice as long for 40 of the 100 seconds: in a row, that is all of one configuration."""

    def work(seconds: float) -> None:
        clock[0] += seconds * (2 if 30 <= clock[0] < 70 else 1)

    taken = in_rounds({"short": sampler(lambda: work(1)), "long": sampler(lambda: work(2))}, rounds=26, warmup=0)
    assert taken["short"].median == 1.0
    assert taken["long"].median == 2.0


def test_the_collector_is_off_while_samples_are_taken_and_as_before_afterwards() -> None:
    seen = []
    in_rounds({"x": lambda: seen.append(gc.isenabled()) or 1.0}, rounds=2, warmup=0)
    assert seen == [False, False]
    assert gc.isenabled()
    gc.disable()
    try:
        in_rounds({"x": lambda: 1.0}, rounds=1, warmup=0)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_one_of_many_takes_the_calls_in_turn_and_shares_the_start(clock: list[float]) -> None:
    used: Counter[int] = Counter()

    def call(i: int) -> None:
        clock[0] += 1.0 if used.total() % 8 else 9.0  # the first of eight pays a start of 8 s
        used[i] += 1

    timing = one_of_many([partial(call, i) for i in range(4)], count=8, repeats=5)
    assert timing.samples == (2.0,) * 5
    assert len(used) == 4
    assert len(set(used.values())) == 1


@pytest.mark.parametrize(("calls", "count"), [(3, 8), (0, 8), (1, 0)])
def test_a_count_that_does_not_divide_is_refused(calls: int, count: int) -> None:
    with pytest.raises(UserError, match="multiple"):
        one_of_many([lambda: None] * calls, count=count)


def test_no_rounds_are_refused() -> None:
    with pytest.raises(UserError, match="rounds"):
        in_rounds({"x": lambda: 1.0}, rounds=0)


def test_only_what_the_spread_shows_is_a_difference() -> None:
    wide = Timing((1.0, 1.0, 1.0, 2.0, 2.0, 2.0))
    narrow = Timing((1.0,) * 6)
    assert not told_apart(wide, narrow)
    assert against(narrow, wide) == "no difference beyond the spread"
    assert against(narrow, Timing((3.0,) * 6)) == "3 times as fast"
    assert against(Timing((3.0,) * 6), narrow) == "3 times as long"
    assert against(Timing((3.0,)), narrow) == "too few samples to compare"
