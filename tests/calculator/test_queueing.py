from __future__ import annotations

import heapq
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab.errors import OverloadError, UserError

loads = st.floats(0.01, 0.99)


def simulated_waits(rate: float, service: float, servers: int, exponential: bool, seed: int = 5, n: int = 60_000) -> list[float]:
    """First come, first served, Poisson arrivals: what the formulas are about, step by step."""
    rng, now, free, waits = random.Random(seed), 0.0, [0.0] * servers, []
    for _ in range(n):
        now += rng.expovariate(rate)
        start = max(now, free[0])
        heapq.heapreplace(free, start + (rng.expovariate(1 / service) if exponential else service))
        waits.append(start - now)
    return waits[n // 10 :]


def test_little_by_hand() -> None:
    assert c.in_flight(4, 2.5).value == 10


@given(loads)
def test_one_exponential_server_is_both_mm1_and_mg1(load: float) -> None:
    assert c.mmc_wait(load, 1, 1).value == pytest.approx(c.mg1_wait(load, 1, 1).value) == pytest.approx(load / (1 - load))
    assert c.mmc_wait_probability(load, 1, 1).value == pytest.approx(load)


def test_constant_service_waits_half_as_long_as_exponential() -> None:
    assert c.mg1_wait(0.8, 1, 0).value == pytest.approx(c.mg1_wait(0.8, 1, 1).value / 2) == pytest.approx(2)


@pytest.mark.parametrize(("servers", "offered", "waits"), [(2, 1.0, 1 / 3), (3, 2.0, 4 / 9), (10, 8.0, 0.4092)])
def test_erlang_c_by_hand(servers: int, offered: float, waits: float) -> None:
    assert c.mmc_wait_probability(offered, 1, servers).value == pytest.approx(waits, abs=5e-5)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.7), (4, 0.8)])
def test_mean_and_tail_equal_a_simulation(servers: int, load: float) -> None:
    waits = sorted(simulated_waits(load * servers, 1.0, servers, exponential=True))
    assert sum(waits) / len(waits) == pytest.approx(c.mmc_wait(load * servers, 1, servers).value, rel=0.1)
    assert waits[int(0.95 * len(waits))] == pytest.approx(c.mmc_wait_quantile(load * servers, 1, servers, 0.95).value, rel=0.1)


def test_constant_service_equals_a_simulation() -> None:
    waits = simulated_waits(0.7, 1.0, 1, exponential=False)
    assert sum(waits) / len(waits) == pytest.approx(c.mg1_wait(0.7, 1, 0).value, rel=0.1)


def test_nobody_waits_at_the_99th_percentile_of_an_idle_service() -> None:
    assert c.mmc_wait_quantile(0.1, 1, 8, 0.99).value == 0


@given(st.floats(1.01, 50), st.floats(0, 5))
def test_at_the_knee_a_request_takes_that_many_times_its_service(slowdown: float, cv: float) -> None:
    busy = c.knee_utilization(slowdown, cv)
    assert 1 + c.mg1_wait(busy.value, 1, cv).value == pytest.approx(slowdown, rel=1e-6)


def test_the_knee_of_mm1_at_twice_the_service_is_half_load() -> None:
    assert c.knee_utilization(2, 1).value == 0.5


@given(st.integers(1, 64), loads)
def test_pooling_servers_shortens_the_wait(servers: int, load: float) -> None:
    one, more = c.mmc_wait(load * servers, 1, servers).value, c.mmc_wait(load * (servers + 1), 1, servers + 1).value
    assert more <= one


@pytest.mark.parametrize("rate", [1.0, 2.5])
def test_overload_is_refused_with_both_rates(rate: float) -> None:
    with pytest.raises(OverloadError, match=r"100%|250%"):
        c.mg1_wait(rate, 1)
    assert c.utilization(rate, 1).value == rate, "the utilization itself may be asked"


def test_impossible_queues_are_refused() -> None:
    for formula, arguments in ((c.mg1_wait, (-1, 1)), (c.mg1_wait, (0.5, 0)), (c.mmc_wait, (0.5, 1, 0)), (c.knee_utilization, (1,))):
        with pytest.raises(UserError):
            formula(*arguments)
