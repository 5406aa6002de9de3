"""Transposing a matrix of 4-byte values, in three ways: global memory strided, shared memory with conflicts, without conflicts.

1. `direct`: rows are read together, so columns are written one element to a sector: 8 times the write traffic.
2. `conflicts`: a 32 by 32 tile turns in shared memory, so both sides of global memory are contiguous; but a column of the tile lies in
   one bank, and reading it takes 32 turns.
3. `swizzled`: the same with the columns of each row permuted (banks.swizzled): every access takes one turn.

Written in Gluon, where layouts are explicit; plain Triton picks a conflict-free layout by itself and would not show the difference.
"""

# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false, reportIndexIssue=false
# pyright: reportAssignmentType=false
from __future__ import annotations

import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

from infer_lab.errors import InvalidRequestError, UnsupportedHardwareError, UnsupportedOptionError
from infer_lab.kernels._common import cdiv

STAGES = ("direct", "conflicts", "swizzled")
TILE = gl.constexpr(32)


@gluon.jit
def transpose_kernel(x, out, rows, columns, stride_x, stride_out, SHARED: gl.constexpr, SWIZZLED: gl.constexpr):
    """One tile of 32 by 32. A warp reads a row at a time, and through shared memory also writes a row at a time."""
    along_rows: gl.constexpr = gl.BlockedLayout([1, 1], [1, 32], [gl.num_warps(), 1], [1, 0])
    r = gl.program_id(0).to(gl.int64) * TILE + gl.arange(0, TILE, gl.SliceLayout(1, along_rows))
    c = gl.program_id(1).to(gl.int64) * TILE + gl.arange(0, TILE, gl.SliceLayout(0, along_rows))
    tile = gl.load(x + r[:, None] * stride_x + c[None, :], mask=(r < rows)[:, None] & (c < columns)[None, :], other=0.0)
    if SHARED:
        phases: gl.constexpr = 32 if SWIZZLED else 1
        place: gl.constexpr = gl.SwizzledSharedLayout(1, 1, phases, [1, 0])
        buffer = gl.allocate_shared_memory(x.dtype.element_ty, [TILE, TILE], place)
        buffer.store(tile)
        turned = buffer.permute((1, 0)).load(along_rows)
        r_out = gl.program_id(1).to(gl.int64) * TILE + gl.arange(0, TILE, gl.SliceLayout(1, along_rows))
        c_out = gl.program_id(0).to(gl.int64) * TILE + gl.arange(0, TILE, gl.SliceLayout(0, along_rows))
        inside = (r_out < columns)[:, None] & (c_out < rows)[None, :]
        gl.store(out + r_out[:, None] * stride_out + c_out[None, :], turned, mask=inside)
    else:
        gl.store(out + c[None, :] * stride_out + r[:, None], tile, mask=(r < rows)[:, None] & (c < columns)[None, :])


def transpose(x: torch.Tensor, stage: str = "swizzled") -> torch.Tensor:
    """x [rows, columns] of 4-byte values with contiguous rows, transposed into a new contiguous matrix. Needs a GPU."""
    if stage not in STAGES:
        raise UnsupportedOptionError(f"transpose has the stages {', '.join(STAGES)}; got {stage!r}")
    if x.device.type not in ("cuda", "meta"):
        raise UnsupportedHardwareError("this kernel has explicit layouts and needs a CUDA device; banks.py counts its conflicts anywhere")
    if x.dim() != 2 or x.element_size() != 4 or (x.shape[1] > 1 and x.stride(1) != 1):
        raise InvalidRequestError(f"transpose wants a matrix of 4-byte values with contiguous rows; got {list(x.shape)} {x.dtype}")
    rows, columns = x.shape
    out = torch.empty(columns, rows, dtype=x.dtype, device=x.device)
    if x.numel():
        grid = (cdiv(rows, 32), cdiv(columns, 32))
        transpose_kernel[grid](x, out, rows, columns, x.stride(0), out.stride(0), SHARED=stage != "direct", SWIZZLED=stage == "swizzled")
    return out
