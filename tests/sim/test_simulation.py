"""The twin agrees with what can be worked out by hand, and with itself."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.errors import UserError
from infer_lab.sim import traffic
from infer_lab.sim.cost_model import LinearCost, fit_linear_cost, samples_from_records
from infer_lab.sim.instance import SimulatedExecutor, Speculation
from infer_lab.sim.results import percentile
from infer_lab.sim.router import least_outstanding, prefix_affinity, round_robin
from infer_lab.sim.simulation import Simulation
from infer_lab.sim.traffic import Arrival


def config(**options) -> SchedulerConfig:
    return SchedulerConfig(**{"num_blocks": 2000, "max_num_batched_tokens": 2048, "max_num_seqs": 64, "max_model_len": 4096} | options)


def test_a_lone_request_takes_exactly_its_steps() -> None:
    cost = LinearCost(fixed_s=0.01, per_token_s=0.001)
    result = Simulation(config(max_num_batched_tokens=64), cost).run([Arrival(5.0, prompt_tokens=100, output_tokens=3)])
    (request,) = result.requests
    assert request.ttft_s == pytest.approx((0.01 + 0.064) + (0.01 + 0.036))  # two chunks
    assert request.itl_s == pytest.approx((0.011, 0.011)) and request.tpot_s == pytest.approx(0.011)
    assert request.queue_s == 0.0 and result.duration_s == pytest.approx(5.0 + 0.12 + 0.022)
    assert result.busy_s[0] == pytest.approx(0.142) and result.num_steps == 4


def test_one_server_with_constant_service_waits_as_pollaczek_and_khinchine_say() -> None:
    service, load = 1.0, 0.7
    result = Simulation(config(max_num_seqs=1), LinearCost(service)).run(
        traffic.first(traffic.poisson(load / service, traffic.fixed(1, 1), seed=3), 20_000)
    )
    expected = load * service / (2 * (1 - load))  # M/D/1
    assert result.mean("queue") == pytest.approx(expected, rel=0.05)
    assert result.utilization == pytest.approx(load, rel=0.02)


def test_littles_law_holds() -> None:
    arrivals = traffic.first(traffic.poisson(3.0, traffic.lognormal(200, 50), seed=1), 400)
    result = Simulation(config(), LinearCost(0.02, 1e-5)).run(arrivals)
    changes = sorted([(r.arrival_s, 1) for r in result.requests] + [(r.finish_s, -1) for r in result.requests])
    area, inside, last = 0.0, 0, 0.0
    for time, change in changes:
        area += inside * (time - last)
        inside, last = inside + change, time
    assert area / result.duration_s == pytest.approx(result.requests_per_s * result.mean("latency"))


def test_the_same_seed_gives_the_same_hour() -> None:
    def run() -> dict[str, float]:
        arrivals = traffic.bursts(1.0, 10.0, traffic.uniform((10, 500), (1, 50)), quiet_s=10, burst_s=3, seed=5)
        return Simulation(config(), LinearCost(0.02, 1e-5), num_instances=2).run(traffic.until(arrivals, 60)).summary()

    assert run() == run()


def test_who_comes_at_the_same_moment_is_in_the_same_step() -> None:
    result = Simulation(config(), LinearCost(1.0)).run([Arrival(1.0, 10, 2) for _ in range(5)])
    assert {request.ttft_s for request in result.requests} == {1.0} and result.num_steps == 2


def test_several_answers_to_one_prompt_compute_it_once() -> None:
    result = Simulation(config(enable_prefix_caching=False), LinearCost(1.0)).run([Arrival(0.0, 100, 4, n=3)])
    assert sorted(request.cached_tokens for request in result.requests) == [0, 99, 99]
    assert [request.output_tokens for request in result.requests] == [4, 4, 4]


def test_a_static_batch_lets_nobody_in_until_all_of_it_have_finished() -> None:
    arrivals = [Arrival(0.0, 10, 10), Arrival(0.0, 10, 2), Arrival(0.5, 10, 2), Arrival(0.5, 10, 2), Arrival(0.5, 10, 2)]
    result = Simulation(config(max_num_seqs=2), LinearCost(1.0), static_batching=True).run(arrivals)
    assert [request.finish_s for request in result.requests] == [2.0, 10.0, 12.0, 12.0, 14.0]
    assert [request.queue_s for request in result.requests] == [0.0, 0.0, 9.5, 9.5, 11.5]
    assert Simulation(config(max_num_seqs=2), LinearCost(1.0)).run(arrivals).duration_s == 10.0


def test_a_static_batch_refuses_at_the_door_what_can_never_be_served() -> None:
    result = Simulation(config(), LinearCost(1.0), static_batching=True).run([Arrival(0.0, 100_000, 1), Arrival(0.0, 10, 1, n=3)])
    assert (result.num_rejected, len(result.requests)) == (1, 3)


def test_more_load_means_later_tokens_and_two_instances_mean_earlier_ones() -> None:
    def p99(rate: float, instances: int) -> float:
        arrivals = traffic.first(traffic.poisson(rate, traffic.fixed(300, 30), seed=2), 300)
        return Simulation(config(max_num_seqs=8), LinearCost(0.02, 1e-4), num_instances=instances).run(arrivals).percentile("ttft", 99)

    assert p99(2.0, 1) < p99(8.0, 1) and p99(8.0, 2) < p99(8.0, 1)


def test_swapping_and_small_pools_are_the_real_schedulers() -> None:
    arrivals = traffic.first(traffic.poisson(20.0, traffic.fixed(60, 60), seed=2), 100)
    small = config(num_blocks=40, admission="chunk", preemption="swap", num_host_blocks=100, watermark=0.0, max_model_len=200)
    result = Simulation(small, LinearCost(0.02, 1e-4, per_swapped_block_s=1e-3)).run(arrivals)
    assert len(result.requests) == 100 and result.summary()["preemptions"] > 0


def test_prefix_affinity_finds_more_in_the_cache_than_round_robin() -> None:
    def cached(router) -> float:
        lengths = traffic.fixed(50, 10)
        arrivals = traffic.with_shared_prefixes(traffic.first(traffic.poisson(4.0, lengths, seed=2), 300), 40, 512)
        small = config(num_blocks=700)  # holds the prefixes of one half, not of all
        return Simulation(small, LinearCost(0.01, 1e-5), num_instances=2, router=router).run(arrivals).summary()["cached_token_share"]

    assert cached(prefix_affinity()) > cached(round_robin()) + 0.1


def test_least_outstanding_evens_out_unequal_requests() -> None:
    def p99(router) -> float:
        r = random.Random(0)
        arrivals = [Arrival(i * 0.2, r.choice([20, 3000]) if i % 2 else 20, 5) for i in range(300)]
        return Simulation(config(), LinearCost(0.01, 2e-4), num_instances=2, router=router).run(arrivals).percentile("ttft", 90)

    assert p99(least_outstanding()) < p99(round_robin())


def test_drafts_give_the_expected_number_of_tokens_a_step() -> None:
    speculation = Speculation(num_drafts=3, acceptance=0.6)
    result = Simulation(config(max_model_len=20_000), LinearCost(1.0), speculation=speculation).run([Arrival(0.0, 10, 8000)])
    expected = (1 - 0.6**4) / (1 - 0.6)
    assert 8000 / result.num_steps == pytest.approx(expected, rel=0.03)


def test_rejected_and_unfinished_requests_count_against_attainment() -> None:
    arrivals = [Arrival(0.0, 10, 10), *(Arrival(0.5, 10, 10) for _ in range(3)), Arrival(0.5, 100_000, 1)]
    result = Simulation(config(max_num_seqs=1, max_waiting_requests=3), LinearCost(1.0)).run(arrivals, until=12.0)
    assert (len(result.requests), result.num_rejected, result.num_unfinished) == (1, 1, 3)
    assert result.attainment(ttft_s=2.0) == pytest.approx(1 / 5)
    assert result.goodput(ttft_s=2.0) == pytest.approx(1 / result.duration_s)
    assert result.attainment(ttft_s=0.5) == 0.0


def test_a_cost_model_fitted_to_a_run_predicts_that_machine() -> None:
    true = LinearCost(0.004, 2e-5, 3e-8)
    now = 0.0
    scheduler = Scheduler(config(step_records=10_000), clock=lambda: now)
    executor = SimulatedExecutor(true)
    r = random.Random(0)
    for i in range(60):
        scheduler.add(Request(f"r{i}", [i] * r.randint(10, 900), r.randint(1, 60)))
    while scheduler.has_unfinished():
        plan = scheduler.schedule()
        output = executor.execute(plan)
        now += executor.last_s
        scheduler.apply(plan, output)
    fit = fit_linear_cost(samples_from_records(scheduler.step_records))
    assert fit.cost.fixed_s == pytest.approx(0.004) and fit.cost.per_token_s == pytest.approx(2e-5)
    assert fit.cost.per_kv_token_s == pytest.approx(3e-8)


def test_arrivals_out_of_order_are_refused() -> None:
    with pytest.raises(UserError, match="order of time"):
        Simulation(config(), LinearCost(1.0)).run([Arrival(5.0, 1, 1), Arrival(1.0, 1, 1)])


def test_traffic_has_the_rate_and_the_lengths_it_was_asked_for() -> None:
    arrivals = traffic.until(traffic.poisson(50.0, traffic.lognormal(300, 100, longest=4000)), 200)
    assert len(arrivals) == pytest.approx(10_000, rel=0.05)
    assert percentile([a.prompt_tokens for a in arrivals], 50) == pytest.approx(300, rel=0.05)
    assert max(a.output_tokens for a in arrivals) <= 4000
    both = traffic.until(traffic.bursts(1.0, 50.0, traffic.fixed(1, 1), quiet_s=10, burst_s=10), 4000)
    assert len(both) / 4000 == pytest.approx(25.5, rel=0.25)
    gaps = [b.time - a.time for a, b in pairwise(both)]
    mean = sum(gaps) / len(gaps)
    assert sum((g - mean) ** 2 for g in gaps) / len(gaps) > 1.5 * mean**2, "bursts are more irregular than Poisson"
    tenants = traffic.first(traffic.with_tenants(traffic.poisson(1.0, traffic.fixed(1, 1)), {"a": 3, "b": 1}), 2000)
    assert sum(a.tenant == "a" for a in tenants) == pytest.approx(1500, rel=0.05)
    assert list(traffic.trace([(0.5, 3, 4)])) == [Arrival(0.5, 3, 4)]
    assert {traffic.empirical([(1, 2), (3, 4)])(random.Random(i)) for i in range(20)} == {(1, 2), (3, 4)}


def test_percentiles_interpolate_between_ranks() -> None:
    assert percentile([4, 1, 3, 2], 50) == 2.5
    assert percentile([1, 2, 3, 4], 100) == 4 and percentile([7], 99) == 7
    assert math.isnan(percentile([], 50))
