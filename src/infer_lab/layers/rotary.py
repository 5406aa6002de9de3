"""Rotary position embedding (Su et al., 2021), half-split: dimensions i and i + d/2 are the pair that is turned by position · frequency_i.

cos and sin are computed in float32 once a step, for its positions, and shared by all layers: no table that grows with the context
limit. `sin` carries the sign of the rotation ([-sin, sin]), so turning is x · cos + roll(x, d/2) · sin: three elementwise
operations, no concatenation.
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


class Rotary:
    """cos and signed sin for the positions of a step, each [tokens, 1, head_dim] (the 1 stands for the heads); or, for kernels, the same
    numbers of every position in a table."""

    def __init__(self, config: ModelConfig, *, dtype: torch.dtype, device: torch.device, factors: tuple[float, ...] = ()) -> None:
        self._frequencies = inverse_frequencies(config, factors).to(device)
        self._dtype = dtype

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        angles = torch.outer(positions.float(), self._frequencies)
        cos, sin = angles.cos(), angles.sin()
        return (
            torch.cat((cos, cos), dim=-1).unsqueeze(1).to(self._dtype),
            torch.cat((-sin, sin), dim=-1).unsqueeze(1).to(self._dtype),
        )

    def table(self, num_positions: int) -> Tensor:
        """float32 [num_positions, head_dim]: cosines, then sines, as `kernels.rope_kv_write` wants them."""
        positions = torch.arange(num_positions, dtype=torch.float32, device=self._frequencies.device)
        angles = torch.outer(positions, self._frequencies)
        return torch.cat((angles.cos(), angles.sin()), dim=-1)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """x [tokens, heads, head_dim] turned by its positions; cos and sin from `Rotary`."""
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, dims=-1), sin)
