"""What each matrix-product kernel must compute, in plain torch: the definition that tests hold kernels to, and the path for a CPU.

Everything upcasts to `compute_dtype` first (float32; tests also use float64). x [m, k], weights [n, k], results [m, n] in compute_dtype.
"""

from __future__ import annotations

import torch

from infer_lab.kernels.pack import PackedWeight, QuantizedWeight, unpack_weight


def dense(x: torch.Tensor, w: torch.Tensor, compute_dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """x wT."""
    return x.to(compute_dtype) @ w.to(compute_dtype).T


def weight_only(x: torch.Tensor, weight: PackedWeight | QuantizedWeight, compute_dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """x times the transpose of the dequantized weight: (q - zero) * scale, nothing rounded."""
    quantized = unpack_weight(weight) if isinstance(weight, PackedWeight) else weight
    return x.to(compute_dtype) @ quantized.dequantize(compute_dtype).T


def scaled_rows(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, compute_dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """W8A8 with one scale per row on both sides (FP8 or INT8): x_scale[m] * w_scale[n] * sum_k x[m, k] w[n, k].

    INT8 sums are exact integers: use float64 here when k > 1000 (float32 holds integers up to 2**24).
    """
    return (x.to(compute_dtype) @ w.to(compute_dtype).T) * x_scale.to(compute_dtype)[:, None] * w_scale.to(compute_dtype)[None, :]
