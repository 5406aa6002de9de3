"""Rotary position embedding (Su et al., 2021), half-split: dimensions i and i + d/2 are the pair that is turned by position · frequency_i.

Tables of cos and sin for every position are made once in float32; a step picks the rows of its positions. `sin` carries the sign of the
rotation ([-sin, sin]), so turning is x · cos + roll(x, d/2) · sin: three elementwise operations and no concatenation.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from infer_lab.config import ModelConfig


def inverse_frequencies(config: ModelConfig, factors: tuple[float, ...] = ()) -> Tensor:
    """[head_dim / 2], float32: theta^(-2i/d), slowed down for long contexts as Llama 3.1 does where the model says so.

    factors: divisors for each frequency, as a GGUF file states them, in place of config.rope_scaling.
    """
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    frequencies = 1.0 / config.rope_theta**exponents
    if factors:
        return frequencies / torch.tensor(factors, dtype=torch.float32)
    if not config.rope_scaling:
        return frequencies
    # Llama 3.1: wavelengths beyond the old context are stretched by `factor`, short ones kept, those between blended
    scaling = dict(config.rope_scaling)
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    old_context = scaling["original_max_position_embeddings"]
    wavelength = 2 * math.pi / frequencies
    blend = ((old_context / wavelength - low) / (high - low)).clamp(0, 1)
    return (1 - blend) * frequencies / factor + blend * frequencies


class RotaryTables:
    """cos and signed sin, each [max_positions, 1, head_dim] (the 1 stands for the heads)."""

    def __init__(
        self, config: ModelConfig, max_positions: int, *, dtype: torch.dtype, device: torch.device, factors: tuple[float, ...] = ()
    ) -> None:
        angles = torch.outer(torch.arange(max_positions, dtype=torch.float32), inverse_frequencies(config, factors))
        cos, sin = angles.cos(), angles.sin()
        self.cos = torch.cat((cos, cos), dim=-1).unsqueeze(1).to(device, dtype)
        self.sin = torch.cat((-sin, sin), dim=-1).unsqueeze(1).to(device, dtype)

    def at(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rows for `positions` [tokens]."""
        return self.cos.index_select(0, positions), self.sin.index_select(0, positions)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [tokens, heads, head_dim] turned by its positions; cos and sin from `RotaryTables.at`."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)
