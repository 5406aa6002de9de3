"""The 8-bit by 8-bit matrix product behind FP8 and INT8 W8A8: C = scale_a[:, None] * scale_b[None, :] * (A BT).

Rows of A and of B are both contiguous in k, as activations and weights are stored. Whichever is the taller stands on the left, so a
few tokens do not waste the 64-row side of the matrix unit: the caller swaps A with B and the strides of the result with them.

Two ways to fetch tiles: pointers (any chip, any stride of rows), and on sm_90 the bulk copy engine through tensor descriptors, where
one warp issues the copies and, with WARP_SPECIALIZE, two groups of four warps each multiply half of the tile's rows, so one adds up while
the other multiplies.

FP8 sums need help on Hopper: its matrix unit keeps about 14 bits of a running FP8 sum. PROMOTE = 128 moves the sum of every 128 columns to
a float32 register by an ordinary addition (DeepSeek-V3 technical report, 3.3.2; DeepGEMM).
"""

# pyright: reportAssignmentType=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels import _common
from infer_lab.kernels._common import Target, cdiv, launch, next_power_of_2
from infer_lab.kernels._gemm import GemmConfig, config_for, finish_tile, make_locks, partial_sums, split_for


@triton.jit(do_not_specialize=["A", "B"])
def w8a8_kernel(
    a, b, scale_a, scale_b, y, partials, locks, A, B, K, stride_a, stride_b, stride_ya, stride_yb,
    BLOCK_A: tl.constexpr, BLOCK_B: tl.constexpr, BLOCK_K: tl.constexpr, BAND: tl.constexpr, SPLIT_K: tl.constexpr,
    PROMOTE: tl.constexpr, BULK: tl.constexpr, WARP_SPECIALIZE: tl.constexpr, PROGRAMS: tl.constexpr, UPCAST: tl.constexpr,
):  # fmt: skip
    """Grid (programs, SPLIT_K). Tiles go in bands of BAND tile rows (neighbours share A and B in the L2), dealt out PROGRAMS apart.

    a [A, K], b [B, K]; y at (row of a, row of b) * (stride_ya, stride_yb). PROGRAMS 0: one tile per program. UPCAST: for the interpreter.
    """
    ACC: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    tiles_a = tl.cdiv(A, BLOCK_A)
    tiles_b = tl.cdiv(B, BLOCK_B)
    split = tl.program_id(1)
    steps = tl.cdiv(K, BLOCK_K)
    share = tl.cdiv(steps, SPLIT_K)
    first = split * share
    end = tl.minimum(first + share, steps)
    if BULK:
        a_tiles = tl.make_tensor_descriptor(a, [A, K], [stride_a, 1], [BLOCK_A, BLOCK_K])
        b_tiles = tl.make_tensor_descriptor(b, [B, K], [stride_b, 1], [BLOCK_B, BLOCK_K])
    stride_tile = tiles_a * tiles_b if PROGRAMS == 0 else PROGRAMS
    for tile in tl.range(tl.program_id(0), tiles_a * tiles_b, stride_tile, flatten=False):
        band = tile // (BAND * tiles_b)
        rows = tl.minimum(tiles_a - band * BAND, BAND)
        place = tile - band * (BAND * tiles_b)
        tile_a = band * BAND + place % rows
        tile_b = place // rows
        acc = tl.zeros([BLOCK_A, BLOCK_B], ACC)
        ia = tl.full((), BLOCK_A, tl.int64) * tile_a + tl.arange(0, BLOCK_A)
        ib = tl.full((), BLOCK_B, tl.int64) * tile_b + tl.arange(0, BLOCK_B)
        if BULK:
            for step in tl.range(first, end, warp_specialize=WARP_SPECIALIZE):
                at = a_tiles.load([tile_a * BLOCK_A, step * BLOCK_K])
                bt = b_tiles.load([tile_b * BLOCK_B, step * BLOCK_K])
                if tl.int32 == ACC:
                    acc = tl.dot(at, bt.T, acc, out_dtype=tl.int32)
                else:
                    acc = tl.dot(at, bt.T, acc, max_num_imprecise_acc=PROMOTE)
        else:
            column = tl.arange(0, BLOCK_K)
            a_at = a + tl.minimum(ia, A - 1)[:, None] * stride_a + column[None, :]
            b_at = b + tl.minimum(ib, B - 1)[None, :] * stride_b + column[:, None]
            for step in range(first, end):
                inside = step * BLOCK_K + column < K
                at = tl.load(a_at + step * BLOCK_K, mask=inside[None, :], other=0.0)
                bt = tl.load(b_at + step * BLOCK_K, mask=inside[:, None], other=0.0)
                if UPCAST:
                    acc += tl.dot(at.to(tl.float32), bt.to(tl.float32), input_precision="ieee").to(ACC)
                elif tl.int32 == ACC:
                    acc = tl.dot(at, bt, acc, out_dtype=tl.int32)
                else:
                    acc = tl.dot(at, bt, acc, max_num_imprecise_acc=PROMOTE)
        sa = tl.load(scale_a + ia, mask=ia < A, other=0.0)
        sb = tl.load(scale_b + ib, mask=ib < B, other=0.0)
        finish_tile(acc, sa[:, None] * sb[None, :], y, stride_yb, stride_ya, ia, ib, B, A, tile, split, partials, locks, SPLIT_K)


def bulk_copies_work(*tensors: torch.Tensor) -> bool:
    """The copy engine wants 16-byte rows: base addresses and row strides that are multiples of 16, and k contiguous."""
    return all(t.data_ptr() % 16 == 0 and t.stride(0) * t.element_size() % 16 == 0 and t.stride(1) == 1 for t in tensors)


@dataclass(frozen=True, slots=True)
class W8A8Config:
    """Tile of one program: block_a rows of the taller operand by block_b of the other.

    bulk, specialize: as above. hopper: the kernel with explicit warp roles (FP8 alone), where the operands allow it.
    persistent: programs per SM, each walking over many tiles; 0 means one tile a program.
    """

    block_a: int
    block_b: int
    block_k: int = 128
    split_k: int = 1
    num_warps: int = 8
    num_stages: int = 3
    bulk: bool = False
    specialize: bool = False
    hopper: bool = False
    persistent: int = 0
    band: int = 8


def w8a8_config(target: Target, kernel: str, m: int, n: int, k: int) -> W8A8Config:
    """The tuned launch for this device and shape, else a heuristic by batch size and the chip's shared memory."""
    found = config_for(target, kernel, m, n, k)
    if found is not None:
        return W8A8Config(**found)
    if target.interpreted:
        return W8A8Config(64, 16 if min(m, n) <= 16 else 64, 64, split_k=2 if min(m, n) <= 16 and k > 64 else 1)
    narrow = min(max(16, next_power_of_2(min(m, n))), 128)
    if narrow < 128:
        split = split_for(target, cdiv(max(m, n), 64), cdiv(k, 128)) if min(m, n) <= narrow else 1
        return W8A8Config(64, narrow, split_k=split, num_warps=4)
    if target.capability == (9, 0):
        return W8A8Config(128, 128, num_warps=4, num_stages=4, bulk=True, specialize=True, hopper=True, persistent=1)
    return W8A8Config(128, 64 if target.shared_memory < 120_000 else 128, num_warps=4 if target.shared_memory < 120_000 else 8)


def output_of(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, out: torch.Tensor | None, out_dtype: torch.dtype
) -> torch.Tensor:
    """The result to fill, [m, n]. Raises InvalidRequestError where operands do not fit."""
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
    return y


def launch_w8a8(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, y: torch.Tensor, locks: torch.Tensor | None,
    c: W8A8Config,
) -> None:  # fmt: skip
    """y = x_scale[:, None] * w_scale[None, :] * (x wT), the taller operand on the left."""
    target = _common.target_of(x.device)
    (m, k), n = x.shape, w.shape[0]
    swap = n > m
    a, b, scale_a, scale_b = (w, x, w_scale, x_scale) if swap else (x, w, x_scale, w_scale)
    strides: tuple[Any, Any] = (y.stride(1), y.stride(0)) if swap else (y.stride(0), y.stride(1))
    bulk = c.bulk and bulk_copies_work(a, b)
    if bulk:
        triton.set_allocator(lambda size, alignment, stream: torch.empty(size, device=x.device, dtype=torch.int8))
    tiles = cdiv(a.shape[0], c.block_a) * cdiv(b.shape[0], c.block_b)
    programs = min(tiles, c.persistent * target.num_sms)
    sums = torch.int32 if x.dtype == torch.int8 else torch.float32
    partials = partial_sums(GemmConfig(c.block_a, c.block_b, c.block_k, c.split_k), b.shape[0], a.shape[0], x.device, sums)
    if partials is not None and locks is None:
        locks = make_locks(a.shape[0], x.device)
    launch(
        w8a8_kernel, (programs or tiles, c.split_k),
        a, b, scale_a, scale_b, y, partials, locks, a.shape[0], b.shape[0], k, a.stride(0), b.stride(0), *strides,
        BLOCK_A=c.block_a, BLOCK_B=c.block_b, BLOCK_K=c.block_k, BAND=c.band, SPLIT_K=c.split_k, PROMOTE=min(128, c.block_k), BULK=bulk,
        WARP_SPECIALIZE=c.specialize and bulk, PROGRAMS=programs, UPCAST=target.interpreted,
        num_warps=c.num_warps if bulk or not c.specialize else 8, num_stages=c.num_stages,
    )  # fmt: skip
