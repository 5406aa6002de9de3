"""Row softmax in four ways: the same answer where nothing overflows, and three, four, three, then two passes over memory.

softmax(x)[j] = exp(x[j] - max) / sum_i exp(x[i] - max); the maximum is taken away first because exp(89) overflows float32.

0. `naive`: no maximum; sum and result, each a pass: 2 reads and 1 write, as online. NaN in a row where an exponential overflows.
1. `three_reads`: maximum, sum, result, each a pass: 3 reads and 1 write of the row.
2. `online`: maximum and sum in one pass (Milakov & Gimelshein, 2018): when the maximum grows, the old sum is scaled by
   exp(old - new). 2 reads and 1 write, for rows of any length. Flash attention is this trick applied to a product.
3. `fused`: the row fits in registers: 1 read and 1 write, the least there can be.

A row of -inf alone (every key masked) gives zeros, not NaN: nothing is subtracted from it and its sum of 0 is replaced by 1.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import UnsupportedOptionError
from infer_lab.kernels._common import launch, next_power_of_2

STAGES = ("naive", "three_reads", "online", "fused")
_FUSED_LIMIT = 65_536  # columns that one program holds


@triton.jit
def finite(peak):
    """What to subtract: the maximum, or 0 where there is none."""
    return tl.where(peak == float("-inf"), 0.0, peak)


@triton.jit
def naive_kernel(x, out, stride_x, stride_out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        total += tl.exp(v)
    norm = tl.sum(total, 0)
    norm = tl.where(norm == 0.0, 1.0, norm)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        tl.store(out + row * stride_out + start + at, (tl.exp(v) / norm).to(out.dtype.element_ty), mask=start + at < columns)


@triton.jit
def three_reads_kernel(x, out, stride_x, stride_out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    largest = tl.full([BLOCK], float("-inf"), tl.float32)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        largest = tl.maximum(largest, v)
    peak = finite(tl.max(largest, 0))
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        total += tl.exp(v - peak)
    norm = tl.sum(total, 0)
    norm = tl.where(norm == 0.0, 1.0, norm)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        tl.store(out + row * stride_out + start + at, (tl.exp(v - peak) / norm).to(out.dtype.element_ty), mask=start + at < columns)


@triton.jit
def online_kernel(x, out, stride_x, stride_out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    peak = tl.full((), float("-inf"), tl.float32)
    norm = tl.full((), 0.0, tl.float32)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(peak, tl.max(v, 0))
        norm = norm * tl.exp(peak - finite(higher)) + tl.sum(tl.exp(v - finite(higher)), 0)
        peak = higher
    peak = finite(peak)
    norm = tl.where(norm == 0.0, 1.0, norm)
    for start in range(0, columns, BLOCK):
        v = tl.load(x + row * stride_x + start + at, mask=start + at < columns, other=float("-inf")).to(tl.float32)
        tl.store(out + row * stride_out + start + at, (tl.exp(v - peak) / norm).to(out.dtype.element_ty), mask=start + at < columns)


@triton.jit
def fused_kernel(x, out, stride_x, stride_out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride_x + at, mask=at < columns, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - finite(tl.max(v, 0)))
    norm = tl.sum(e, 0)
    tl.store(out + row * stride_out + at, (e / tl.where(norm == 0.0, 1.0, norm)).to(out.dtype.element_ty), mask=at < columns)


def softmax(x: torch.Tensor, stage: str = "fused", block: int = 1024) -> torch.Tensor:
    """Softmax of each row of [rows, columns], summed in float32, in x's dtype. block: columns at a time in the stages that loop.

    Raises UnsupportedOptionError for an unknown stage, or for rows too long to be fused.
    """
    if stage not in STAGES:
        raise UnsupportedOptionError(f"softmax has the stages {', '.join(STAGES)}; got {stage!r}")
    rows, columns = x.shape
    if stage == "fused" and columns > _FUSED_LIMIT:
        raise UnsupportedOptionError(f"a row of {columns} columns does not fit one program ({_FUSED_LIMIT}): use stage 'online'")
    out = torch.empty_like(x)
    if not x.numel():
        return out
    kernel = {"naive": naive_kernel, "three_reads": three_reads_kernel, "online": online_kernel, "fused": fused_kernel}[stage]
    size = next_power_of_2(columns) if stage == "fused" else block
    launch(kernel, (rows,), x, out, x.stride(0), out.stride(0), columns, BLOCK=size, num_warps=min(16, max(1, size // 256)))
    return out


def bytes_moved(rows: int, columns: int, element_bytes: int, stage: str) -> int:
    """Bytes read and written where no pass finds the row in a cache."""
    passes = {"naive": 3, "three_reads": 4, "online": 3, "fused": 2}[stage]
    return passes * rows * columns * element_bytes
