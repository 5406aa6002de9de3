"""Activations to 8 bits, a scale for each row: what an FP8 or INT8 product needs before it starts, in one launch.

Why a kernel: written with torch operators it is eight launches (convert, magnitude, maximum, divide, …), each around a few kilobytes when
decoding; four products a layer make that a thousand launches a step. Here a program reads its row, finds the largest magnitude, and
writes integers and scale. A row wider than a block is read a second time, from the cache.

x `[rows, k]` of any float type, unit stride along k; q `[rows, k]` float8_e4m3fn or int8; scale `[rows]` float32, x = q * scale.
The same rounding as `pack.quantize_rows_fp8` and `pack.quantize_rows_int8`, which run on a CPU.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import FP8, FP8_MAX, INT8_MAX, launch, next_power_of_2

_WIDEST = 8192  # columns that a program holds at once


@triton.jit
def _quantize_rows_kernel(
    x_ptr, q_ptr, scale_ptr, stride_x, stride_q, WIDTH: tl.constexpr, BLOCK: tl.constexpr, LIMIT: tl.constexpr, ROUND: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    largest = tl.zeros([BLOCK], tl.float32)
    for start in tl.static_range(0, WIDTH, BLOCK):
        x = tl.load(x_ptr + row * stride_x + start + col, mask=start + col < WIDTH, other=0.0).to(tl.float32)
        largest = tl.maximum(largest, tl.abs(x))
    scale = tl.math.div_rn(tl.max(largest, 0), LIMIT)
    scale = tl.where(scale == 0.0, 1.0, scale)  # a row of zeros stays zeros
    tl.store(scale_ptr + row, scale)
    for start in tl.static_range(0, WIDTH, BLOCK):
        if WIDTH > BLOCK:
            x = tl.load(x_ptr + row * stride_x + start + col, mask=start + col < WIDTH, other=0.0).to(tl.float32)
        y = tl.minimum(tl.maximum(tl.math.div_rn(x, scale), -LIMIT), LIMIT)
        if ROUND:  # to nearest, ties to even: adding 1.5 * 2^23 leaves no bits below one
            y = (y + 12582912.0) - 12582912.0
        tl.store(q_ptr + row * stride_q + start + col, y.to(q_ptr.dtype.element_ty), mask=start + col < WIDTH)


def quantize_rows(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """(q, scale). UnsupportedHardwareError for FP8 on a GPU without it."""
    target = _common.target_of(x.device)
    if dtype not in (FP8, torch.int8):
        raise UserError(f"rows are quantized to float8_e4m3fn or int8, not {dtype}")
    if dtype == FP8:
        _common.require_fp8(target)
    _common.require_unit_stride(x=x)
    rows, width = x.shape
    q = torch.empty(rows, width, dtype=dtype, device=x.device)
    scale = torch.empty(rows, dtype=torch.float32, device=x.device)
    if rows and width:
        block = min(next_power_of_2(width), _WIDEST)
        launch(
            _quantize_rows_kernel, (rows,),
            x, q, scale, x.stride(0), q.stride(0), WIDTH=width, BLOCK=block, LIMIT=FP8_MAX if dtype == FP8 else INT8_MAX,
            ROUND=dtype == torch.int8, num_warps=min(max(1, block // 512), 8),
        )  # fmt: skip
    return q, scale
