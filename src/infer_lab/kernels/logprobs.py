"""Log-probabilities of chosen tokens without a softmax of the vocabulary in memory.

Why: `log_softmax` writes `[rows, vocabulary]` to read a handful of it. Here each chunk of a row leaves its maximum and its sum of
exponentials; a second, tiny launch merges them (in order, so the result is the same every time) and reads the chosen logits.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.kernels import _common
from infer_lab.kernels._common import cdiv, launch, next_power_of_2


@triton.jit
def _chunk_sums_kernel(logits, top, total, vocab, stride, CHUNKS: tl.constexpr, BLOCK: tl.constexpr):
    """Maximum and sum of exp(logit - maximum) of one chunk."""
    row = tl.program_id(1).to(tl.int64)
    chunk = tl.program_id(0)
    col = chunk * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(logits + row * stride + col, mask=col < vocab, other=float("-inf")).to(tl.float32)
    m = tl.max(x, 0)
    s = tl.sum(tl.exp(x - tl.where(m == float("-inf"), 0.0, m)), 0)
    tl.store(top + row * CHUNKS + chunk, m)
    tl.store(total + row * CHUNKS + chunk, s)


@triton.jit
def _gather_kernel(
    logits, top, total, token_ids, out, num_ids, stride, stride_ids, stride_out,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, IDS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, CHUNKS_POW2)
    m = tl.load(top + row * CHUNKS + c, mask=c < CHUNKS, other=float("-inf"))
    s = tl.load(total + row * CHUNKS + c, mask=c < CHUNKS, other=0.0)
    best = tl.max(m, 0)
    base = tl.where(best == float("-inf"), 0.0, best)
    lse = base + tl.log(tl.sum(s * tl.exp(m - base), 0))
    i = tl.arange(0, IDS)
    token = tl.load(token_ids + row * stride_ids + i, mask=i < num_ids, other=0).to(tl.int64)
    x = tl.load(logits + row * stride + token, mask=i < num_ids, other=0.0).to(tl.float32)
    tl.store(out + row * stride_out + i, x - lse, mask=i < num_ids)


def log_softmax_gather(logits: torch.Tensor, token_ids: torch.Tensor) -> torch.Tensor:
    """`logits [rows, vocabulary]` (any float dtype), `token_ids [rows, n]` → float32 `[rows, n]` natural log-probabilities.

    A token with logit -inf has log-probability -inf. A row without a finite logit has no distribution: NaN.
    """
    _common.target_of(logits.device)
    _common.require_unit_stride(logits=logits, token_ids=token_ids)
    rows, vocab = logits.shape
    n = token_ids.shape[1]
    out = torch.empty(rows, n, dtype=torch.float32, device=logits.device)
    if rows == 0 or n == 0:
        return out
    block = min(next_power_of_2(vocab), 8192)
    chunks = cdiv(vocab, block)
    top = torch.empty(rows, chunks, dtype=torch.float32, device=logits.device)
    total = torch.empty_like(top)
    launch(
        _chunk_sums_kernel, (chunks, rows), logits, top, total, vocab, logits.stride(0), CHUNKS=chunks, BLOCK=block,
        num_warps=max(1, min(8, block // 512)),
    )  # fmt: skip
    launch(
        _gather_kernel, (rows,), logits, top, total, token_ids, out, n, logits.stride(0), token_ids.stride(0), out.stride(0),
        CHUNKS=chunks, CHUNKS_POW2=next_power_of_2(chunks), IDS=next_power_of_2(n), num_warps=1,
    )  # fmt: skip
    return out
