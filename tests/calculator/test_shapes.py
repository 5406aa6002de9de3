"""Experts, windows and latents: counted once more the slow way."""

from __future__ import annotations

import random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.config import ExpertsConfig, ModelConfig
from infer_lab.errors import NotApplicableError, UserError
from infer_lab.presets import PRESETS, preset
from infer_lab.units import Quantity

MODELS = sorted(PRESETS.values(), key=lambda m: m.name)
EXPERTS = [m for m in MODELS if m.experts]
models, of_experts = st.sampled_from(MODELS), st.sampled_from(EXPERTS)


@pytest.mark.parametrize(
    ("model", "billions"), [("qwen3-8b", 8.19), ("qwen3-32b", 32.76), ("gemma-3-27b", 27.01), ("mistral-7b-v0.1", 7.24)]
)
def test_published_sizes(model: str, billions: float) -> None:
    assert round(c.parameters(preset(model)).value / 1e9, 2) == billions


def test_deepseek_v3_counted_tensor_by_tensor() -> None:
    d, heads = 7168, 128
    attention = [(d, 1536), (1536, 1), (1536, heads * 192), (d, 576), (512, 1), (512, heads * 256), (heads * 128, d), (d, 1), (d, 1)]
    dense = [(d, 18_432)] * 3
    sparse = [(d, 2048)] * 3 * 257 + [(d, 256), (256, 1)]
    tensors = (attention + dense) * 3 + (attention + sparse) * 58 + [(129_280, d)] * 2 + [(d, 1)]
    assert c.parameters(preset("deepseek-v3")).value == sum(a * b for a, b in tensors)


@given(of_experts, st.integers(1, 4096))
def test_distinct_experts_lie_between_one_tokens_and_all(model: ModelConfig, tokens: int) -> None:
    assert model.experts
    hit = c.distinct_experts(model, tokens).value
    assert model.experts.num_experts_per_token <= hit <= min(model.experts.num_experts, tokens * model.experts.num_experts_per_token) + 1e-9
    assert c.distinct_experts(model, tokens + 1).value >= hit


@pytest.mark.parametrize("tokens", [1, 4, 32])
def test_distinct_experts_equal_a_simulated_router(tokens: int) -> None:
    rng, model = random.Random(7), preset("qwen3-30b-a3b")
    trials = [len({e for _ in range(tokens) for e in rng.sample(range(128), 8)}) for _ in range(600)]
    assert sum(trials) / len(trials) == pytest.approx(c.distinct_experts(model, tokens).value, rel=0.02)


@given(of_experts, st.integers(1, 4096))
def test_decode_reads_from_the_active_experts_at_batch_1_to_all_of_them(model: ModelConfig, tokens: int) -> None:
    read, table = c.decode_weight_bytes(model, tokens=tokens).value, 2 * model.vocab_size * model.hidden_size
    assert c.decode_weight_bytes(model).value == 2 * c.active_parameters(model).value - table
    assert c.decode_weight_bytes(model).value <= read <= c.weight_bytes(model).value - table


@given(models)
def test_active_is_all_for_dense_models_and_less_for_others(model: ModelConfig) -> None:
    active, every = c.active_parameters(model), c.parameters(model)
    assert (active < every) if model.experts else (active == every)


@given(models, st.sampled_from([1, 2, 4, 8]), st.sampled_from([1, 2, 4]), st.sampled_from([1, 2, 8]))
def test_gpus_together_hold_at_least_one_copy(model: ModelConfig, tp: int, pp: int, ep: int) -> None:
    try:
        on_one = c.weight_bytes_per_gpu(model, tp, pp, ep).value
    except NotApplicableError:
        assert model.num_heads % tp or (ep > 1 and (not model.experts or model.experts.num_experts % ep))
        return
    assert on_one * max(tp, ep) * pp >= c.weight_bytes(model).value * (1 - 1e-9)
    assert c.weight_bytes_per_gpu(model).value == c.weight_bytes(model).value


def test_more_stages_than_layers_are_refused() -> None:
    with pytest.raises(UserError, match="32 layers"):
        c.weight_bytes_per_gpu(preset("llama-3-8b"), pp=33)


@given(st.integers(0, 300), st.integers(0, 300), st.integers(1, 100))
def test_pairs_under_a_window_equal_a_count(new: int, cached: int, window: int) -> None:
    assume(new)
    model = preset("llama-3-8b").with_(num_layers=3, sliding_window=window, num_windowed_layers=2)
    near = sum(min(cached + i + 1, window) for i in range(new))
    every = sum(cached + i + 1 for i in range(new))
    full = model.with_(sliding_window=0, num_windowed_layers=0)
    saved = c.prefill_flops(full, new, cached).value - c.prefill_flops(model, new, cached).value
    assert saved == 4 * model.num_heads * model.head_dim * 2 * (every - near)


@given(models, st.integers(1, 200_000), st.sampled_from([1, 16, 64]))
def test_a_request_never_holds_less_than_its_tokens_nor_more_than_whole_blocks(model: ModelConfig, tokens: int, block: int) -> None:
    held, per_token = c.kv_bytes_per_request(model, tokens, block_size=block).base, c.kv_bytes_per_token(model).base
    blocks = int(c.pages(tokens, block)) * block
    full = (model.num_layers - model.num_windowed_layers) / model.num_layers
    least = per_token * (full * tokens + (1 - full) * min(tokens, model.sliding_window or tokens))
    assert least * (1 - 1e-12) <= held <= per_token * blocks
    if not model.sliding_window:
        assert held == per_token * blocks


def test_gemma_3_at_128k_keeps_a_fifth_of_what_full_attention_would() -> None:
    """52 of 62 layers look back 1,024 tokens: 10.2 GiB where every layer in full would take 62 GiB."""
    gemma = preset("gemma-3-27b")
    held = c.kv_bytes_per_request(gemma, 131_072)
    assert held == Quantity(2 * 16 * 128 * 2 * (10 * 131_072 + 52 * 1024), "B")
    assert (held / c.kv_bytes(gemma, 131_072)).value == pytest.approx(10 / 62 + 52 / 62 / 128)
    assert held.to("GiB").value == pytest.approx(10.41, abs=0.01)


def test_a_window_holds_one_block_more_since_it_may_begin_inside_one() -> None:
    mistral = preset("mistral-7b-v0.1")
    assert c.kv_bytes_per_request(mistral, 32_000, block_size=16).base == (4096 + 16) * c.kv_bytes_per_token(mistral).base
    assert c.kv_bytes_per_request(mistral, 100, block_size=16).base == 112 * c.kv_bytes_per_token(mistral).base


def test_scales_of_an_fp8_cache_are_a_32nd_at_head_dim_128() -> None:
    llama = preset("llama-3-8b")
    plain, scaled = c.kv_bytes_per_token(llama, 1), c.kv_bytes_per_token(llama, 1, scale_bytes=4)
    assert plain.value == 65_536 and scaled / plain == 1 + 4 / 128


@settings(max_examples=40)
@given(models, st.sampled_from([hw.h100_80gb, hw.l4]), st.integers(1, 2000))
def test_the_ridge_batch_is_the_first_that_waits_for_arithmetic(model: ModelConfig, gpu: hw.Gpu, context: int) -> None:
    def bound_by_compute(batch: int) -> bool:
        return (c.decode_flops(model, batch, context) / gpu.peak_flops()) >= (c.decode_step_bytes(model, batch, context) / gpu.bandwidth)

    try:
        batch = int(c.ridge_batch(gpu, model, context))
    except NotApplicableError:
        assert not bound_by_compute(100_000)
        return
    assert bound_by_compute(batch) and (batch == 1 or not bound_by_compute(batch - 1))


def test_long_context_has_no_ridge_batch() -> None:
    with pytest.raises(NotApplicableError, match="no batch"):
        c.ridge_batch(hw.h100_80gb, preset("llama-3-8b"), 8192)


def test_prefill_of_4096_tokens_is_compute_bound_and_of_one_is_not() -> None:
    """8B on an H100: 4,096 · 2 · 7.5e9 operations of matrices and some attention over 989 TFLOP/s."""
    llama, gpu = preset("llama-3-8b"), hw.h100_80gb
    long, short = c.prefill_floor(gpu, llama, 4096), c.prefill_floor(gpu, llama, 1)
    by_hand = (2 * 4096 * 6.979e9 + 2 * 0.525e9 + 4 * 32 * 4096 * 4096 * 4097 / 2) / 989.4e12
    assert long == c.prefill_flops(llama, 4096) / gpu.peak_flops() and long.value == pytest.approx(by_hand, rel=1e-3)
    assert short == c.prefill_bytes(llama, 1) / gpu.bandwidth


@given(st.sampled_from([m for m in MODELS if not m.experts and m.num_heads % 8 == 0 and m.num_kv_heads % 8 == 0]))
def test_a_perfect_tensor_parallel_step_is_tp_times_faster(model: ModelConfig) -> None:
    one, eight = (c.decode_step_floor(hw.h100_80gb, model, 4, 1000, tp=tp).value for tp in (1, 8))
    assert one / eight == pytest.approx(1 if model.latent else 8, rel=1e-6) or model.latent


@pytest.mark.parametrize("bad", [(8, 9, 10), (8, 0, 10), (8, 2, 0)])
def test_experts_must_make_sense(bad: tuple[int, int, int]) -> None:
    with pytest.raises(UserError, match="experts"):
        ExpertsConfig(*bad)
