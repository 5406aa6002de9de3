"""Tiled matrix product with 1, 2, 3 or more stages: reuse by tiles, and copies that run ahead of the arithmetic.

A tile of the result [BLOCK_M, BLOCK_N] reads BLOCK_M + BLOCK_N values per column of K and does BLOCK_M * BLOCK_N multiply-adds: the reuse
grows with the tile. With one stage the matrix unit waits for every tile to arrive. With S stages, tiles of the next S - 1 steps are on
their way (cp.async into shared memory) while one is multiplied, at the cost of S times the shared memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels._common import cdiv, launch


@triton.jit
def tiled_matmul_kernel(
    a, b, c, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, STAGES: tl.constexpr,
):  # fmt: skip
    m = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K).to(tl.int64)
    a_at = a + m[:, None] * stride_am + k[None, :] * stride_ak
    b_at = b + k[:, None] * stride_bk + n[None, :] * stride_bn
    total = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for start in tl.range(0, K, BLOCK_K, num_stages=STAGES):
        a_tile = tl.load(a_at, mask=(m < M)[:, None] & (start + k < K)[None, :], other=0.0)
        b_tile = tl.load(b_at, mask=(start + k < K)[:, None] & (n < N)[None, :], other=0.0)
        total = tl.dot(a_tile, b_tile, total, input_precision="ieee")
        a_at += BLOCK_K * stride_ak
        b_at += BLOCK_K * stride_bk
    inside = (m < M)[:, None] & (n < N)[None, :]
    tl.store(c + m[:, None] * stride_cm + n[None, :] * stride_cn, total.to(c.dtype.element_ty), mask=inside)


def tiled_matmul(
    a: torch.Tensor, b: torch.Tensor, stages: int = 3, block_m: int = 128, block_n: int = 128, block_k: int = 64, num_warps: int = 8
) -> torch.Tensor:
    """a [m, k] times b [k, n], summed in float32, in a's dtype. Any strides.

    Shared memory: about stages * (block_m + block_n) * block_k elements. Raises InvalidRequestError where shapes do not fit.
    """
    if a.dim() != 2 or b.dim() != 2 or a.shape[1] != b.shape[0] or a.dtype != b.dtype:
        raise InvalidRequestError(f"a {list(a.shape)} and b {list(b.shape)} must be [m, k] and [k, n] of one dtype")
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    if m and n:
        launch(
        tiled_matmul_kernel, (cdiv(m, block_m), cdiv(n, block_n)),
            a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(),
            BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, STAGES=stages, num_warps=num_warps,
        )  # fmt: skip
    return c
