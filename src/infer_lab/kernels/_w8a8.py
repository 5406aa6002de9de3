"""The 8-bit by 8-bit matrix product behind FP8 and INT8 W8A8: C = scale_a[:, None] * scale_b[None, :] * (A BT).

Rows of A and of B are both contiguous in k, as activations and weights are stored. Whichever is the taller stands on the left, so a
few tokens do not waste the 64-row side of the matrix unit: the caller swaps A with B and the strides of the result with them.

Two ways to fetch tiles: pointers (any chip, any stride of rows), and on sm_90 the bulk copy engine through tensor descriptors, where
one warp issues the copies and, with WARP_SPECIALIZE, two groups of four warps each multiply half of the tile's rows, so one adds up while
the other multiplies.

FP8 sums need help on Hopper: its matrix unit keeps about 14 bits of a running FP8 sum. PROMOTE = 128 moves the sum of every 128 columns to
a float32 register by an ordinary addition (DeepSeek-V3 technical report, 3.3.2; DeepGEMM).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.kernels._gemm import finish_tile


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
