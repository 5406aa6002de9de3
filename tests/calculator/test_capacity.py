from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.calculator.capacity import misses
from infer_lab.errors import DoesNotFitError, OverloadError, UnreachableTargetError, UserError
from infer_lab.presets import preset
from infer_lab.units import Quantity

GPU, LLAMA = hw.h100_80gb, preset("llama-3-8b")
MS = Quantity(1, "ms")
rates, prompts, outputs = st.floats(0.1, 4), st.integers(1, 4000), st.integers(1, 800)


def test_prefill_share_by_hand() -> None:
    """5 prompts a second of 1,000 tokens: 2 · 7.5e9 · 1,000 operations and a little, over 989.4 TFLOP/s, five times, at 70 %."""
    each = c.prefill_flops(LLAMA, 1000).value / 989.4e12
    assert c.prefill_share(GPU, LLAMA, 5, 1000, efficiency=0.7).value == pytest.approx(5 * each / 0.7)


@settings(max_examples=40, deadline=None)
@given(rates, prompts, outputs)
def test_the_batch_keeps_up_and_one_less_would_not(rate: float, prompt: int, output: int) -> None:
    try:
        batch = int(c.replica_batch(GPU, LLAMA, rate, prompt, output, efficiency=0.7))
    except OverloadError:
        return
    share = c.prefill_share(GPU, LLAMA, rate, prompt, efficiency=0.7).value

    def arriving_while_one_decodes(b: int) -> float:
        return rate * output * c.decode_step_floor(GPU, LLAMA, b, prompt + output // 2).base / 0.7 / (1 - share)

    assert batch >= arriving_while_one_decodes(batch)
    assert batch == 1 or batch - 1 < arriving_while_one_decodes(batch - 1)


@settings(max_examples=40, deadline=None)
@given(rates, prompts, outputs)
def test_time_per_token_and_batch_obey_little(rate: float, prompt: int, output: int) -> None:
    try:
        batch, token = (f(GPU, LLAMA, rate, prompt, output) for f in (c.replica_batch, c.decode_time_per_token))
    except OverloadError:
        return
    assert c.in_flight(rate, output * token).value <= batch.value + 1e-9


def test_more_load_means_larger_batches_and_longer_waits() -> None:
    batches = [c.replica_batch(GPU, LLAMA, rate, 1000, 200).value for rate in (1, 4, 16, 24)]
    waits = [c.time_to_first_token(GPU, LLAMA, rate, 1000).value for rate in (1, 4, 16, 24)]
    assert batches == sorted(batches) and batches[0] < batches[-1] and waits == sorted(waits)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.5, 200), st.integers(50, 3000), st.integers(10, 500))
def test_the_plan_meets_its_targets_and_one_replica_less_does_not(rate: float, prompt: int, output: int) -> None:
    first, token = 800 * MS, 40 * MS
    n = int(c.replicas_needed(GPU, LLAMA, rate, prompt, output, first, token, efficiency=0.7))
    fits = int(c.max_concurrency(GPU, LLAMA, prompt + output, block_size=16))

    def missing(k: int) -> str:
        return misses(GPU, LLAMA, Quantity(rate / k, "1/s"), prompt, output, first, token, fits, efficiency=0.7)

    assert not missing(n)
    assert n == 1 or missing(n - 1)


def test_long_requests_are_limited_by_the_cache_and_short_ones_by_time() -> None:
    def why(prompt: int, output: int, rate: float, tpot: float = 1000) -> str:
        fits = int(c.max_concurrency(GPU, LLAMA, prompt + output, block_size=16))
        return misses(GPU, LLAMA, Quantity(rate, "1/s"), prompt, output, 1e6 * MS, tpot * MS, fits)

    assert why(6000, 2000, 1.3).startswith("cache: ")
    assert why(4000, 10, 17).startswith("prefill: ")
    assert why(100, 400, 20, tpot=5).startswith("TPOT: ")


def test_a_target_below_the_floor_is_out_of_reach_and_says_by_what() -> None:
    with pytest.raises(UnreachableTargetError, match=r"TPOT: 4\.5 ms, and 2\.0 ms"):
        c.replicas_needed(GPU, LLAMA, 1, 100, 100, 1000 * MS, 2 * MS)
    with pytest.raises(UnreachableTargetError, match="TTFT"):
        c.replicas_needed(GPU, LLAMA, 1, 4000, 100, 10 * MS, 100 * MS)


def test_weights_that_do_not_fit_plan_nothing() -> None:
    with pytest.raises(DoesNotFitError, match="llama-3-70b"):
        c.replicas_needed(GPU, preset("llama-3-70b"), 1, 100, 100, 1000 * MS, 100 * MS)


def test_a_cached_prefix_leaves_less_prefill_but_never_none() -> None:
    cold, warm, all_of_it = (c.prefill_share(GPU, LLAMA, 5, 1000, cached=n).value for n in (0, 500, 1000))
    assert cold > warm > all_of_it > 0


def test_two_gpus_together_need_fewer_replicas() -> None:
    def replicas(tp: int) -> int:
        return int(c.replicas_needed(GPU, LLAMA, 50, 1000, 300, 2000 * MS, 30 * MS, tp=tp))

    assert replicas(2) < replicas(1)


def test_efficiency_is_a_share_above_zero() -> None:
    with pytest.raises(UserError, match="efficiency"):
        c.prefill_share(GPU, LLAMA, 5, 1000, efficiency=0)
