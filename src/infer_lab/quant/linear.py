"""A linear layer that is quantized while it is loaded: each checkpoint tensor becomes integers as it arrives, and its floats are let go.

To a loader it looks like `layers.linear.Linear`: it has slots to copy tensors into. Only that a slot is no view of memory but a
place that quantizes, so a model never exists in floats, neither on the host nor on the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from infer_lab.kernels.pack import QuantizedWeight
from infer_lab.layers.linear import Slots, weight
from infer_lab.quant.scheme import Scheme


class QuantizedLinear(nn.Module, ABC):
    """y = x · Wᵀ (+ b), x [tokens, in_features]. parts as in `Linear`.

    Memory is taken at once, packed; its tensors are buffers, so `state_dict` is what a cache has to keep.
    on_quantized: called after each part. Raises QuantizationError where the scheme cannot have so many columns.
    """

    def __init__(
        self, in_features: int, parts: Mapping[str, int], *, bias: bool = False, dtype: torch.dtype, device: torch.device,
        scheme: Scheme, on_quantized: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.parts = dict(parts)
        self.rows, self.in_features = sum(self.parts.values()), in_features
        self.dtype, self.device, self.scheme = dtype, device, scheme
        self.on_quantized = on_quantized
        self.bias = weight(self.rows, dtype=dtype, device=device) if bias else None

    @abstractmethod
    def take(self, start: int, weight: Any) -> None:
        """Quantize the rows from `start` on; weight [rows, in_features] in any float dtype, on this layer's device.

        A layer that takes rows as they are stored takes a QuantizedWeight, too."""

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """x · Wᵀ in x's dtype: our kernel on a GPU, plain torch over the same packed bytes on a CPU."""

    @abstractmethod
    def dequantized(self) -> Tensor:
        """float32 [rows, in_features]: the weight that the layer stands for."""

    def forward(self, x: Tensor) -> Tensor:
        y = self.product(x)
        return y if self.bias is None else y + self.bias

    def slots(self, prefix: str) -> Slots:
        found: Slots = {}
        start = 0
        for name, rows in self.parts.items():
            found[f"{prefix}{name}.weight"] = QuantizingSlot(self, start, rows)
            if self.bias is not None:
                found[f"{prefix}{name}.bias"] = self.bias[start : start + rows]
            start += rows
        return found


class QuantizingSlot:
    """Rows of a quantized layer, to be filled as if they were a tensor."""

    def __init__(self, layer: QuantizedLinear, start: int, rows: int) -> None:
        self._layer, self._start = layer, start
        self.shape, self.dtype, self.device = torch.Size((rows, layer.in_features)), layer.dtype, layer.device

    def copy_(self, tensor: Tensor | QuantizedWeight, /) -> None:
        self._layer.take(self._start, tensor.to(self.device))
        self._layer.on_quantized()

    def normal_(self, mean: float, std: float, *, generator: torch.Generator) -> None:
        self.copy_(torch.empty(self.shape, dtype=self.dtype, device=self.device).normal_(mean, std, generator=generator))
