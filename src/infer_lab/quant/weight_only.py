"""W8A16 and W4A16 layers: integers in groups, in the layout of `kernels.pack`, unpacked by our kernels on the way to the matrix unit.

Scales are rounded to 16 bits before the integers are chosen. They have the activations' 16-bit type, and bfloat16 beside float32: so the
packed bytes for a CPU in float32 and a GPU in bfloat16 are the same.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from infer_lab.errors import QuantizationError
from infer_lab.kernels.pack import PackedWeight, QuantizedWeight, default_block_k, pack_weight, quantize_weight
from infer_lab.quant.linear import QuantizedLinear

_SMALLEST_PLANE = 16  # columns; see pack_weight
DEQUANTIZE_FROM = 512
"""Tokens from which a layer is unpacked once for a product in 16 bits: its arithmetic then takes longer than the pass that unpacks."""


def block_columns(bits: int, group_size: int, columns: int) -> int | None:
    """The widest packed block that divides `columns`, so that nothing is padded; None where there is none."""
    smallest = _SMALLEST_PLANE * (16 // bits)
    block = math.gcd(columns, default_block_k(bits, group_size))
    return block if block >= smallest else None


def dequantize_packed(packed: PackedWeight) -> Tensor:
    """float32 [n, k], straight from the packed bytes: what `unpack_weight(packed).dequantize()` gives, several times faster."""
    blocks, steps, rows, plane = packed.data.shape
    octets = packed.data.view(torch.int8 if packed.bits == 8 else torch.uint8).view(blocks, steps, rows, plane, 2)
    if packed.bits == 8:
        q = octets.permute(0, 2, 1, 4, 3)
    else:
        q = torch.stack((octets & 15, octets >> 4), dim=-1).permute(0, 2, 1, 4, 5, 3)
    w = q.reshape(blocks * rows, -1).float()[: packed.n, : packed.k]
    scales = packed.scales.t()[: packed.n].float()
    whole = packed.k // packed.group_size
    tail = whole * packed.group_size  # the last group may be cut short
    groups = w[:, :tail].unflatten(1, (whole, packed.group_size))
    if packed.minima is not None:
        groups.mul_(scales[:, :whole, None]).add_(packed.minima.t()[: packed.n, :whole, None].float())
        return w
    zeros = torch.tensor(8.0 if packed.bits == 4 else 0.0) if packed.zeros is None else packed.zeros.t()[: packed.n].float()
    zeros = zeros.to(w.device).expand_as(scales)
    groups.sub_(zeros[:, :whole, None]).mul_(scales[:, :whole, None])
    if tail < packed.k:
        w[:, tail:].sub_(zeros[:, whole, None]).mul_(scales[:, whole, None])
    return w


def packed_product(x: Tensor, packed: PackedWeight) -> Tensor:
    """x · Wᵀ in x's dtype, x [tokens, k]: our kernels on a GPU, plain torch over the same packed bytes on a CPU."""
    if not x.is_cuda:
        return F.linear(x.float(), dequantize_packed(packed)).to(x.dtype)
    if x.shape[0] >= DEQUANTIZE_FROM:
        from infer_lab.kernels.dequantize_weight import dequantize_weight

        return F.linear(x, dequantize_weight(packed, torch.empty(packed.n, packed.k, dtype=x.dtype, device=x.device)))
    if packed.bits == 4:
        from infer_lab.kernels.w4a16 import w4a16

        return w4a16(x, packed)
    from infer_lab.kernels.w8a16 import w8a16

    return w8a16(x, packed)


class WeightOnlyLinear(QuantizedLinear):
    """Parts wait as integers until all rows are there, since a packed block may hold rows of two parts."""

    data: Tensor
    scales: Tensor
    zeros: Tensor | None
    locks: Tensor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        bits, group = self.scheme.bits, self.scheme.group_size
        block_k = block_columns(bits, group, self.in_features)
        if block_k is None:
            unit = _SMALLEST_PLANE * (16 // bits)
            others = "w8a16 (multiples of 32), int8 or fp8" if bits == 4 and self.in_features % 32 == 0 else "int8 or fp8"
            raise QuantizationError(
                f"{' + '.join(self.parts)} reads {self.in_features} columns and {self.scheme.name} packs {unit} together: take {others},"
                " or no quantization"
            )
        self._block_k = block_k
        self._scale_dtype = torch.float16 if self.dtype == torch.float16 else torch.bfloat16
        self._waiting: dict[int, QuantizedWeight] = {}
        # the layout is pack_weight's business: let it lay out nothing
        like = pack_weight(self._quantize(torch.empty(self.rows, self.in_features, device="meta"), unset=True), block_k)
        for name, persistent in (("data", True), ("scales", True), ("zeros", True), ("locks", False)):
            tensor = getattr(like, name)
            self.register_buffer(name, None if tensor is None else torch.zeros_like(tensor, device=self.device), persistent=persistent)
        self.packed = PackedWeight(
            self.data, self.scales, self.zeros, self.rows, self.in_features, group, bits, block_k, locks=self.locks
        )  # fmt: skip

    def _quantize(self, weight: Tensor, unset: bool = False) -> QuantizedWeight:
        bits, group, symmetric = self.scheme.bits, self.scheme.group_size, self.scheme.zero_bits == 0
        if not unset:
            return quantize_weight(weight, bits, group, symmetric, self._scale_dtype)
        groups = weight.new_empty(weight.shape[0], -(-weight.shape[1] // group), dtype=self._scale_dtype)
        q = weight.to(torch.uint8 if bits == 4 else torch.int8)
        return QuantizedWeight(q, groups, None if symmetric else groups.to(torch.int16), group, bits)

    def take(self, start: int, weight: Tensor) -> None:
        self._waiting[start] = self._quantize(weight)
        if len(self._waiting) < len(self.parts):
            return
        parts = [self._waiting[at] for at in sorted(self._waiting)]
        self._waiting = {}
        packed = pack_weight(QuantizedWeight.stacked(parts), self._block_k)
        self.data.copy_(packed.data)
        self.scales.copy_(packed.scales)
        if self.zeros is not None and packed.zeros is not None:
            self.zeros.copy_(packed.zeros)

    def product(self, x: Tensor) -> Tensor:
        return packed_product(x, self.packed)

    def dequantized(self) -> Tensor:
        return dequantize_packed(self.packed)
