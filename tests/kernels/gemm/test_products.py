"""Skinny, W8A16 and W4A16 products against float64, on awkward shapes and hostile memory. tests/gpu runs the same tests on a GPU.

Inputs are drawn on the CPU from seeds, so the interpreter and the GPU are held to the same answers (CASEBOOK 26: their verdicts differ
where a default differs, TF32 first of all).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from infer_lab.errors import InvalidRequestError, QuantizationError
from infer_lab.kernels import pack, reference_gemm
from infer_lab.kernels._gemm import GemmConfig, make_locks
from infer_lab.kernels.dequantize_weight import dequantize_weight
from infer_lab.kernels.skinny_gemm import skinny_gemm
from infer_lab.kernels.w4a16 import w4a16
from infer_lab.kernels.w8a16 import w8a16
from tests.kernels.gemm.products import assert_rounded_once, inside_nan, poisoned, relative_error, seeded

KERNELS = {4: w4a16, 8: w8a16}
GROUPS = [(4, 32), (4, 64), (4, 128), (8, 32), (8, 64), (8, 128), (8, None)]
TILES = [(4, 32, 128), (4, 64, 128), (4, 64, 256), (4, 128, 512), (8, 32, 64), (8, 64, 128), (8, 128, 256)]


def weight_of(
    n: int, k: int, bits: int, group: int | None, symmetric: bool, like: torch.Tensor, block_k: int | None = None
) -> pack.PackedWeight:
    """Scales of groups differ by powers of two, so that a neighbour's scale is a gross error; one row and one group are zeros."""
    w = seeded(n, k, dtype=torch.float32, device=torch.device("cpu"), seed=n + k) + 0.3
    w *= 2.0 ** (torch.arange(k) // 32 % 5)[None, :] * 2.0 ** (torch.arange(n) % 3)[:, None]
    w[n // 2] = 0
    w[0, : min(k, 32)] = 0
    return pack.pack_weight(pack.quantize_weight(w, bits, group, symmetric, scale_dtype=like.dtype), block_k).to(like.device)


@pytest.mark.parametrize("m, n, k", [(1, 70, 300), (5, 64, 128), (16, 33, 161), (1, 1, 1)])
def test_skinny_product_is_rounded_once(m: int, n: int, k: int, device: torch.device, dtype: torch.dtype) -> None:
    x, w = inside_nan(seeded(m, k, dtype=dtype, device=device)), inside_nan(seeded(n, k, dtype=dtype, device=device, seed=1))
    assert_rounded_once(skinny_gemm(x, w, out=poisoned(m, n, dtype, device)), reference_gemm.dense(x, w, torch.float64))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits, group", GROUPS)
@pytest.mark.parametrize("m, n, k", [(1, 70, 300), (6, 130, 256)])
def test_weight_only_product_is_rounded_once(
    bits: int, group: int | None, symmetric: bool, m: int, n: int, k: int, device: torch.device, dtype: torch.dtype
) -> None:
    x = inside_nan(seeded(m, k, dtype=dtype, device=device))
    weight = weight_of(n, k, bits, group, symmetric, x)
    assert_rounded_once(KERNELS[bits](x, weight, out=poisoned(m, n, dtype, device)), reference_gemm.weight_only(x, weight, torch.float64))


@pytest.mark.parametrize(
    "bits, group, block_k", [(4, 32, 128), (4, 64, 128), (4, 64, 256), (4, 128, 512), (8, 32, 64), (8, 64, 128), (8, 128, 256)]
)
def test_casebook_21_each_group_has_its_own_scale_whatever_the_tile(
    bits: int, group: int, block_k: int, device: torch.device, dtype: torch.dtype
) -> None:
    x = seeded(3, 600, dtype=dtype, device=device)
    weight = weight_of(40, 600, bits, group, False, x, block_k)
    assert_rounded_once(KERNELS[bits](x, weight), reference_gemm.weight_only(x, weight, torch.float64))


@pytest.mark.parametrize("bits, group", [(4, 64), (8, 128), (8, None)])
def test_above_32_tokens_weights_are_rounded_to_the_dtype_first(
    bits: int, group: int | None, device: torch.device, dtype: torch.dtype
) -> None:
    x = seeded(70, 300, dtype=dtype, device=device)
    weight = weight_of(66, 300, bits, group, True, x)
    config = GemmConfig(64, 64, weight.block_k, num_stages=1)
    w = pack.unpack_weight(weight)
    scaled = w.dequantize(torch.float64) if group is None else w.dequantize(torch.float64).to(dtype)
    assert_rounded_once(KERNELS[bits](x, weight, config=config), reference_gemm.dense(x, scaled, torch.float64))


@pytest.mark.parametrize("m, block_k", [(1, 64), (6, 128), (70, 128)])
def test_weights_with_minima_are_rounded_to_the_dtype_once(m: int, block_k: int, device: torch.device, dtype: torch.dtype) -> None:
    """GGUF's Q4_1: scale and minimum in float16, as the file has them."""
    x = seeded(m, 480, dtype=dtype, device=device)
    q = torch.randint(0, 16, (66, 480), generator=torch.Generator().manual_seed(m), dtype=torch.uint8)
    scales, minima = (seeded(66, 15, dtype=torch.float16, device=torch.device("cpu"), seed=seed) for seed in (m + 1, m + 2))
    weight = pack.pack_weight(pack.QuantizedWeight(q, scales, None, 32, 4, minima), block_k).to(device)
    assert torch.equal(
        pack.unpack_weight(weight).dequantize().cpu(), q * scales.float().repeat_interleave(32, 1) + minima.float().repeat_interleave(32, 1)
    )
    one = pack.QuantizedWeight(q, scales.to(dtype), None, 32, 4, minima.to(dtype))
    expected = reference_gemm.dense(x, one.dequantize(torch.float64).to(dtype).to(device), torch.float64)
    assert_rounded_once(w4a16(x, weight), expected)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits, group", GROUPS)
@pytest.mark.parametrize("n, k", [(70, 300), (64, 256), (1, 17)])
def test_a_dequantized_weight_is_each_value_rounded_once(
    bits: int, group: int | None, symmetric: bool, n: int, k: int, device: torch.device, dtype: torch.dtype
) -> None:
    weight = weight_of(n, k, bits, group, symmetric, torch.empty(0, dtype=dtype, device=device))
    expected = pack.unpack_weight(weight).dequantize(torch.float64).to(dtype)
    assert torch.equal(dequantize_weight(weight, poisoned(n, k, dtype, device)), expected)


def test_a_dequantized_weight_with_minima_is_rounded_once(device: torch.device, dtype: torch.dtype) -> None:
    q = torch.randint(0, 16, (66, 480), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    scales, minima = (seeded(66, 15, dtype=torch.float16, device=torch.device("cpu"), seed=seed) for seed in (1, 2))
    weight = pack.pack_weight(pack.QuantizedWeight(q, scales, None, 32, 4, minima), 128).to(device)
    expected = pack.unpack_weight(weight).dequantize(torch.float64)
    assert_rounded_once(dequantize_weight(weight, poisoned(66, 480, dtype, device)), expected)


def test_a_weight_is_not_dequantized_into_memory_of_another_shape(device: torch.device) -> None:
    weight = weight_of(64, 32, 8, 32, True, torch.empty(0, device=device))
    for wrong in (torch.empty(64, 33, device=device), torch.empty(32, 64, device=device).t()):
        with pytest.raises(InvalidRequestError, match="must be contiguous and"):
            dequantize_weight(weight, wrong)


@pytest.mark.parametrize("block_k", [64, 128])
@pytest.mark.parametrize("group, symmetric", [(64, True), (128, False)])
def test_a_step_may_take_a_part_of_a_packed_block(
    block_k: int, group: int, symmetric: bool, device: torch.device, dtype: torch.dtype
) -> None:
    x = seeded(4, 400, dtype=dtype, device=device)
    weight = weight_of(70, 400, 4, group, symmetric, x, 256)
    config = GemmConfig(64, 16, block_k, split_k=2, num_stages=1)
    assert_rounded_once(w4a16(x, weight, config=config), reference_gemm.weight_only(x, weight, torch.float64))


@pytest.mark.parametrize("split_k", [1, 2, 4, 8])
def test_split_k_adds_every_part_once_even_empty_ones_and_leaves_the_locks_at_zero(
    split_k: int, device: torch.device, dtype: torch.dtype
) -> None:
    x, w = seeded(3, 320, dtype=dtype, device=device), seeded(70, 320, dtype=dtype, device=device, seed=1)
    locks = make_locks(70, device)
    config = GemmConfig(64, 16, 64, split_k=split_k, num_stages=2)
    first, second = (skinny_gemm(x, w, out=poisoned(3, 70, dtype, device), locks=locks, config=config) for _ in range(2))
    assert_rounded_once(first, reference_gemm.dense(x, w, torch.float64))
    assert torch.equal(first, second)
    assert not locks.any()


@pytest.mark.parametrize("bits", [4, 8])
def test_split_k_of_packed_weights_leaves_the_locks_at_zero(bits: int, device: torch.device, dtype: torch.dtype) -> None:
    x = seeded(2, 700, dtype=dtype, device=device)
    weight = weight_of(70, 700, bits, 128, True, x)
    config = GemmConfig(64, 16, weight.block_k, split_k=4, num_stages=2)
    assert_rounded_once(KERNELS[bits](x, weight, config=config), reference_gemm.weight_only(x, weight, torch.float64))
    assert not weight.locks.any()


def test_transposed_and_strided_operands_need_no_copy(device: torch.device, dtype: torch.dtype) -> None:
    x, w = seeded(130, 5, dtype=dtype, device=device).T, seeded(130, 66, dtype=dtype, device=device, seed=1).T
    out = torch.full((66, 5), float("nan"), dtype=dtype, device=device).T
    assert skinny_gemm(x, w, out=out) is out
    assert_rounded_once(out, reference_gemm.dense(x, w, torch.float64))
    weight = weight_of(66, 130, 4, 64, True, x)
    assert_rounded_once(w4a16(x, weight), reference_gemm.weight_only(x, weight, torch.float64))


def test_casebook_13_offsets_beyond_32_bits(device: torch.device) -> None:
    # rows 2**31 elements apart: only the few pages that hold them are ever touched
    apart = 2**31 + 64
    w = torch.empty_strided((2, 64), (apart, 1), dtype=torch.float16, device=device)
    out = torch.empty_strided((2, 2), (apart, 1), dtype=torch.float16, device=device)
    w.copy_(seeded(2, 64, dtype=torch.float16, device=device))
    x = seeded(2, 64, dtype=torch.float16, device=device, seed=1)
    expected = reference_gemm.dense(x, w, torch.float64)
    assert_rounded_once(skinny_gemm(x, w, out=out), expected)
    assert_rounded_once(skinny_gemm(w, x), expected.T)
    weight = weight_of(2, 64, 4, 64, True, w)
    assert_rounded_once(w4a16(w, weight), reference_gemm.weight_only(w, weight, torch.float64))


def test_casebook_26_float32_is_float32_not_tf32(device: torch.device) -> None:
    x, w = seeded(4, 512, dtype=torch.float32, device=device), seeded(64, 512, dtype=torch.float32, device=device, seed=1)
    expected = reference_gemm.dense(x, w, torch.float64)
    assert relative_error(skinny_gemm(x, w), expected) < 2e-6
    tf32 = ((x.view(torch.int32) & -8192).view(torch.float32)) @ w.T  # 10 bits of fraction
    assert relative_error(tf32, expected) > 1e-4  # what the line above would have to be to pass


def test_results_are_the_same_bits_every_time(device: torch.device, dtype: torch.dtype) -> None:
    x = seeded(3, 512, dtype=dtype, device=device)
    weight = weight_of(64, 512, 4, 128, False, x)
    config = GemmConfig(64, 16, weight.block_k, split_k=2, num_stages=2)
    assert torch.equal(w4a16(x, weight, config=config), w4a16(x, weight, config=config))


def test_no_tokens_give_an_empty_result(device: torch.device, dtype: torch.dtype) -> None:
    x = torch.empty(0, 128, dtype=dtype, device=device)
    assert w4a16(x, weight_of(64, 128, 4, 128, True, x)).shape == (0, 64)
    assert skinny_gemm(x, torch.empty(7, 128, dtype=dtype, device=device)).shape == (0, 7)


def test_shapes_dtypes_and_bits_that_do_not_fit_are_named(device: torch.device) -> None:
    x = torch.zeros(2, 100, dtype=torch.float16, device=device)
    weight = weight_of(8, 128, 4, 128, True, x)
    with pytest.raises(InvalidRequestError, match=r"\[m, 128\]"):
        w4a16(x, weight)
    with pytest.raises(InvalidRequestError, match="out"):
        w4a16(x[:, :1].expand(2, 128), weight, out=x)
    with pytest.raises(QuantizationError, match="use w4a16"):
        w8a16(x, weight)
    with pytest.raises(QuantizationError, match="use w8a16"):
        w4a16(x, replace(weight, bits=8))
    with pytest.raises(InvalidRequestError, match="float32"):
        skinny_gemm(x, torch.zeros(3, 100, device=device))
