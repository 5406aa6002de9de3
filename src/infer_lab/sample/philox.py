"""Random numbers by counter: the same (seed, position, token) gives the same number, whatever else is in the batch.

Why not a generator: its state would depend on how many draws came before, and so on batch mates, chunks and preemption. Philox
4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) hashes a counter of four words under a key of two. It
is the generator of cuRAND and of Triton's `tl.philox`, so a fused kernel can draw the very same numbers.

    key = (low, high 32 bits of the seed)      counter = (token // 4, position, stream, 0)      word token % 4 of the result

A stream is for numbers of another purpose at the same seed and position; those of stream 0 decide what is sampled.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def _multiply(a: int, b: Tensor) -> tuple[Tensor, Tensor]:
    """High and low word of a · b. The product may pass 2^63 and wrap to negative: its 64 bits are right all the same."""
    product = b * a
    return (product >> 32) & _WORD, product & _WORD


def philox(counter: tuple[Tensor, Tensor, Tensor, Tensor], key: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox 4x32-10 on int64 tensors that hold 32-bit words; counter and key broadcast against each other."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(_MULTIPLIERS[0], c0)
        high1, low1 = _multiply(_MULTIPLIERS[1], c2)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _WORD, (k1 + _KEY_STEPS[1]) & _WORD
    return c0, c1, c2, c3


def uniforms(seeds: Tensor, positions: Tensor, num_tokens: int, stream: int = 0) -> Tensor:
    """float32 [rows, num_tokens] in (0, 1): one for each token of the vocabulary. seeds, positions: int64 [rows]."""
    counters = torch.arange(-(-num_tokens // 4), device=seeds.device).unsqueeze(0)
    return _to_unit(_words(seeds, positions, counters, stream).flatten(1)[:, :num_tokens])


def uniforms_at(seeds: Tensor, positions: Tensor, token_ids: Tensor, stream: int = 0) -> Tensor:
    """float32 [rows, n]: the numbers of these tokens alone, token_ids int64 [rows, n]."""
    words = _words(seeds, positions, token_ids // 4, stream)
    return _to_unit(words.gather(2, (token_ids % 4).unsqueeze(2)).squeeze(2))


def _words(seeds: Tensor, positions: Tensor, counters: Tensor, stream: int) -> Tensor:
    """int64 [rows, counters, 4]."""
    zero = torch.zeros_like(counters)
    key = ((seeds & _WORD).unsqueeze(1), (seeds >> 32).unsqueeze(1))
    return torch.stack(philox((counters, positions.unsqueeze(1), zero + stream, zero), key), dim=-1)


def _to_unit(words: Tensor) -> Tensor:
    # (w + ½) / 2³²: small values keep their full relative precision in float32; the largest would round to 1
    return ((words.float() + 0.5) * 2.0**-32).clamp_(max=1 - 2.0**-24)
