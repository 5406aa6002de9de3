"""Softmax of a row that does not fit into fast memory, three ways, and the state (m, l, u) from which flash attention is made.

`block` elements of the row are in fast memory at a time. The naive form overflows: exp(89) is beyond float32, exp(12) beyond float16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.teaching.memory import Slow


def naive_softmax(x: Slow, out: Slow, block: int) -> None:
    """Sum, then divide: 2 reads and 1 write of each element."""
    n = len(x.data)
    total = x.data.new_zeros(())
    for i in range(0, n, block):
        total += x[i : i + block].exp().sum()
    for i in range(0, n, block):
        out[i : i + block] = x[i : i + block].exp() / total


def safe_softmax(x: Slow, out: Slow, block: int) -> None:
    """Maximum, sum, divide: 3 reads and 1 write."""
    n = len(x.data)
    peak, total = x.data.new_full((), float("-inf")), x.data.new_zeros(())
    for i in range(0, n, block):
        peak = torch.maximum(peak, x[i : i + block].max())
    for i in range(0, n, block):
        total += (x[i : i + block] - peak).exp().sum()
    for i in range(0, n, block):
        out[i : i + block] = (x[i : i + block] - peak).exp() / total


def online_softmax(x: Slow, out: Slow, block: int) -> None:
    """Maximum and sum together (Milakov and Gimelshein, 2018), then divide: 2 reads and 1 write."""
    n = len(x.data)
    peak, total = x.data.new_full((), float("-inf")), x.data.new_zeros(())
    for i in range(0, n, block):
        part = x[i : i + block]
        higher = torch.maximum(peak, part.max())
        total = total * (peak - higher).exp() + (part - higher).exp().sum()  # what was summed so far, in terms of the new maximum
        peak = higher
    for i in range(0, n, block):
        out[i : i + block] = (x[i : i + block] - peak).exp() / total


@dataclass(frozen=True, slots=True)
class State:
    """What a set of keys contributes to rows of attention: maximum m and sum l [rows], weighted values u [rows, d], not yet divided."""

    m: torch.Tensor
    l: torch.Tensor  # noqa: E741
    u: torch.Tensor


def state_of(scores: torch.Tensor, values: torch.Tensor) -> State:
    """The state of one tile: scores [rows, keys], -inf where masked, and values [keys, d]."""
    m = scores.amax(-1)
    weights = (scores - finite(m)[:, None]).exp()
    return State(m, weights.sum(-1), weights @ values)


def merge(a: State, b: State) -> State:
    """The state of both sets of keys. Associative and commutative, so tiles may be taken in any order, and by different programs."""
    m = torch.maximum(a.m, b.m)
    old, new = (a.m - finite(m)).exp(), (b.m - finite(m)).exp()
    return State(m, a.l * old + b.l * new, a.u * old[:, None] + b.u * new[:, None])


def finish(state: State) -> torch.Tensor:
    """The rows of attention: one division each, 0 for a row that saw no key."""
    return state.u / torch.where(state.l == 0, 1.0, state.l)[:, None]


def finite(m: torch.Tensor) -> torch.Tensor:
    """What to subtract: the maximum, or 0 where nothing was seen (-inf - -inf is NaN)."""
    return torch.where(m == float("-inf"), 0.0, m)
