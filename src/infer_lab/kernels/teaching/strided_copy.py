"""Copying every s-th element: what a memory transaction really carries.

Memory moves in sectors of 32 bytes. A warp that reads 32 neighbouring floats touches 4 sectors; with stride 2 it touches 8 and uses half
of each; from stride 8 on, every float costs a whole sector and 7/8 of the traffic is waste. `sectors_touched` says so beforehand.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels._common import cdiv, launch

SECTOR_BYTES = 32


@triton.jit
def strided_copy_kernel(x, out, n, stride, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at * stride, mask=inside), mask=inside)


def strided_copy(x: torch.Tensor, stride: int, block: int = 1024) -> torch.Tensor:
    """x[::stride] of a contiguous vector, as a new vector."""
    if x.dim() != 1 or not x.is_contiguous() or stride < 1:
        raise InvalidRequestError(f"strided_copy wants a contiguous vector and a stride from 1; got {list(x.shape)}, stride {stride}")
    n = cdiv(x.numel(), stride)
    out = torch.empty(n, dtype=x.dtype, device=x.device)
    if n:
        launch(strided_copy_kernel, (cdiv(n, block),), x, out, n, stride, BLOCK=block)
    return out


def sectors_touched(stride: int, element_bytes: int, lanes: int = 32) -> int:
    """Distinct 32-byte sectors that one load of a warp touches when lane i reads element i * stride of an aligned array."""
    return len({lane * stride * element_bytes // SECTOR_BYTES for lane in range(lanes)})
