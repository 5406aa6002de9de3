"""Skinny GEMM: y = x wT for a few tokens, in 16-bit (or 32-bit) floats.

Why: at decode m is 1 to 16, the weight is read once and time is bytes over bandwidth; general matrix kernels, tuned for large
tiles, leave part of the bandwidth unused there. This one keeps many small reads in flight: narrow tiles, K split over programs.

x [m, k], w [n, k] of any strides (k contiguous is the fast case); y [m, n] in x's dtype. Correct for any m, meant for m <= 16.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels import _common
from infer_lab.kernels._common import Target, cdiv, launch
from infer_lab.kernels._gemm import GemmConfig, check_product, config_for, finish_tile, make_locks, narrow_block, partial_sums, split_for


@triton.jit(do_not_specialize=["M"])
def skinny_kernel(
    x, w, y, partials, locks, M, N, K, stride_xm, stride_xk, stride_wn, stride_wk, stride_ym, stride_yn,
    BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr, SPLIT_K: tl.constexpr, EVEN_K: tl.constexpr,
):  # fmt: skip
    """One program: `[BLOCK_N, BLOCK_M]` of yT over every SPLIT_K-th part of K. Grid (n tiles * m tiles, SPLIT_K)."""
    tiles_m = tl.cdiv(M, BLOCK_M)
    tile = tl.program_id(0)
    split = tl.program_id(1)
    n = (tile // tiles_m).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    m = (tile % tiles_m).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.arange(0, BLOCK_K)
    wide = tl.full((), 1, tl.int64)  # offsets are 64-bit
    blocks = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(blocks, SPLIT_K)
    first = split * share
    end = tl.minimum(first + share, blocks)
    w_at = w + tl.minimum(n, N - 1)[:, None] * stride_wn + column[None, :].to(tl.int64) * stride_wk  # rows past the end are not stored
    x_at = x + m[None, :] * stride_xm + column[:, None].to(tl.int64) * stride_xk
    live = (m < M)[None, :]
    acc = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    for block in range(first, end):
        at = block * wide * BLOCK_K
        if EVEN_K:
            wk = tl.load(w_at + at * stride_wk, eviction_policy="evict_first")
            xk = tl.load(x_at + at * stride_xk, mask=live, other=0.0)
        else:
            inside = block * BLOCK_K + column < K
            wk = tl.load(w_at + at * stride_wk, mask=inside[None, :], other=0.0, eviction_policy="evict_first")
            xk = tl.load(x_at + at * stride_xk, mask=live & inside[:, None], other=0.0)
        acc = tl.dot(wk, xk, acc, input_precision="ieee")
    finish_tile(acc, 1.0, y, stride_ym, stride_yn, n, m, M, N, tile, split, partials, locks, SPLIT_K)


def skinny_config(target: Target, m: int, n: int, k: int) -> GemmConfig:
    """The tuned launch for this device and shape, else a heuristic: tiles of 64 rows, K split until every SM has three programs."""
    found = config_for(target, "skinny_gemm", m, n, k)
    if found is not None:
        return GemmConfig(**found)
    block_m = narrow_block(m, 64)
    if target.interpreted:
        return GemmConfig(64, block_m, 64, 2 if m <= block_m and k > 64 else 1, 4, 2)
    stages = 4 if target.shared_memory > 120_000 else 3
    split = split_for(target, cdiv(n, 64), cdiv(k, 128)) if m <= block_m else 1
    return GemmConfig(64, block_m, 128, split, 4, stages)


def skinny_gemm(
    x: torch.Tensor, w: torch.Tensor, out: torch.Tensor | None = None, locks: torch.Tensor | None = None, config: GemmConfig | None = None
) -> torch.Tensor:
    """x [m, k] times the transpose of w [n, k]: [m, n] in x's dtype.

    locks: `make_locks(n, device)`, kept by the caller, one per stream; without it every call clears a fresh one (one more small kernel).
    Raises InvalidRequestError for shapes or dtypes that do not fit, UnsupportedHardwareError on a device without Triton.
    """
    if w.dim() != 2 or w.dtype != x.dtype:
        raise InvalidRequestError(f"the weight must be [n, k] in the activations' {x.dtype}; got {list(w.shape)} in {w.dtype}")
    n, k = w.shape
    m, y = check_product(x, n, k, out)
    if m == 0 or n == 0:
        return y
    c = config or skinny_config(_common.target_of(x.device), m, n, k)
    partials = partial_sums(c, m, n, x.device)
    if partials is not None and locks is None:
        locks = make_locks(n, x.device)
    grid = (cdiv(n, c.block_n) * cdiv(m, c.block_m), c.split_k)
    launch(
        skinny_kernel, grid,
        x, w, y, partials, locks, m, n, k, x.stride(0), x.stride(1), w.stride(0), w.stride(1), y.stride(0), y.stride(1),
        BLOCK_N=c.block_n, BLOCK_M=c.block_m, BLOCK_K=c.block_k, SPLIT_K=c.split_k, EVEN_K=k % c.block_k == 0,
        num_warps=c.num_warps, num_stages=c.num_stages,
    )  # fmt: skip
    return y
