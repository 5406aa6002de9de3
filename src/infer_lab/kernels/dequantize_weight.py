"""A packed weight back to floats, in one pass: what a product over many tokens multiplies by.

Why: unpacking inside a product pays while the weight's bytes are what takes the time. Over many tokens arithmetic takes it, and a
product that unpacks each tile again for every 128 of them is slower than one in 16 bits (`benchmarks/gemm_notes.md`). Then it is cheaper
to unpack the layer once, into memory that the next layer uses again, and let cuBLAS multiply. (AWQ's and GPTQ's engines do the same.)

weight: PackedWeight of 4 or 8 bits; out [n, k] contiguous, bfloat16, float16 or float32, each value rounded once.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels._common import cdiv, launch
from infer_lab.kernels.pack import ROWS_PER_BLOCK, PackedWeight


@triton.jit
def _dequantize_weight_kernel(
    words, scales, zeros, out, N, K, stride_group,
    ROWS: tl.constexpr, BITS: tl.constexpr, PACK_K: tl.constexpr, GROUP: tl.constexpr, HAS_ZEROS: tl.constexpr, MINIMA: tl.constexpr,
):  # fmt: skip
    """One program: one packed block of ROWS × PACK_K. Grid (blocks of columns, blocks of rows). zeros: minima, with MINIMA."""
    PLANES: tl.constexpr = 16 // BITS
    PLANE: tl.constexpr = PACK_K // PLANES
    block, row_block = tl.program_id(0), tl.program_id(1)
    row, column = tl.arange(0, ROWS), tl.arange(0, PLANE)
    n = row_block.to(tl.int64) * ROWS + row
    at = (row_block.to(tl.int64) * tl.num_programs(0) + block) * (ROWS * PLANE)
    word = tl.load(words + at + row[:, None] * PLANE + column[None, :], eviction_policy="evict_first").to(tl.int32)
    for j in tl.static_range(PLANES):
        k = block * PACK_K + j * PLANE  # the plane's first column: all of them are in one group
        group = k // GROUP * tl.full((), 1, tl.int64) * stride_group
        scale = tl.load(scales + group + n, mask=k < K, other=0.0).to(tl.float32)[:, None]
        shifted = word >> (BITS * j)
        q = ((shifted & 15) if BITS == 4 else shifted.to(tl.int8)).to(tl.float32)
        if MINIMA:
            value = q * scale + tl.load(zeros + group + n, mask=k < K, other=0.0).to(tl.float32)[:, None]
        elif HAS_ZEROS:
            value = (q - tl.load(zeros + group + n, mask=k < K, other=0).to(tl.float32)[:, None]) * scale
        else:
            value = (q - (8.0 if BITS == 4 else 0.0)) * scale
        inside = (n < N)[:, None] & (k + column < K)[None, :]
        tl.store(out + n[:, None] * K + (k + column)[None, :], value.to(out.dtype.element_ty), mask=inside)


def dequantize_weight(weight: PackedWeight, out: torch.Tensor) -> torch.Tensor:
    """Fills out and returns it. Raises InvalidRequestError where it is not [n, k] and contiguous."""
    if out.shape != (weight.n, weight.k) or not out.is_contiguous():
        raise InvalidRequestError(f"out {list(out.shape)} must be contiguous and [{weight.n}, {weight.k}], the shape of the weight")
    zeros = weight.zeros if weight.minima is None else weight.minima
    launch(
        _dequantize_weight_kernel, (cdiv(weight.k, weight.block_k), cdiv(weight.n, ROWS_PER_BLOCK)),
        weight.data, weight.scales, zeros, out, weight.n, weight.k, weight.scales.shape[1],
        ROWS=ROWS_PER_BLOCK, BITS=weight.bits, PACK_K=weight.block_k, GROUP=weight.group_size, HAS_ZEROS=zeros is not None,
        MINIMA=weight.minima is not None, num_warps=4,
    )  # fmt: skip
    return out
