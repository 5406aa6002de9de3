"""One layer's part of the KV cache, in the layout of the kernels, and what plain torch does with it.

    k, v               [num_blocks, block_size, kv_heads, head_dim]
    k_scale, v_scale   [num_blocks, block_size, kv_heads], float32: of an FP8 or INT8 cache, else None
    slot               block · block_size + offset

Why a scale for each token and head: it is known when the token is written and never changes, so nothing has to be calibrated, and a token
with large keys costs no other token any precision. It is 4 bytes beside head_dim ones: 6 % at 64, 3 % at 128.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_lab.kernels.pack import quantize_rows


def is_quantized(dtype: torch.dtype) -> bool:
    """Whether a cache of this type has scales."""
    return dtype.itemsize == 1


def octets(x: Tensor) -> Tensor:
    """The same memory as a type that torch can index: it cannot move FP8 about."""
    return x.view(torch.uint8) if x.dtype == torch.float8_e4m3fn else x


@dataclass(frozen=True, slots=True)
class KVLayer:
    """Views of the memory of a `KVCache`. Iterating gives k and v by slot, [num_slots, kv_heads, head_dim]."""

    k: Tensor
    v: Tensor
    k_scale: Tensor | None = None
    v_scale: Tensor | None = None

    def __iter__(self) -> Iterator[Tensor]:
        yield self.k.flatten(0, 1)
        yield self.v.flatten(0, 1)

    def write(self, slots: Tensor, k: Tensor, v: Tensor) -> None:
        """k, v [tokens, kv_heads, head_dim] to their slots, rounded as `kernels.rope_kv_write` rounds."""
        for x, cache, scales in ((k, self.k, self.k_scale), (v, self.v, self.v_scale)):
            if scales is not None:
                x, scale = quantize_rows(x, cache.dtype)
                scales.flatten(0, 1).index_copy_(0, slots, scale)
            octets(cache).flatten(0, 1).index_copy_(0, slots, octets(x.to(cache.dtype)))

    def gather(self, slots: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Keys and values of these slots, [len(slots), kv_heads, head_dim] in dtype."""
        return _gather(self.k, self.k_scale, slots, dtype), _gather(self.v, self.v_scale, slots, dtype)


def _gather(cache: Tensor, scales: Tensor | None, slots: Tensor, dtype: torch.dtype) -> Tensor:
    x = octets(cache).flatten(0, 1).index_select(0, slots).view(cache.dtype)
    if scales is None:
        return x.to(dtype)
    return x.float().mul_(scales.flatten(0, 1).index_select(0, slots)[..., None]).to(dtype)
