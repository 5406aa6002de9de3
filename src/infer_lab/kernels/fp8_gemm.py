"""FP8 W8A8: y = (x * x_scale) (w * w_scale)T in float8_e4m3fn with one scale per row on both sides, summed in float32 every 128 columns.

Why: twice bfloat16's matrix rate and half its bytes, for prefill and decode alike, on chips that have it (sm_89 and newer).
Rowwise scales (one per token, one per output channel) factor out of the sum, so they cost one multiplication per result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels import _common
from infer_lab.kernels._common import FP8, Target
from infer_lab.kernels._gemm import GemmConfig, config_for, make_locks, partial_sums, split_for
from infer_lab.kernels._w8a8 import bulk_copies_work, w8a8_kernel


@dataclass(frozen=True, slots=True)
class W8A8Config:
    """block_a rows of the taller operand by block_b of the other; bulk and specialize as in `_w8a8`; persistent: programs per SM, 0 off."""

    block_a: int
    block_b: int
    block_k: int = 128
    split_k: int = 1
    num_warps: int = 8
    num_stages: int = 3
    bulk: bool = False
    specialize: bool = False
    persistent: int = 0
    band: int = 8


def w8a8_config(target: Target, kernel: str, m: int, n: int, k: int) -> W8A8Config:
    """The tuned launch for this device and shape, else a heuristic by batch size and the chip's shared memory."""
    found = config_for(target, kernel, m, n, k)
    if found is not None:
        return W8A8Config(**found)
    if target.interpreted:
        return W8A8Config(64, 16 if min(m, n) <= 16 else 64, 64, split_k=2 if min(m, n) <= 16 and k > 64 else 1)
    narrow = min(max(16, triton.next_power_of_2(min(m, n))), 128)
    if narrow < 128:
        split = split_for(target, triton.cdiv(max(m, n), 64), triton.cdiv(k, 128)) if min(m, n) <= narrow else 1
        return W8A8Config(64, narrow, split_k=split, num_warps=4)
    if target.capability == (9, 0):
        return W8A8Config(128, 128, num_warps=4, num_stages=4, bulk=True, specialize=True)
    return W8A8Config(128, 64 if target.shared_memory < 120_000 else 128, num_warps=4 if target.shared_memory < 120_000 else 8)


def w8a8_product(
    kernel: str, x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, out: torch.Tensor | None,
    out_dtype: torch.dtype, locks: torch.Tensor | None, config: W8A8Config | None,
) -> torch.Tensor:  # fmt: skip
    """What FP8 and INT8 share: checks, the choice of the left operand, the launch."""
    if x.dim() != 2 or w.dim() != 2 or x.shape[1] != w.shape[1]:
        raise InvalidRequestError(f"x {list(x.shape)} and w {list(w.shape)} must be [m, k] and [n, k] with the same k")
    (m, k), n = x.shape, w.shape[0]
    if x_scale.shape != (m,) or w_scale.shape != (n,):
        raise InvalidRequestError(
            f"one scale per row: x_scale must be [{m}] and w_scale [{n}]; got {list(x_scale.shape)}, {list(w_scale.shape)}"
        )
    if (x.stride(1) != 1 and k > 1) or (w.stride(1) != 1 and k > 1):
        raise InvalidRequestError("rows of x and w must be contiguous in k: call .contiguous() where they are quantized")
    y = torch.empty(m, n, dtype=out_dtype, device=x.device) if out is None else out
    if y.shape != (m, n):
        raise InvalidRequestError(f"out {list(y.shape)} must be [{m}, {n}]")
    if m == 0 or n == 0:
        return y
    target = _common.target_of(x.device)
    c = config or w8a8_config(target, kernel, m, n, k)
    swap = n > m
    a, b, scale_a, scale_b = (w, x, w_scale, x_scale) if swap else (x, w, x_scale, w_scale)
    strides: tuple[Any, Any] = (y.stride(1), y.stride(0)) if swap else (y.stride(0), y.stride(1))
    bulk = c.bulk and bulk_copies_work(a, b)
    if bulk:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=x.device, dtype=torch.int8))
    tiles = triton.cdiv(a.shape[0], c.block_a) * triton.cdiv(b.shape[0], c.block_b)
    programs = min(tiles, c.persistent * target.num_sms)
    sums = torch.int32 if x.dtype == torch.int8 else torch.float32
    partials = partial_sums(GemmConfig(c.block_a, c.block_b, c.block_k, c.split_k), b.shape[0], a.shape[0], x.device, sums)
    if partials is not None and locks is None:
        locks = make_locks(a.shape[0], x.device)
    w8a8_kernel[(programs or tiles, c.split_k)](
        a, b, scale_a, scale_b, y, partials, locks, a.shape[0], b.shape[0], k, a.stride(0), b.stride(0), *strides,
        BLOCK_A=c.block_a, BLOCK_B=c.block_b, BLOCK_K=c.block_k, BAND=c.band, SPLIT_K=c.split_k, PROMOTE=min(128, c.block_k), BULK=bulk,
        WARP_SPECIALIZE=c.specialize and bulk, PROGRAMS=programs, UPCAST=target.interpreted,
        num_warps=c.num_warps if bulk or not c.specialize else 8, num_stages=c.num_stages,
    )  # fmt: skip
    return y


def fp8_gemm(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, out: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16, locks: torch.Tensor | None = None, config: W8A8Config | None = None,
) -> torch.Tensor:  # fmt: skip
    """x [m, k] and w [n, k] in float8_e4m3fn, x_scale [m] and w_scale [n] float32: [m, n] in out_dtype.

    Raises UnsupportedHardwareError below sm_89 (use int8_gemm there: same bytes, same scales), InvalidRequestError for shapes or dtypes.
    locks: as in skinny_gemm.
    """
    _common.require_fp8(_common.target_of(x.device))
    if x.dtype != FP8 or w.dtype != FP8:
        raise InvalidRequestError(f"fp8_gemm multiplies float8_e4m3fn; got {x.dtype} and {w.dtype}: quantize with pack.quantize_rows_fp8")
    return w8a8_product("fp8_gemm", x, x_scale, w, w_scale, out, out_dtype, locks, config)
