"""W4A16: y = x wT with 4-bit weights in groups, unpacked between memory and the matrix unit.

Why: at decode a linear layer reads its whole weight for a handful of tokens, so time is bytes over bandwidth and 4-bit weights
have a quarter of the bytes. From 256 tokens on the layer is bound by arithmetic instead and the best that unpacking can do is cost nothing.

Two ways to apply the scales. Up to 32 tokens: integers (exact in bfloat16) go into the matrix unit, and each group's float32 sum is
scaled as it is added up: no rounding but the final one, and block_m multiplications per weight row and group. Above: weights are
scaled in their 16-bit dtype first (one rounding, what a dequantized checkpoint has), which costs the same for any batch. Weights with
minima (GGUF's Q4_1) always go that way: q * scale + minimum is one fused multiply-add for two weights.

x [m, k] bfloat16 or float16 (float32 too, without the bit tricks) of any strides; weight: PackedWeight; y [m, n] in x's dtype.
"""

# pyright: reportAssignmentType=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import QuantizationError
from infer_lab.kernels import _common
from infer_lab.kernels._common import cdiv, launch
from infer_lab.kernels._gemm import (
    GemmConfig,
    check_product,
    finish_tile,
    load_groups,
    partial_sums,
    weight_only_config,
)
from infer_lab.kernels._gemm import uses_ptx as may_use_ptx
from infer_lab.kernels._unpack import bias4, multiply, multiply_add, plane4, subtract
from infer_lab.kernels.pack import PackedWeight

SCALE_SUMS_UP_TO = 32  # tokens


@triton.jit(do_not_specialize=["M"])
def w4a16_kernel(
    x, w, scales, zeros, y, partials, locks, M, N, K, stride_xm, stride_xk, stride_ym, stride_yn, stride_group,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, PACK_K: tl.constexpr, GROUP: tl.constexpr,
    SPLIT_K: tl.constexpr, HAS_ZEROS: tl.constexpr, MINIMA: tl.constexpr, SCALE_WEIGHTS: tl.constexpr, EVEN_K: tl.constexpr,
    PTX: tl.constexpr,
):  # fmt: skip
    """One program: `[BLOCK_N, BLOCK_M]` of yT over every SPLIT_K-th part of K. Grid (n tiles * m tiles, SPLIT_K), m fastest.

    A step takes BLOCK_K columns: a whole packed block of PACK_K, or the same part of each of its four planes. zeros: minima, with MINIMA.
    """
    PLANE: tl.constexpr = PACK_K // 4  # columns of a plane in memory
    PART: tl.constexpr = BLOCK_K // 4  # and of those, how many a step takes
    PARTS: tl.constexpr = PACK_K // BLOCK_K
    GROUPS: tl.constexpr = PACK_K // GROUP if PACK_K > GROUP else 1  # groups in a block
    BLOCKS: tl.constexpr = GROUP // PACK_K if GROUP > PACK_K else 1  # blocks in a group
    PER_GROUP: tl.constexpr = 4 // GROUPS  # planes that share a scale
    DTYPE: tl.constexpr = x.dtype.element_ty
    tiles_m = tl.cdiv(M, BLOCK_M)
    tile = tl.program_id(0)
    split = tl.program_id(1)
    n = (tile // tiles_m).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = (tile % tiles_m).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.arange(0, PART)
    wide = tl.full((), 1, tl.int64)  # offsets are 64-bit
    blocks = tl.cdiv(K, PACK_K)
    share = tl.cdiv(blocks, SPLIT_K)
    first = split * share
    end = tl.minimum(first + share, blocks)

    stored = tl.minimum(n, stride_group - 1)  # rows past the last block read its last row; they are not stored
    w_at = w + ((stored // 64) * blocks * (64 * PLANE) + (stored % 64) * PLANE)[:, None] + column[None, :]
    x_at = x + m[None, :] * stride_xm + column[:, None].to(tl.int64) * stride_xk
    live = (m < M)[None, :]
    s_at = scales + stored
    if HAS_ZEROS:
        z_at = zeros + stored

    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    # Scales and zeros are no operands of the matrix product, so the compiler does not fetch them ahead: carry them one step by hand.
    scale = load_groups(s_at + tl.minimum(first, blocks - 1) * GROUPS // BLOCKS * wide * stride_group, stride_group, GROUPS)
    if HAS_ZEROS:
        zero = load_groups(z_at + tl.minimum(first, blocks - 1) * GROUPS // BLOCKS * wide * stride_group, stride_group, GROUPS)
    for step in range(first * PARTS, end * PARTS):
        block = step // PARTS
        part = step % PARTS * PART
        words = tl.load(w_at + (block * wide * (64 * PLANE) + part), eviction_policy="evict_first")
        following = tl.minimum((step + 1) // PARTS, end - 1)
        next_scale = load_groups(s_at + following * GROUPS // BLOCKS * wide * stride_group, stride_group, GROUPS)
        if HAS_ZEROS:
            next_zero = load_groups(z_at + following * GROUPS // BLOCKS * wide * stride_group, stride_group, GROUPS)
        x_step = x_at + (block * wide * PACK_K + part) * stride_xk
        sums = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        for j in tl.static_range(4):
            if EVEN_K:
                xj = tl.load(x_step + j * PLANE * stride_xk, mask=live, other=0.0)
            else:
                inside = block * PACK_K + part + j * PLANE + column < K
                xj = tl.load(x_step + j * PLANE * stride_xk, mask=live & inside[:, None], other=0.0)
            q = plane4(words, j, DTYPE, PTX)
            if MINIMA:
                q = subtract(q, tl.full([1, 1], bias4(DTYPE, PTX), DTYPE), PTX)
            elif HAS_ZEROS:
                q = subtract(q, (zero[j // PER_GROUP].to(tl.float32) + bias4(DTYPE, PTX)).to(DTYPE)[:, None], PTX)
            else:
                q = subtract(q, tl.full([1, 1], 8.0 + bias4(DTYPE, PTX), DTYPE), PTX)
            if MINIMA:
                q = multiply_add(q, scale[j // PER_GROUP].to(DTYPE)[:, None], zero[j // PER_GROUP].to(DTYPE)[:, None], PTX)
                acc = tl.dot(q, xj, acc, input_precision="ieee")
            elif SCALE_WEIGHTS:
                acc = tl.dot(multiply(q, scale[j // PER_GROUP].to(DTYPE)[:, None], PTX), xj, acc, input_precision="ieee")
            else:
                sums = tl.dot(q, xj, sums, input_precision="ieee")
                if (j + 1) % PER_GROUP == 0:
                    acc += sums * scale[j // PER_GROUP].to(tl.float32)[:, None]
                    sums = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
        scale = next_scale
        if HAS_ZEROS:
            zero = next_zero
    finish_tile(acc, 1.0, y, stride_ym, stride_yn, n, m, M, N, tile, split, partials, locks, SPLIT_K)


def w4a16(x: torch.Tensor, weight: PackedWeight, out: torch.Tensor | None = None, config: GemmConfig | None = None) -> torch.Tensor:
    """x [m, k] times the transpose of a packed 4-bit weight [n, k]: [m, n] in x's dtype.

    Raises QuantizationError for a weight of other bits, InvalidRequestError for shapes that do not fit, UnsupportedHardwareError on a
    device without Triton (there, use reference_gemm.weight_only).
    """
    if weight.bits != 4:
        raise QuantizationError(f"w4a16 needs 4-bit weights, this one has {weight.bits}: use w8a16")
    m, y = check_product(x, weight.n, weight.k, out)
    if m == 0:
        return y
    target = _common.target_of(x.device)
    c = config or weight_only_config(target, "w4a16", m, weight.n, weight.k, 4, weight.block_k, x.element_size())
    grid = (cdiv(weight.n, c.block_n) * cdiv(m, c.block_m), c.split_k)
    zeros = weight.zeros if weight.minima is None else weight.minima
    launch(
        w4a16_kernel, grid,
        x, weight.data, weight.scales, zeros, y, partial_sums(c, m, weight.n, x.device), weight.locks, m, weight.n, weight.k,
        x.stride(0), x.stride(1), y.stride(0), y.stride(1), weight.scales.shape[1],
        BLOCK_N=c.block_n, BLOCK_M=c.block_m, BLOCK_K=c.block_k, PACK_K=weight.block_k, GROUP=weight.group_size, SPLIT_K=c.split_k,
        HAS_ZEROS=zeros is not None, MINIMA=weight.minima is not None, SCALE_WEIGHTS=c.block_m > SCALE_SUMS_UP_TO,
        EVEN_K=weight.k % weight.block_k == 0, PTX=may_use_ptx(x), num_warps=c.num_warps, num_stages=c.num_stages,
    )  # fmt: skip
    return y
