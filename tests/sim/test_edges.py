"""Where a simulation is cut off, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import UserError
from infer_lab.sim import traffic
from infer_lab.sim.cost_model import LinearCost, RooflineCost, StepWork, fit_linear_cost
from infer_lab.sim.instance import Speculation
from infer_lab.sim.results import SimulationResult, percentile
from infer_lab.sim.simulation import Simulation
from infer_lab.sim.traffic import Arrival, fixed


def _run(arrivals: list[Arrival], step_s: float = 1.0, until: float | None = None) -> SimulationResult:
    return Simulation(SchedulerConfig(num_blocks=100), LinearCost(step_s)).run(arrivals, until)


def test_a_run_that_is_stopped_lasts_until_then_whatever_happened_last() -> None:
    idle = _run([Arrival(0.0, 5, 3), Arrival(20.0, 5, 3)], until=10.0)
    assert (idle.duration_s, idle.utilization, idle.requests_per_s) == (10.0, 0.3, 0.1)
    never = _run([Arrival(0.0, 5, 3)], step_s=100.0, until=10.0)
    assert (never.duration_s, never.num_unfinished, never.utilization) == (10.0, 1, 1.0)


@pytest.mark.parametrize("step_s", [0.3, 4.0, 7.0, 100.0])
def test_nobody_is_busy_for_longer_than_the_run(step_s: float) -> None:
    result = _run([Arrival(0.0, 5, 300)], step_s, until=10.0)
    assert result.duration_s == 10.0 and result.utilization == pytest.approx(1.0)


def test_a_run_that_ends_before_the_limit_ends_when_it_ends() -> None:
    assert _run([Arrival(0.0, 5, 3)], until=10.0).duration_s == 3.0


def test_a_simulation_runs_once() -> None:
    simulation = Simulation(SchedulerConfig(num_blocks=100), LinearCost(1.0))
    simulation.run([])
    with pytest.raises(UserError, match="has run"):
        simulation.run([])


@pytest.mark.parametrize(
    "make",
    [
        lambda: _run([Arrival(math.nan, 5, 5), Arrival(1.0, 5, 5)]),
        lambda: _run([Arrival(math.inf, 5, 5)]),
        lambda: _run([Arrival(5.0, 5, 5), Arrival(1.0, 5, 5)]),
        lambda: _run([Arrival(0.0, 5, 5)], step_s=-1.0),
        lambda: _run([Arrival(0.0, 5, 5)], step_s=math.nan),
        lambda: _run([Arrival(0.0, 5, 5)], step_s=math.inf),
        lambda: Arrival(0.0, 0, 5),
        lambda: Arrival(0.0, 5, 0),
        lambda: Arrival(0.0, 5, 5, prefix=-1),
        lambda: Arrival(0.0, 5, 5, prefix_tokens=6),
        lambda: next(traffic.poisson(0.0, fixed(1, 1))),
        lambda: next(traffic.poisson(-1.0, fixed(1, 1))),
        lambda: next(traffic.bursts(1.0, 2.0, fixed(1, 1), quiet_s=0.0, burst_s=1.0)),
        lambda: next(traffic.with_shared_prefixes([Arrival(0.0, 1, 1)], 0, 5)),
        lambda: next(traffic.with_tenants([Arrival(0.0, 1, 1)], {})),
        lambda: traffic.uniform((5, 1), (1, 1)),
        lambda: traffic.empirical([]),
        lambda: traffic.lognormal(0.0, 5.0),
        lambda: Speculation(4, 2.0),
        lambda: Speculation(-1, 0.5),
        lambda: RooflineCost(1.0, 1.0, 1.0, bandwidth=0.0, peak=1.0),
        lambda: fit_linear_cost([(StepWork(i, i), math.nan) for i in range(5)]),
        lambda: fit_linear_cost([(StepWork(i, i), -1.0) for i in range(5)]),
        lambda: percentile([1.0, 2.0], 200),
    ],
)
def test_what_cannot_be_simulated_is_a_users_error(make: Callable[[], object]) -> None:
    with pytest.raises(UserError):
        make()
