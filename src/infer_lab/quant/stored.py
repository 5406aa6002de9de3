"""A layer of a GGUF file that is computed with as it is stored: Q4_1 and Q8_0 rows, laid out anew for our kernels, no bit of them changed.

The parts of a layer may be stored differently (llama.cpp gives some matrices more bits), so a layer is one or several runs of rows, each
of one format; rows in floats stay so. How many there are is known when the last part has come, so memory is taken then.
"""

from __future__ import annotations

from itertools import groupby
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from infer_lab.kernels.pack import QuantizedWeight, pack_weight
from infer_lab.quant.linear import QuantizedLinear
from infer_lab.quant.weight_only import block_columns, dequantize_packed, packed_product

_SMALLEST_BLOCK = {4: 64, 8: 32}  # columns: where no block divides a row, its last one is padded


class _PackedRows(nn.Module):
    def __init__(self, rows: QuantizedWeight) -> None:
        super().__init__()
        block_k = block_columns(rows.bits, rows.group_size, rows.q.shape[1]) or _SMALLEST_BLOCK[rows.bits]
        self.packed = packed = pack_weight(rows, block_k)
        for name in ("data", "scales", "minima"):
            self.register_buffer(name, getattr(packed, name))
        self.register_buffer("locks", packed.locks, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return packed_product(x, self.packed)

    def dequantized(self) -> Tensor:
        return dequantize_packed(self.packed)


class _FloatRows(nn.Module):
    weight: Tensor

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", rows)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)

    def dequantized(self) -> Tensor:
        return self.weight.float()


class StoredLinear(QuantizedLinear):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting: dict[int, Tensor | QuantizedWeight] = {}
        self.runs: list[_PackedRows | _FloatRows] = []

    def take(self, start: int, weight: Tensor | QuantizedWeight) -> None:
        self._waiting[start] = weight
        if len(self._waiting) < len(self.parts):
            return
        assert not self.runs, "a layer is filled once"
        parts = [self._waiting[at] for at in sorted(self._waiting)]
        self._waiting = {}
        for bits, run in groupby(parts, lambda part: part.bits if isinstance(part, QuantizedWeight) else 0):
            rows = list(run)
            if bits:
                self.runs.append(_PackedRows(QuantizedWeight.stacked([part for part in rows if isinstance(part, QuantizedWeight)])))
            else:
                self.runs.append(_FloatRows(torch.cat([part for part in rows if isinstance(part, Tensor)]).to(self.dtype)))
            self.add_module(f"rows{len(self.runs)}", self.runs[-1])

    def product(self, x: Tensor) -> Tensor:
        found = [run(x) for run in self.runs]
        return found[0] if len(found) == 1 else torch.cat(found, dim=-1)

    def dequantized(self) -> Tensor:
        return torch.cat([run.dequantized() for run in self.runs])
