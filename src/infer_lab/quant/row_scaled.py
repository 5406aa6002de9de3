"""FP8 and INT8 layers (W8A8): weights with a scale for each row, and activations quantized as they come with a scale for each token.

Dynamic scales need no calibration data and follow each token's own range; the price is one more pass over the activations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from infer_lab.errors import QuantizationError
from infer_lab.kernels.pack import quantize_rows_fp8, quantize_rows_int8
from infer_lab.kernels.reference_gemm import scaled_rows
from infer_lab.quant.linear import QuantizedLinear

_INT8_COLUMNS = (2**31 - 1) // (127 * 128)  # more could overflow a 32-bit sum


class RowScaledLinear(QuantizedLinear):
    storage: torch.dtype
    weight: Tensor
    weight_scale: Tensor
    locks: Tensor

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.register_buffer("weight", torch.zeros(self.rows, self.in_features, dtype=self.storage, device=self.device))
        self.register_buffer("weight_scale", torch.ones(self.rows, dtype=torch.float32, device=self.device))
        # arrival counters of split-K, one for 16 rows
        self.register_buffer("locks", torch.zeros(-(-self.rows // 16), dtype=torch.int32, device=self.device), persistent=False)
        self._kernel = self._quantize = None
        if self.device.type == "cuda":
            from infer_lab.kernels.quantize_rows import quantize_rows

            self._kernel, self._quantize = self._find_kernel(), quantize_rows

    def _find_kernel(self) -> Callable[..., Tensor]:
        raise NotImplementedError

    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def take(self, start: int, weight: Tensor) -> None:
        q, scale = self.quantize_rows(weight)
        self.weight[start : start + len(q)].copy_(q)
        self.weight_scale[start : start + len(q)].copy_(scale)

    def product(self, x: Tensor) -> Tensor:
        if self._kernel is not None and self._quantize is not None:
            q, scale = self._quantize(x, self.storage)
            # with more tokens than rows the kernel counts by tokens, for which there may be too few counters
            locks = self.locks if len(q) <= self.rows else None
            return self._kernel(q, scale, self.weight, self.weight_scale, out_dtype=x.dtype, locks=locks)
        q, scale = self.quantize_rows(x)
        return scaled_rows(q, scale, self.weight, self.weight_scale).to(x.dtype)

    def dequantized(self) -> Tensor:
        return self.weight.float() * self.weight_scale[:, None]


class FP8Linear(RowScaledLinear):
    storage = torch.float8_e4m3fn

    def _find_kernel(self) -> Callable[..., Tensor]:
        from infer_lab.kernels.fp8_gemm import fp8_gemm

        return fp8_gemm

    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return quantize_rows_fp8(x)


class INT8Linear(RowScaledLinear):
    storage = torch.int8

    def __init__(self, in_features: int, *args: Any, **options: Any) -> None:
        if in_features > _INT8_COLUMNS:
            raise QuantizationError(
                f"int8 sums over {in_features} columns could overflow (limit {_INT8_COLUMNS}): take fp8, w8a16 or w4a16"
            )
        super().__init__(in_features, *args, **options)

    def _find_kernel(self) -> Callable[..., Tensor]:
        from infer_lab.kernels.int8_gemm import int8_gemm

        return int8_gemm

    def quantize_rows(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return quantize_rows_int8(x)
