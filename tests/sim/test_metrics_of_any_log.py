"""What the metrics promise for any token log: the gaps make up TPOT, a percentile lies among its values, goodput is part of throughput."""

from __future__ import annotations

from itertools import accumulate, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab.core.record import TimelineEvent
from infer_lab.core.request import Request
from infer_lab.sim.results import RequestResult, SimulationResult, percentile
from infer_lab.sim.traffic import Arrival

# zero: several tokens of one step. Otherwise no shorter than a clock shows
waits = st.one_of(st.just(0.0), st.floats(1e-6, 100.0))
limits = st.floats(0.0, 200.0)


@st.composite
def logs(draw: st.DrawFn, fewest: int = 1) -> tuple[float, list[float]]:
    """When a request arrived, and when each of its tokens was known."""
    arrived = draw(st.floats(0.0, 1000.0))
    gaps = draw(st.lists(waits, min_size=fewest, max_size=30))
    return arrived, list(accumulate(gaps, initial=arrived))[1:]


def served(arrived: float, tokens: list[float]) -> RequestResult:
    request = Request("any", [0], len(tokens))
    request.token_ids += [0] * len(tokens)
    events = (("arrived", arrived), ("admitted", arrived), ("finished", tokens[-1]))
    request.timeline.events += [TimelineEvent(time, name, 0, 0) for name, time in events]
    request.timeline.token_times += tokens
    return RequestResult.of(request, Arrival(arrived, 1, len(tokens)))


def together(found: list[RequestResult], rejected: int = 0, unfinished: int = 0) -> SimulationResult:
    duration = max(request.finish_s for request in found) - min(request.arrival_s for request in found)
    return SimulationResult(found, rejected, unfinished, duration, [duration], 0)


@given(logs(fewest=2))
def test_the_gaps_of_a_request_add_up_to_tpot_times_one_fewer_than_its_tokens(log) -> None:
    request = served(*log)
    count = request.output_tokens
    assert len(request.itl_s) == count - 1 and min(request.itl_s) >= 0
    assert request.tpot_s is not None
    assert sum(request.itl_s) == pytest.approx(request.tpot_s * (count - 1), abs=1e-9)
    assert min(request.itl_s) - 1e-9 <= request.tpot_s <= max(request.itl_s) + 1e-9


@given(logs())
def test_the_wait_for_the_first_token_and_the_gaps_are_the_whole_latency(log) -> None:
    request = served(*log)
    assert 0 <= request.ttft_s <= request.latency_s
    assert request.ttft_s + sum(request.itl_s) == pytest.approx(request.latency_s, abs=1e-9)
    assert (request.tpot_s is None) == (request.output_tokens == 1)


@given(logs(fewest=3), st.randoms(use_true_random=False))
def test_tpot_does_not_see_in_which_order_the_gaps_come(log, order) -> None:
    arrived, tokens = log
    gaps = [after - before for before, after in pairwise(tokens)]
    order.shuffle(gaps)
    moved = served(arrived, list(accumulate(gaps, initial=tokens[0])))
    assert moved.tpot_s == pytest.approx(served(arrived, tokens).tpot_s, abs=1e-9)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100), st.floats(0, 100))
def test_a_percentile_lies_among_its_values_and_grows_with_its_rank(values, one, other) -> None:
    low, high = sorted((one, other))
    assert percentile(values, 0) == min(values) and percentile(values, 100) == max(values)
    assert min(values) - 1e-9 <= percentile(values, low) <= max(values) + 1e-9
    assert percentile(values, low) <= percentile(values, high) + 1e-9
    assert percentile(values, 50) == pytest.approx(-percentile([-value for value in values], 50), abs=1e-6)


@given(st.lists(logs(), min_size=1, max_size=8), limits, limits, st.integers(0, 5), st.integers(0, 5))
def test_goodput_is_part_of_throughput_and_grows_with_the_limits(found, ttft, tpot, rejected, unfinished) -> None:
    result = together([served(*log) for log in found], rejected, unfinished)
    good = result.goodput(ttft, tpot)
    assert 0 <= good <= result.requests_per_s
    assert good <= result.goodput(2 * ttft, 2 * tpot)
    assert result.goodput() == result.requests_per_s
    assert 0 <= result.attainment(ttft, tpot) <= len(found) / (len(found) + rejected + unfinished)


@given(st.lists(logs(fewest=2), min_size=1, max_size=8))
def test_means_over_requests_and_over_gaps_lie_between_the_extremes(found) -> None:
    result = together([served(*log) for log in found])
    for name in ("tpot", "itl", "ttft", "latency"):
        values = result.values(name)
        assert values[0] - 1e-9 <= result.mean(name) <= values[-1] + 1e-9
    assert len(result.values("itl")) == sum(request.output_tokens - 1 for request in result.requests)
