"""Quantizing and packing: no value is lost, nothing divides by zero, bad sizes are refused by name."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.errors import QuantizationError
from infer_lab.kernels import pack


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    n=st.integers(1, 140), k=st.integers(1, 300), bits=st.sampled_from([4, 8]), group=st.sampled_from([32, 64, 128, None]),
    symmetric=st.booleans(), seed=st.integers(0, 9),
)  # fmt: skip
def test_unpacking_gives_back_every_integer_scale_and_zero(
    n: int, k: int, bits: int, group: int | None, symmetric: bool, seed: int
) -> None:
    weight = torch.randn(n, k, generator=torch.Generator().manual_seed(seed))
    quantized = pack.quantize_weight(weight, bits, group or (64 if bits == 4 else None), symmetric)
    back = pack.unpack_weight(pack.pack_weight(quantized))
    assert torch.equal(back.q, quantized.q) and torch.equal(back.scales, quantized.scales)
    assert (back.zeros is None and quantized.zeros is None) or torch.equal(back.zeros, quantized.zeros)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(bits=st.sampled_from([4, 8]), group=st.sampled_from([32, 64, 128]), symmetric=st.booleans(), shift=st.sampled_from([0.0, 3.0, -3.0]))
def test_no_weight_moves_by_more_than_half_a_step(bits: int, group: int, symmetric: bool, shift: float) -> None:
    weight = torch.randn(9, 200, generator=torch.Generator().manual_seed(1)) + shift
    quantized = pack.quantize_weight(weight, bits, group, symmetric, scale_dtype=torch.float32)
    step = quantized.scales.repeat_interleave(group, 1)[:, :200]
    # with zero points, rounding the zero itself may cost another half step at the ends of the range
    assert ((quantized.dequantize() - weight).abs() <= step * (0.501 if symmetric else 1.001)).all()


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_casebook_21_groups_of_zeros_and_tiny_values_give_zeros_not_nan(bits: int, symmetric: bool) -> None:
    weight = torch.randn(6, 256)
    weight[0] = 0
    weight[1, :128] = 0
    weight[2] = 1e-12  # the scale is 0 in float16
    quantized = pack.quantize_weight(weight, bits, 128, symmetric, scale_dtype=torch.float16)
    values = quantized.dequantize()
    assert torch.isfinite(values).all() and (quantized.scales > 0).all()
    assert (values[0] == 0).all() and (values[1, :128] == 0).all() and (values[2].abs() < 1e-6).all()


@pytest.mark.parametrize("quantize", [pack.quantize_rows_fp8, pack.quantize_rows_int8])
def test_casebook_21_rows_of_zeros_quantize_to_zeros_with_scale_one(quantize) -> None:
    x = torch.randn(3, 40)
    x[1] = 0
    q, scale = quantize(x)
    assert scale[1] == 1 and (q[1].float() == 0).all()
    assert torch.isfinite(q.float() * scale[:, None]).all()


@pytest.mark.parametrize("quantize, steps", [(pack.quantize_rows_fp8, 16), (pack.quantize_rows_int8, 254)])
def test_the_largest_value_of_a_row_is_kept_and_nothing_overflows(quantize, steps: int) -> None:
    x = torch.randn(8, 100) * torch.logspace(-30, 30, 8)[:, None]
    q, scale = quantize(x)
    back = q.float() * scale[:, None]
    assert torch.isfinite(back).all()
    assert ((back - x).abs().amax(1) <= x.abs().amax(1) / steps).all()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (dict(bits=3), "4 or 8 bits"),
        (dict(bits=4, group_size=None), "need a group_size"),
        (dict(bits=4, group_size=48), "group_size is one of"),
    ],
)
def test_what_cannot_be_quantized_is_refused_by_name(arguments: dict, words: str) -> None:
    with pytest.raises(QuantizationError, match=words):
        pack.quantize_weight(torch.ones(4, 128), **arguments)


def test_nan_in_a_weight_is_refused() -> None:
    with pytest.raises(QuantizationError, match="NaN"):
        pack.quantize_weight(torch.full((2, 64), float("nan")), 8)


@pytest.mark.parametrize("block_k", [96, 512, 4096])
def test_a_block_whose_planes_span_groups_is_refused(block_k: int) -> None:
    with pytest.raises(QuantizationError, match="planes"):
        pack.pack_weight(pack.quantize_weight(torch.randn(4, 128), 4, 64), block_k)
