"""Mistakes that calculators in public have made, each a test by its name. The course's casebook, items 24 and 29."""

from __future__ import annotations

import pytest

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.errors import DoesNotFitError, UnitError, UserError
from infer_lab.presets import preset
from infer_lab.units import Quantity

LLAMA = preset("llama-3-8b")


def test_casebook_29_ignoring_kv_heads_would_be_4_times_off_for_llama_3() -> None:
    wrong = 2 * LLAMA.num_layers * LLAMA.hidden_size * 2  # "2 · layers · hidden size · bytes", as if every query head had its own K and V
    right = c.kv_bytes_per_token(LLAMA).value
    assert (wrong, right) == (524_288, 131_072)
    assert wrong == 4 * right
    assert c.kv_bytes_per_token(preset("llama-2-7b")).value == 524_288, "the wrong formula is right where every head has its own"


@pytest.mark.parametrize(("model", "off"), [("qwen2.5-7b", 7), ("llama-3-70b", 8), ("llama-3.1-405b", 16), ("qwen3-4b", 2.5)])
def test_casebook_29_the_same_mistake_is_other_factors_elsewhere(model: str, off: float) -> None:
    shape = preset(model)
    assert 2 * shape.num_layers * shape.hidden_size * 2 == off * c.kv_bytes_per_token(shape).value


def test_casebook_29_head_dim_is_not_hidden_size_over_heads() -> None:
    """Qwen3-0.6B: 1,024 / 16 = 64, and its heads are 128 wide."""
    shape = preset("qwen3-0.6b")
    assert shape.hidden_size // shape.num_heads == 64
    assert c.kv_bytes_per_token(shape).value == 2 * 28 * 8 * 128 * 2


def test_casebook_24_gb_is_not_gib_and_the_difference_decides() -> None:
    """14.96 GiB of weights are 16.06 GB: beside them a "16 GB" budget has room, or has not."""
    weights = c.weight_bytes(LLAMA)
    assert weights.to("GiB").value < 16 < weights.to("GB").value
    assert weights < Quantity(16, "GiB") and weights > Quantity(16, "GB")
    assert (Quantity(80, "GB").to("GiB").value, Quantity(1, "GiB") / Quantity(1, "GB")) == (pytest.approx(74.506, abs=1e-3), 1.073741824)


def test_casebook_24_128k_is_131_072_and_the_verdict_flips() -> None:
    """A pool of 16 GB holds one request of 128,000 tokens, and none of 131,072."""
    pool = Quantity(17, "GB")
    assert c.kv_bytes(LLAMA, 128_000) < pool < c.kv_bytes(LLAMA, 131_072)
    assert c.kv_bytes(LLAMA, 131_072).to("GiB") == 16 * Quantity(1, "GiB")


def test_casebook_24_units_of_different_kinds_never_add() -> None:
    with pytest.raises(UnitError):
        c.weight_bytes(LLAMA) + Quantity(1, "s")
    with pytest.raises(UserError):
        c.kv_bytes(LLAMA, Quantity(128, "KiB"))


def test_tensor_parallelism_beyond_the_kv_heads_stops_saving() -> None:
    assert [c.kv_bytes_per_token(LLAMA, tp=tp).value for tp in (1, 2, 4, 8, 16, 32)] == [131_072, 65_536, 32_768, 16_384, 16_384, 16_384]


def test_mla_is_not_divided_by_tensor_parallelism() -> None:
    deepseek = preset("deepseek-v3")
    assert c.kv_bytes_per_token(deepseek, tp=8) == c.kv_bytes_per_token(deepseek)


def test_sparsity_doubles_no_dense_peak() -> None:
    """NVIDIA's sheet for H100 prints 1,979 TFLOP/s in BF16 "with sparsity": the dense peak is half."""
    assert hw.h100_80gb.peak_flops("bf16").to("TFLOP/s").value == pytest.approx(1979 / 2, abs=0.2)


def test_a_70b_model_in_bf16_fits_no_80_gb_card_and_fits_two() -> None:
    with pytest.raises(DoesNotFitError, match=r"141\.1 GB"):
        c.kv_budget(hw.h100_80gb, preset("llama-3-70b"))
    assert c.kv_budget(hw.h100_80gb, preset("llama-3-70b"), tp=2) > Quantity(0, "B")


def test_active_parameters_are_neither_stored_nor_read_at_larger_batch() -> None:
    """Mixtral: 12.9 B active, 46.7 B stored, and at batch 16 nearly all of them read."""
    mixtral = preset("mixtral-8x7b")
    assert c.weight_bytes(mixtral).value == 2 * c.parameters(mixtral).value
    one, many = (c.decode_weight_bytes(mixtral, tokens=n).value for n in (1, 16))
    assert one < 2 * c.active_parameters(mixtral).value < many
    assert many > 0.98 * c.weight_bytes(mixtral).value
