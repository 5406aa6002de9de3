"""Step costs follow the plan, and a fit finds them again from measured steps."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.core.plan import BlockCopy, ScheduledRequest, StepPlan
from infer_lab.errors import UserError
from infer_lab.sim.cost_model import LinearCost, RooflineCost, StepWork, fit_linear_cost


def test_work_counts_tokens_kv_positions_and_moved_blocks() -> None:
    plan = StepPlan(
        0,
        scheduled=(ScheduledRequest("a", 100, (1,), True), ScheduledRequest("b", 0, (1, 2, 3), True)),
        swap_out=(BlockCopy(1, 2),),
        swap_in=(BlockCopy(1, 2), BlockCopy(3, 4)),
    )
    assert StepWork.of(plan) == StepWork(num_tokens=4, kv_tokens=104, swapped_blocks=3)


def test_roofline_takes_the_longer_of_memory_and_arithmetic() -> None:
    cost = RooflineCost(weight_bytes=1000, kv_bytes=10, flops=50, bandwidth=100, peak=100, overhead_s=1, block_bytes=200, host_bandwidth=50)
    assert cost.seconds(StepWork(1, 10)) == 1 + 1100 / 100
    assert cost.seconds(StepWork(100, 10)) == 1 + 5000 / 100
    assert cost.seconds(StepWork(1, 10, swapped_blocks=2)) == 1 + 11 + 8


@given(st.floats(0, 0.1), st.floats(0, 1e-3), st.floats(0, 1e-6), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_fit_recovers_a_linear_machine(fixed: float, per_token: float, per_kv: float, seed: int) -> None:
    r = random.Random(seed)
    true = LinearCost(fixed, per_token, per_kv)
    works = [StepWork(r.randint(1, 4096), r.randint(1, 2_000_000)) for _ in range(50)]
    fit = fit_linear_cost([(work, true.seconds(work)) for work in works])
    for work in works:
        assert fit.cost.seconds(work) == pytest.approx(true.seconds(work), rel=1e-6, abs=1e-9)


def test_fit_of_noisy_steps_is_near_and_says_how_near() -> None:
    r = random.Random(1)
    true = LinearCost(0.004, 2e-5, 3e-8)
    works = [StepWork(r.randint(1, 2048), r.randint(100, 500_000)) for _ in range(400)]
    fit = fit_linear_cost([(work, true.seconds(work) * r.gauss(1, 0.03)) for work in works])
    assert fit.cost.fixed_s == pytest.approx(0.004, rel=0.1)
    assert fit.cost.per_token_s == pytest.approx(2e-5, rel=0.05)
    assert fit.cost.per_kv_token_s == pytest.approx(3e-8, rel=0.1)
    assert fit.r_squared > 0.98 and 0.01 < fit.relative_error < 0.05 and fit.num_samples == 400


def test_fit_never_gives_a_negative_cost() -> None:
    falling = [(StepWork(tokens, 10 * tokens), 1.0 - tokens / 1000) for tokens in range(1, 100)]
    cost = fit_linear_cost(falling).cost
    assert min(cost.fixed_s, cost.per_token_s, cost.per_kv_token_s) >= 0


def test_fit_of_steps_that_are_all_alike_is_their_mean() -> None:
    cost = fit_linear_cost([(StepWork(8, 800), seconds) for seconds in (1.0, 2.0, 3.0)]).cost
    assert cost.seconds(StepWork(8, 800)) == pytest.approx(2.0)


def test_too_few_steps_are_refused() -> None:
    with pytest.raises(UserError, match="2 measured steps are too few"):
        fit_linear_cost([(StepWork(1, 1), 1.0)] * 2)
