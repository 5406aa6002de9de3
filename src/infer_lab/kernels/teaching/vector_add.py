"""Vector addition: the smallest whole Triton kernel.

One program handles BLOCK neighbouring elements. Three things that every kernel has: which part is mine (`program_id`), where it lies
(offsets), and which of it does not exist (the mask: without it the last program reads and writes past the end).
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels._common import cdiv, launch


@triton.jit
def vector_add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def vector_add(x: torch.Tensor, y: torch.Tensor, block: int = 1024) -> torch.Tensor:
    """x + y for contiguous tensors of one shape. Moves 3 elements of memory for each addition: as fast as memory, never as arithmetic."""
    if x.shape != y.shape or not (x.is_contiguous() and y.is_contiguous()):
        raise InvalidRequestError(f"vector_add wants two contiguous tensors of one shape; got {list(x.shape)} and {list(y.shape)}")
    out = torch.empty_like(x)
    if x.numel():
        launch(vector_add_kernel, (cdiv(x.numel(), block),), x, y, out, x.numel(), BLOCK=block)
    return out
