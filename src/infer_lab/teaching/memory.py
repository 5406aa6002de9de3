"""Two levels of memory: what lives in `Slow` costs when it is touched; what a function holds in local variables is free.

Why: an argument about traffic is settled by counting. The same algorithm runs, gives the same numbers, and says what it moved.
"""

from __future__ import annotations

from typing import Any

import torch


class Slow:
    """A tensor in slow memory. Each index expression reads or writes one slice; elements are counted."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data
        self.read = 0
        self.written = 0

    @classmethod
    def empty(cls, *shape: int, like: torch.Tensor) -> Slow:
        return cls(like.new_full(shape, float("nan")))

    def __getitem__(self, index: Any) -> torch.Tensor:
        found = self.data[index]
        self.read += found.numel()
        return found.clone()

    def __setitem__(self, index: Any, value: torch.Tensor) -> None:
        self.data[index] = value
        self.written += self.data[index].numel()


def moved(*tensors: Slow) -> int:
    """Elements read and written, together."""
    return sum(tensor.read + tensor.written for tensor in tensors)
