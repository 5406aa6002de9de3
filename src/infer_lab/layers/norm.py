"""Root-mean-square normalization over the last dimension (Zhang and Sennrich, 2019): x / sqrt(mean(x²) + eps) · weight."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from infer_lab.layers.linear import Slots, weight


class RMSNorm(nn.Module):
    def __init__(self, size: int, eps: float, *, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.weight = weight(size, dtype=dtype, device=device)
        self.shape, self.eps = (size,), eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.shape, self.weight, self.eps)

    def slots(self, name: str) -> Slots:
        return {f"{name}.weight": self.weight}
