"""The figures that the field agrees on, recomputed: if one of these moves, the calculator is wrong, not the figure."""

from __future__ import annotations

import pytest

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.errors import NotApplicableError
from infer_lab.presets import preset
from infer_lab.units import Quantity

# model, KV bytes per token in BF16, GiB at 4,096 tokens, GiB at 131,072 tokens
KV = [
    ("llama-2-7b", 524_288, 2.00, 64),
    ("llama-3-8b", 131_072, 0.50, 16),
    ("qwen2.5-7b", 57_344, 0.21875, 7),
    ("llama-3-70b", 327_680, 1.25, 40),
    ("qwen2.5-72b", 327_680, 1.25, 40),
    ("llama-3.1-405b", 516_096, 1.96875, 63),
    ("deepseek-v3", 70_272, 0.268066, 8.578125),
]


@pytest.mark.parametrize(("model", "per_token", "gib_4k", "gib_128k"), KV)
def test_kv_cache_sizes(model: str, per_token: int, gib_4k: float, gib_128k: float) -> None:
    shape = preset(model)
    assert c.kv_bytes_per_token(shape) == Quantity(per_token, "B")
    assert c.kv_bytes(shape, 4096).to("GiB").value == pytest.approx(gib_4k, abs=1e-6)
    assert c.kv_bytes(shape, 131_072).to("GiB").value == pytest.approx(gib_128k, abs=1e-6)


@pytest.mark.parametrize(("model", "gib"), [("llama-2-7b", 12.55), ("llama-3-8b", 14.96), ("qwen2.5-7b", 14.18), ("llama-3-70b", 131.4)])
def test_weights_in_bf16(model: str, gib: float) -> None:
    assert c.weight_bytes(preset(model)).to("GiB").value == pytest.approx(gib, abs=0.05 if gib > 100 else 0.006)


@pytest.mark.parametrize(
    ("model", "billions", "digits"),
    [
        ("llama-3-8b", 8.030, 3),
        ("llama-2-7b", 6.738, 3),
        ("llama-3-70b", 70.55, 2),
        ("smollm2-135m", 0.1345, 4),
        ("qwen3-0.6b", 0.596, 3),
        ("qwen3-4b", 4.022, 3),
        ("llama-3.2-1b", 1.236, 3),
        ("qwen2.5-7b", 7.616, 3),
        ("llama-3.1-405b", 405.85, 2),
    ],
)
def test_parameter_counts_equal_the_published_sizes(model: str, billions: float, digits: int) -> None:
    assert round(c.parameters(preset(model)).value / 1e9, digits) == billions


def test_the_wrong_ffn_width_gives_the_wrong_model_size() -> None:
    """11,008 is Llama-2-7B's FFN; with it "Llama-3-8B" would be a 6.7B model."""
    assert c.parameters(preset("llama-3-8b").with_(intermediate_size=11_008)).value == pytest.approx(6.722e9, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "total", "active"),
    [("deepseek-v3", 671.03, 37.55), ("qwen3-30b-a3b", 30.53, 3.35), ("qwen3-235b-a22b", 235.09, 22.19), ("mixtral-8x7b", 46.70, 12.88)],
)
def test_experts_make_the_published_totals_and_active_sizes(model: str, total: float, active: float) -> None:
    assert round(c.parameters(preset(model)).value / 1e9, 2) == total
    assert round(c.active_parameters(preset(model)).value / 1e9, 2) == active


def test_deepseek_v3_counts_36_6_billion_active_without_its_embedding_table() -> None:
    """README_WEIGHTS.md of the release: 36.6 B, the 0.9 B output head among them."""
    model = preset("deepseek-v3")
    table = model.vocab_size * model.hidden_size
    assert round((c.active_parameters(model).value - table) / 1e9, 1) == 36.6


def test_an_expert_model_has_no_one_crossover() -> None:
    with pytest.raises(NotApplicableError, match="deepseek-v3"):
        c.crossover_tokens(preset("deepseek-v3"))


@pytest.mark.parametrize(
    ("gpu", "flop_per_byte"),
    [("a100_40gb", 200.6), ("a100_80gb_pcie", 161.2), ("a100_80gb", 153.0), ("h100_80gb", 295.3), ("h200_141gb", 206.1)],
)
def test_ridges(gpu: str, flop_per_byte: float) -> None:
    assert c.ridge(hw.gpu(gpu)).value == pytest.approx(flop_per_byte, abs=0.05)


def test_ridge_with_the_best_measured_gemm() -> None:
    assert c.ridge(hw.h100_80gb, peak=Quantity(794.5, "TFLOP/s")).value == pytest.approx(237.2, abs=0.05)


def test_ridge_in_fp8_is_twice_that_in_bf16() -> None:
    assert c.ridge(hw.h100_80gb, dtype="fp8").value == pytest.approx(2 * c.ridge(hw.h100_80gb).value, rel=1e-3)


@pytest.mark.parametrize(("n", "factor"), [(1, 0), (2, 1), (4, 1.5), (8, 1.75), (16, 1.875), (64, 1.96875)])
def test_ring_all_reduce_factor(n: int, factor: float) -> None:
    assert c.all_reduce_factor(n).value == factor


def test_crossover_where_kv_traffic_equals_weight_traffic() -> None:
    assert c.crossover_tokens(preset("llama-3-8b")).value == pytest.approx(114_500, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "batch", "context", "intensity"), [("llama-2-7b", 64, 2048, 11.2), ("llama-3-8b", 64, 2048, 32.0), ("llama-3-8b", 1, 1, 1.0)]
)
def test_decode_intensity(model: str, batch: int, context: int, intensity: float) -> None:
    assert c.decode_intensity(preset(model), batch, context).value == pytest.approx(intensity, rel=0.01)


def test_decode_floor_of_an_8b_model_at_batch_1() -> None:
    """15.0 GB over 4.27 TB/s of measured copy bandwidth: 3.5 ms."""
    floor = c.decode_step_floor(hw.h200_141gb, preset("llama-3-8b"), 1, 256, bandwidth=Quantity(4.27, "TB/s"))
    assert floor.to("ms").value == pytest.approx(3.52, abs=0.01)


def test_gqa_shrinks_the_cache_by_the_head_ratio() -> None:
    llama = preset("llama-3-8b")
    as_mha = llama.with_(num_kv_heads=llama.num_heads)
    assert c.attention_heads_per_kv_head(llama) == 4
    assert c.kv_bytes_per_token(as_mha) / c.kv_bytes_per_token(llama) == 4


def test_mla_against_gqa() -> None:
    """576 elements a layer against 2,048: 28.1 %, not "a tenth"."""
    deepseek = preset("deepseek-v3")
    gqa = deepseek.with_(latent=None, num_kv_heads=8)
    share = c.kv_bytes_per_token(deepseek) / c.kv_bytes_per_token(gqa)
    assert share.to("%").value == pytest.approx(28.125)


def test_tensor_parallelism_turns_the_order_of_gqa_and_mla_around() -> None:
    """Over 8 GPUs: 256 elements a layer for GQA-8, still 576 for MLA."""
    deepseek = preset("deepseek-v3")
    gqa = deepseek.with_(latent=None, num_kv_heads=8)
    assert c.kv_bytes_per_token(gqa, 1, tp=8).value / gqa.num_layers == 256
    assert c.kv_bytes_per_token(deepseek, 1, tp=8).value / deepseek.num_layers == 576


def test_transfer_of_a_2048_token_cache_over_400_gbit() -> None:
    moved = c.kv_bytes(preset("llama-3-8b"), 2048)
    assert moved.to("MiB") == Quantity(256, "MiB")
    assert (moved / Quantity(50, "GB/s")).to("ms").value == pytest.approx(5.4, abs=0.05)


@pytest.mark.parametrize(
    ("m", "weight_bytes", "intensity"), [(1, 2, 0.9995), (512, 2, 409.6), (10**6, 2, 2043.81), (1, 1, 1.998), (1, 0.5, 3.992)]
)
def test_intensity_of_a_product_counts_input_and_output(m: int, weight_bytes: float, intensity: float) -> None:
    """Not 512 at 512 rows, and never more than kn / (k + n) = 2,048 in 2 bytes."""
    assert c.gemm_intensity(m, 4096, 4096, weight_bytes).value == pytest.approx(intensity, rel=1e-4)


def test_rows_at_the_ridge_are_the_first_that_reach_it() -> None:
    rows = int(c.gemm_ridge_rows(hw.h100_80gb, 4096, 14_336))
    at, before = (c.gemm_intensity(m, 4096, 14_336).value for m in (rows, rows - 1))
    assert before < c.ridge(hw.h100_80gb).value <= at
    with pytest.raises(NotApplicableError, match="too narrow"):
        c.gemm_ridge_rows(hw.h100_80gb, 256, 4096)


@pytest.mark.parametrize(
    ("model", "queries", "kv_bytes", "intensity"),
    [("llama-2-7b", 1, 2, 1), ("llama-3-8b", 1, 2, 4), ("llama-3-70b", 1, 2, 8), ("llama-3-8b", 1, 1, 8), ("llama-3-8b", 5, 2, 20),
     ("deepseek-v3", 1, 2, 241.78)],
)  # fmt: skip
def test_attention_over_the_cache_does_as_many_operations_a_byte_as_heads_share_it(
    model: str, queries: int, kv_bytes: int, intensity: float
) -> None:
    assert c.decode_attention_intensity(preset(model), queries, kv_bytes).value == pytest.approx(intensity, rel=1e-4)
