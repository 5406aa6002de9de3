"""What must hold for every model and every size, found by trying to break it."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.config import ModelConfig
from infer_lab.errors import DoesNotFitError, NotApplicableError, UserError
from infer_lab.presets import PRESETS, preset
from infer_lab.units import Quantity

DENSE = [m for m in PRESETS.values() if not (m.latent or m.experts or m.sliding_window)]
models = st.sampled_from(sorted(PRESETS.values(), key=lambda m: m.name))
dense = st.sampled_from(DENSE)
gpus = st.sampled_from(sorted(hw.GPUS.values(), key=lambda g: g.key))
lengths = st.lists(st.integers(0, 200_000), max_size=20)


@st.composite
def shapes(draw: st.DrawFn) -> ModelConfig:
    kv, group = draw(st.sampled_from([1, 2, 3, 4, 8])), draw(st.sampled_from([1, 2, 4, 7]))
    return ModelConfig(
        "any", "llama", draw(st.integers(1, 100)), draw(st.sampled_from([64, 576, 4096])), draw(st.integers(1, 20_000)),
        kv * group, kv, draw(st.sampled_from([32, 64, 128])), draw(st.integers(2, 200_000)), 4096,
        tie_word_embeddings=draw(st.booleans()),
    )  # fmt: skip


@given(models, lengths)
def test_kv_bytes_follow_the_sum_of_lengths(model: ModelConfig, each: list[int]) -> None:
    total = sum((c.kv_bytes(model, n).base for n in each), 0)
    assert c.kv_bytes(model, sum(each)).base == total


@given(models, st.sampled_from([0.5, 1, 2, 4]), st.integers(0, 10**6))
def test_kv_bytes_are_linear_in_bytes_per_element(model: ModelConfig, width: float, tokens: int) -> None:
    assert c.kv_bytes(model, tokens, width).base == c.kv_bytes(model, tokens, 1).base * width


@given(shapes(), st.integers(1, 5))
def test_kv_bytes_do_not_depend_on_query_heads(shape: ModelConfig, factor: int) -> None:
    assert c.kv_bytes_per_token(shape.with_(num_heads=shape.num_heads * factor)) == c.kv_bytes_per_token(shape)


@given(shapes(), st.integers(1, 32))
def test_tensor_parallel_ranks_together_hold_at_least_one_whole_cache(shape: ModelConfig, tp: int) -> None:
    try:
        on_one = c.kv_bytes_per_token(shape, tp=tp).base
    except NotApplicableError:
        assert shape.num_heads % tp or (shape.num_kv_heads % tp and tp % shape.num_kv_heads)
        return
    whole = c.kv_bytes_per_token(shape).base
    if tp <= shape.num_kv_heads:
        assert on_one * tp == whole, "split: nothing is stored twice"
    else:
        assert on_one == whole / shape.num_kv_heads, "copied: a GPU never holds less than one head"


@given(st.sampled_from([1, 2, 4, 8, 16, 32, 64, 128]))
def test_an_mla_cache_is_copied_to_every_rank(tp: int) -> None:
    assert c.kv_bytes_per_token(preset("deepseek-v3"), tp=tp) == c.kv_bytes_per_token(preset("deepseek-v3"))


@given(gpus, dense, st.integers(1, 200_000), st.floats(0.05, 1), st.sampled_from([1, 2, 4]), st.sampled_from([1, 16, 256]))
def test_concurrency_is_the_most_that_fits(gpu: hw.Gpu, model: ModelConfig, tokens: int, util: float, tp: int, block: int) -> None:
    assume(model.num_heads % tp == 0 and model.num_kv_heads % tp == 0)
    try:
        budget = c.kv_budget(gpu, model, util, tp=tp)
    except DoesNotFitError:
        assert c.weight_bytes(model, tp=tp) > gpu.memory.to("B") * util
        return
    one = c.kv_bytes(model, c.pages(tokens, block) * block, tp=tp)
    fits = int(c.max_concurrency(gpu, model, tokens, util, tp=tp, block_size=block))
    assert one * fits <= budget < one * (fits + 1)


@given(gpus, dense, st.floats(0.05, 1))
def test_cached_tokens_fill_the_budget(gpu: hw.Gpu, model: ModelConfig, util: float) -> None:
    try:
        budget = c.kv_budget(gpu, model, util)
    except DoesNotFitError:
        return
    held = int(c.max_cached_tokens(gpu, model, util))
    assert c.kv_bytes(model, held) <= budget < c.kv_bytes(model, held + 1)


@given(shapes())
def test_parameters_equal_a_count_of_every_tensor(shape: ModelConfig) -> None:
    """Counted the slow way, tensor by tensor."""
    d, q, kv = shape.hidden_size, shape.num_heads * shape.head_dim, shape.num_kv_heads * shape.head_dim
    tensors = [(shape.vocab_size, d), (d, 1)] + ([] if shape.tie_word_embeddings else [(d, shape.vocab_size)])
    for _ in range(shape.num_layers):
        tensors += [(d, q), (d, kv), (d, kv), (q, d), (d, shape.intermediate_size), (d, shape.intermediate_size)]
        tensors += [(shape.intermediate_size, d), (d, 1), (d, 1)]
    assert c.parameters(shape).value == sum(a * b for a, b in tensors)


@given(shapes())
def test_decode_reads_the_embedding_table_only_when_it_is_also_the_lm_head(shape: ModelConfig) -> None:
    skipped = c.weight_bytes(shape) - c.decode_weight_bytes(shape)
    table = 0 if shape.tie_word_embeddings else shape.vocab_size * shape.hidden_size * 2
    assert skipped == Quantity(table, "B")


@given(shapes(), st.integers(1, 300), st.integers(0, 300))
def test_prefill_in_two_pieces_costs_one_more_lm_head(shape: ModelConfig, first: int, second: int) -> None:
    assume(second > 0)
    head = 2 * shape.vocab_size * shape.hidden_size
    pieces = c.prefill_flops(shape, first) + c.prefill_flops(shape, second, cached=first)
    assert pieces.value == c.prefill_flops(shape, first + second).value + head


@given(shapes(), st.integers(1, 64), st.integers(1, 10_000))
def test_a_decode_step_is_a_prefill_of_one_token_per_request(shape: ModelConfig, batch: int, context: int) -> None:
    """Context counts the cached tokens that the new one attends to, itself included."""
    assert c.decode_flops(shape, batch, context).value == batch * c.prefill_flops(shape, 1, cached=context - 1).value


@given(dense, st.integers(1, 512), st.integers(1, 100_000))
def test_no_batch_lowers_the_step_floor(model: ModelConfig, batch: int, context: int) -> None:
    one, more = (c.decode_step_floor(hw.h200_141gb, model, b, context) for b in (batch, batch + 1))
    assert one <= more


@given(st.integers(1, 300), st.integers(1, 300))
def test_projection_counts_equal_a_simulated_generation(new: int, prompt: int) -> None:
    without = sum(prompt + i for i in range(new))
    with_cache = prompt + sum(1 for _ in range(new - 1))
    assert c.projections_without_cache(new, prompt) == without
    assert c.projections_with_cache(new, prompt) == with_cache


@given(st.integers(1, 100_000))
def test_generating_from_one_token_is_the_triangle_number(n: int) -> None:
    assert c.projections_without_cache(n) == n * (n + 1) // 2
    assert c.projections_with_cache(n) == n


@given(st.integers(0, 10**6), st.integers(1, 512))
def test_pages_are_enough_and_no_more(tokens: int, size: int) -> None:
    n = int(c.pages(tokens, size))
    assert (n - 1) * size < tokens <= n * size or n == tokens == 0


@settings(max_examples=30)
@given(dense)
def test_the_crossover_is_where_both_halves_of_the_traffic_meet(model: ModelConfig) -> None:
    tokens = int(c.crossover_tokens(model))
    weights = c.decode_weight_bytes(model)
    assert c.kv_bytes(model, tokens) <= weights < c.kv_bytes(model, tokens + 1)


def test_weights_that_do_not_fit_are_refused_with_the_figures() -> None:
    with pytest.raises(DoesNotFitError, match=r"llama-3-70b.*141\.1 GB.*80 GB"):
        c.kv_budget(hw.h100_80gb, preset("llama-3-70b"))


def test_the_drivers_capacity_is_larger_than_the_number_on_the_box() -> None:
    for gpu in hw.GPUS.values():
        assert 1.0 < (gpu.driver_memory / gpu.memory).value < 1.08, gpu.key


@pytest.mark.parametrize("bad", [0, -0.1, 1.5])
def test_util_is_a_share(bad: float) -> None:
    with pytest.raises(UserError, match="share"):
        c.kv_budget(hw.h100_80gb, preset("llama-3-8b"), util=bad)


@pytest.mark.parametrize("bad", [-1, 1.5])
def test_tokens_are_whole_counts(bad: float) -> None:
    with pytest.raises(UserError, match="whole number"):
        c.kv_bytes(preset("llama-3-8b"), bad)


def test_tokens_may_not_be_bytes() -> None:
    with pytest.raises(UserError, match="count"):
        c.kv_bytes(preset("llama-3-8b"), Quantity(4096, "B"))


def test_every_card_names_its_source_and_the_day_it_was_checked() -> None:
    for gpu in hw.GPUS.values():
        assert gpu.source.startswith("https://") and re.match(r"20\d\d-\d\d-\d\d, ", gpu.checked), gpu.key
        assert gpu.bandwidth < Quantity(10, "TB/s") and gpu.peak_flops() < Quantity(5, "PFLOP/s")


def test_cards_are_found_by_name_in_either_spelling() -> None:
    assert hw.gpu("H100-80GB") is hw.h100_80gb
    with pytest.raises(UserError, match="known: a100_40gb"):
        hw.gpu("h300")
    with pytest.raises(NotApplicableError, match="fp8"):
        hw.a100_80gb.peak_flops("fp8")
