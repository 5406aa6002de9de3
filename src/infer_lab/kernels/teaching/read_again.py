"""Reads one buffer again and again, in passes that follow each other: at which rate does the level of memory that holds it deliver?

Why a kernel for it: a pass in a launch of its own takes microseconds to start, and so does reading what fits an L2; and passes in one
launch of a library's sum run side by side, so that one of them reads from the L2 what another has just fetched from memory. Here every
program owns its tiles and nobody else reads them, so a byte read twice is read in two passes. The L1 is passed by. All programs must
be on the chip at once (PROGRAMS_PER_SM small ones fit), or the later ones would start on another part of the buffer.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels._common import launch, target_of

TILE = 2048
PROGRAMS_PER_SM = 8


@triton.jit(do_not_specialize=["tiles", "passes"])
def _read_again_kernel(x_ptr, out_ptr, tiles, passes, tile_size: tl.constexpr):
    program = tl.program_id(0)
    lanes = tl.arange(0, tile_size)
    total = tl.zeros((tile_size,), dtype=tl.float32)
    for _ in range(passes):
        for i in range(tiles):
            start = (i * tl.num_programs(0) + program).to(tl.int64) * tile_size
            total += tl.load(x_ptr + start + lanes, cache_modifier=".cg")  # .cg: from the L2, never from the L1
    tl.store(out_ptr + program, tl.sum(total, 0))


def stride(device: torch.device, tile: int = TILE) -> int:
    """Elements that all programs together read in one step: buffers are multiples of it."""
    return PROGRAMS_PER_SM * target_of(device).num_sms * tile


def read_again(x: torch.Tensor, passes: int, out: torch.Tensor | None = None, *, tile: int = TILE) -> torch.Tensor:
    """Sums the float32 vector x `passes` times over and returns one partial sum a program; together they are passes · x.sum()."""
    step = stride(x.device, tile)
    if x.ndim != 1 or x.dtype != torch.float32 or not x.is_contiguous() or x.numel() == 0 or x.numel() % step:
        raise InvalidRequestError(
            f"read_again needs a contiguous float32 vector of a multiple of {step} elements, got {tuple(x.shape)} of {x.dtype}"
        )
    out = torch.empty(step // tile, dtype=torch.float32, device=x.device) if out is None else out
    launch(_read_again_kernel, (step // tile,), x, out, x.numel() // step, passes, tile_size=tile, num_warps=4)
    return out
