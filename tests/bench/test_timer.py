from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab.bench import timer
from infer_lab.bench.timer import Timing, measure, percentile
from infer_lab.errors import UserError


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that tests turn by hand: seconds in clock[0]."""
    now = [0.0]
    monkeypatch.setattr(timer.time, "perf_counter", lambda: now[0])
    return now


def test_warm_up_calls_are_not_counted(clock: list[float]) -> None:
    costs = iter([100.0, 50.0, 1.0, 2.0, 9.0])

    def work() -> None:
        clock[0] += next(costs)

    timing = measure(work, warmup=2, repeats=3)
    assert timing.samples == (1.0, 2.0, 9.0)
    assert timing.median == 2.0, "the median, not the best and not the mean"


def test_setup_is_outside_the_timed_part(clock: list[float]) -> None:
    def setup() -> None:
        clock[0] += 1000

    def work() -> None:
        clock[0] += 1

    assert measure(work, warmup=1, repeats=4, setup=setup).samples == (1.0,) * 4


def test_a_call_is_timed_every_time() -> None:
    calls = []
    assert measure(lambda: calls.append(1), warmup=2, repeats=5).n == 5
    assert len(calls) == 7


def test_per_divides_median_and_spread() -> None:
    each = Timing((1.0, 2.0, 3.0)).per(10)
    assert each.median == pytest.approx(0.2)
    assert each.p90 == pytest.approx(0.28)


@given(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=50))
def test_spread_encloses_the_median(samples: list[float]) -> None:
    timing = Timing(tuple(samples))
    assert min(samples) <= timing.p10 <= timing.median <= timing.p90 <= max(samples)


@pytest.mark.parametrize(("percent", "value"), [(0, 1), (50, 2.5), (90, 3.7), (100, 4)])
def test_percentiles_interpolate(percent: float, value: float) -> None:
    assert percentile([4, 1, 3, 2], percent) == pytest.approx(value)


def test_no_samples_is_refused() -> None:
    with pytest.raises(UserError):
        Timing(())
    with pytest.raises(UserError, match="repeats"):
        measure(lambda: None, repeats=0)


def test_events_are_refused_on_the_cpu() -> None:
    with pytest.raises(UserError, match="wall"):
        measure(lambda: None, clock="events")


def test_a_cuda_graph_on_the_cpu_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="needs a CUDA device"):
        timer.graphed(lambda: None, "cpu")
