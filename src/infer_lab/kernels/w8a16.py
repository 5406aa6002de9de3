"""W8A16: y = x wT with 8-bit weights, one scale per row or per group, unpacked between memory and the matrix unit.

Why: half the bytes of bfloat16 with next to no loss, without calibration; the safe first step before 4 bits. Every signed byte is
exact in bfloat16 and float16, so the products are those of the integers and the scale is applied to float32 sums: per row once at
the end, per group as each group ends (above 32 tokens, to the weights, with one rounding: see w4a16).

x [m, k] bfloat16 or float16 (float32 too, without the bit tricks) of any strides; weight: PackedWeight; y [m, n] in x's dtype.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import QuantizationError
from infer_lab.kernels import _common
from infer_lab.kernels._common import cdiv, launch
from infer_lab.kernels._gemm import GemmConfig, check_product, finish_tile, partial_sums, weight_only_config
from infer_lab.kernels._gemm import uses_ptx as may_use_ptx
from infer_lab.kernels._unpack import multiply, plane8, subtract
from infer_lab.kernels.pack import PackedWeight
from infer_lab.kernels.w4a16 import SCALE_SUMS_UP_TO


@triton.jit(do_not_specialize=["M"])
def w8a16_kernel(
    x, w, scales, zeros, y, partials, locks, M, N, K, stride_xm, stride_xk, stride_ym, stride_yn, stride_group,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr, SPLIT_K: tl.constexpr,
    HAS_ZEROS: tl.constexpr, SCALE_WEIGHTS: tl.constexpr, EVEN_K: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """One program: `[BLOCK_N, BLOCK_M]` of yT over every SPLIT_K-th part of K. GROUP 0: one scale (and zero) per row."""
    PLANE: tl.constexpr = BLOCK_K // 2
    DTYPE: tl.constexpr = x.dtype.element_ty
    tiles_m = tl.cdiv(M, BLOCK_M)
    tile = tl.program_id(0)
    split = tl.program_id(1)
    n = (tile // tiles_m).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = (tile % tiles_m).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.arange(0, PLANE)
    wide = tl.full((), 1, tl.int64)  # offsets are 64-bit
    blocks = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(blocks, SPLIT_K)
    first = split * share
    end = tl.minimum(first + share, blocks)

    stored = tl.minimum(n, stride_group - 1)
    w_at = w + ((stored // 64) * blocks * (64 * PLANE) + (stored % 64) * PLANE)[:, None] + column[None, :]
    x_at = x + m[None, :] * stride_xm + column[:, None].to(tl.int64) * stride_xk
    live = (m < M)[None, :]
    s_at = scales + stored
    if HAS_ZEROS:
        z_at = zeros + stored

    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    # Two planes, so at most two groups a step: their scales are carried one step ahead (nothing else would fetch them early).
    last = blocks - 1
    if GROUP == 0:
        scale_a = tl.load(s_at)
        scale_b = scale_a
        if HAS_ZEROS:
            zero_a = tl.load(z_at)
            zero_b = zero_a
    else:
        start = tl.minimum(first, last) * wide * BLOCK_K
        scale_a = tl.load(s_at + start // GROUP * stride_group)
        scale_b = tl.load(s_at + (start + PLANE) // GROUP * stride_group)
    for block in range(first, end):
        words = tl.load(w_at + block * wide * (64 * PLANE), eviction_policy="evict_first")
        if GROUP > 0:
            following = tl.minimum(block + 1, end - 1) * wide * BLOCK_K
            next_a = tl.load(s_at + following // GROUP * stride_group)
            next_b = tl.load(s_at + (following + PLANE) // GROUP * stride_group)
            if HAS_ZEROS:
                here = block * wide * BLOCK_K
                zero_a = tl.load(z_at + here // GROUP * stride_group)
                zero_b = tl.load(z_at + (here + PLANE) // GROUP * stride_group)
        a, b = plane8(words, 0, DTYPE, PTX), plane8(words, 1, DTYPE, PTX)
        if HAS_ZEROS:
            a = subtract(a, zero_a.to(DTYPE)[:, None], PTX)
            b = subtract(b, zero_b.to(DTYPE)[:, None], PTX)
        x_block = x_at + block * wide * BLOCK_K * stride_xk
        if EVEN_K:
            xa = tl.load(x_block, mask=live, other=0.0)
            xb = tl.load(x_block + PLANE * stride_xk, mask=live, other=0.0)
        else:
            at = block * BLOCK_K + column
            xa = tl.load(x_block, mask=live & (at < K)[:, None], other=0.0)
            xb = tl.load(x_block + PLANE * stride_xk, mask=live & (at + PLANE < K)[:, None], other=0.0)
        if GROUP == 0:
            acc = tl.dot(a, xa, acc, input_precision="ieee")
            acc = tl.dot(b, xb, acc, input_precision="ieee")
        elif SCALE_WEIGHTS:
            acc = tl.dot(multiply(a, scale_a.to(DTYPE)[:, None], PTX), xa, acc, input_precision="ieee")
            acc = tl.dot(multiply(b, scale_b.to(DTYPE)[:, None], PTX), xb, acc, input_precision="ieee")
        elif BLOCK_K <= GROUP:
            part = tl.dot(b, xb, tl.dot(a, xa, input_precision="ieee"), input_precision="ieee")
            acc += part * scale_a.to(tl.float32)[:, None]
        else:
            acc += tl.dot(a, xa, input_precision="ieee") * scale_a.to(tl.float32)[:, None]
            acc += tl.dot(b, xb, input_precision="ieee") * scale_b.to(tl.float32)[:, None]
        if GROUP > 0:
            scale_a = next_a
            scale_b = next_b
    if GROUP == 0:
        acc *= scale_a.to(tl.float32)[:, None]
    finish_tile(acc, 1.0, y, stride_ym, stride_yn, n, m, M, N, tile, split, partials, locks, SPLIT_K)


def w8a16(x: torch.Tensor, weight: PackedWeight, out: torch.Tensor | None = None, config: GemmConfig | None = None) -> torch.Tensor:
    """x [m, k] times the transpose of a packed 8-bit weight [n, k]: [m, n] in x's dtype.

    Raises QuantizationError for a weight of other bits, InvalidRequestError for shapes that do not fit, UnsupportedHardwareError on a
    device without Triton (there, use reference_gemm.weight_only).
    """
    if weight.bits != 8:
        raise QuantizationError(f"w8a16 needs 8-bit weights, this one has {weight.bits}: use w4a16")
    m, y = check_product(x, weight.n, weight.k, out)
    if m == 0:
        return y
    target = _common.target_of(x.device)
    c = config or weight_only_config(target, "w8a16", m, weight.n, weight.k, 8, weight.block_k, x.element_size())
    grid = (cdiv(weight.n, c.block_n) * cdiv(m, c.block_m), c.split_k)
    launch(
        w8a16_kernel, grid,
        x, weight.data, weight.scales, weight.zeros, y, partial_sums(c, m, weight.n, x.device), weight.locks, m, weight.n, weight.k,
        x.stride(0), x.stride(1), y.stride(0), y.stride(1), weight.scales.shape[1],
        BLOCK_N=c.block_n, BLOCK_M=c.block_m, BLOCK_K=weight.block_k, GROUP=0 if weight.per_row else weight.group_size, SPLIT_K=c.split_k,
        HAS_ZEROS=weight.zeros is not None, SCALE_WEIGHTS=c.block_m > SCALE_SUMS_UP_TO, EVEN_K=weight.k % weight.block_k == 0,
        PTX=may_use_ptx(x), num_warps=c.num_warps, num_stages=c.num_stages,
    )  # fmt: skip
    return y
