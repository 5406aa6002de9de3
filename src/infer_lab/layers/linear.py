"""A linear layer whose weight holds the rows of one or several checkpoint tensors.

Why: q, k and v (and gate and up) read the same input, so one product over stacked rows replaces three: fewer launches on a GPU, and
on a CPU one long stream through memory. Each layer knows where a checkpoint tensor goes: `slots` names a view of its own memory for it, so
a checkpoint loader is only "copy each tensor into its slot". (The idea is nano-vLLM's.)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Slot(Protocol):
    """A place that a loader fills as if it were a tensor: a view of a layer's memory, or one that quantizes what it is given."""

    @property
    def shape(self) -> torch.Size: ...
    @property
    def dtype(self) -> torch.dtype: ...
    @property
    def device(self) -> torch.device: ...
    def copy_(self, tensor: Any, /) -> object: ...
    def normal_(self, mean: float, std: float, *, generator: torch.Generator) -> object: ...


Slots = dict[str, Slot]


class LinearLayer(Protocol):
    """What a model needs of a linear layer: `Linear` below, or one of infer_lab.quant."""

    def __call__(self, x: Tensor) -> Tensor: ...
    def slots(self, prefix: str) -> Slots: ...


class LinearFactory(Protocol):
    """Makes the layers of a model; arguments as of `Linear`."""

    def __call__(
        self, in_features: int, parts: Mapping[str, int], *, bias: bool = False, dtype: torch.dtype, device: torch.device
    ) -> LinearLayer: ...


def weight(*shape: int, dtype: torch.dtype, device: torch.device) -> nn.Parameter:
    """Uninitialized memory for a weight of this shape.

    A float32 matrix on a CPU lies column by column in memory: the product of one row, or eight, with it is then a sixth to a
    quarter faster in MKL, and decoding is nothing but such products. Shape, meaning and use are the same.
    """
    if len(shape) == 2 and dtype == torch.float32 and device.type == "cpu":
        return nn.Parameter(torch.empty(shape[::-1], dtype=dtype, device=device).t(), requires_grad=False)
    return nn.Parameter(torch.empty(shape, dtype=dtype, device=device), requires_grad=False)


class Linear(nn.Module):
    """y = x · Wᵀ (+ b). parts: rows by the last word of the checkpoint name, stacked in order, e.g. {"q_proj": 576, "k_proj": 192}."""

    def __init__(self, in_features: int, parts: Mapping[str, int], *, bias: bool = False, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.parts = dict(parts)
        rows = sum(self.parts.values())
        self.weight = weight(rows, in_features, dtype=dtype, device=device)
        self.bias = weight(rows, dtype=dtype, device=device) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    def slots(self, prefix: str) -> Slots:
        found: Slots = {}
        start = 0
        for name, rows in self.parts.items():
            found[f"{prefix}{name}.weight"] = self.weight[start : start + rows]
            if self.bias is not None:
                found[f"{prefix}{name}.bias"] = self.bias[start : start + rows]
            start += rows
        return found
