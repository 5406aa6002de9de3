"""One head of attention over slow memory: with the score matrix written out, and tile by tile in both loop orders.

q and out are [queries, d], k and v [n, d] in slow memory; no mask. FlashAttention-1 walks keys in the outer loop and updates all outputs
for each tile of keys; FlashAttention-2 walks queries in the outer loop and writes each output once.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.errors import UnsupportedOptionError
from infer_lab.teaching.memory import Slow
from infer_lab.teaching.softmax import State, finish, merge, state_of

ORDERS = ("keys", "queries")


@dataclass(slots=True)
class RowWork:
    """Work that is no matrix product, in rows of the output: multiplied by exp(m_old - m_new), divided by the sum."""

    rescaled: int = 0
    divided: int = 0


def standard_attention(q: Slow, k: Slow, v: Slow, out: Slow) -> list[Slow]:
    """Three kernels, scores and weights through slow memory. Returns those two, for their counts. 4nd + 4n² elements move for n queries."""
    (queries, d), n = q.data.shape, len(k.data)
    scores, weights = (Slow.empty(queries, n, like=q.data) for _ in range(2))
    scores[:] = q[:] @ k[:].T * d**-0.5
    weights[:] = scores[:].softmax(-1)
    out[:] = weights[:] @ v[:]
    return [scores, weights]


def flash_attention(q: Slow, k: Slow, v: Slow, out: Slow, block_q: int, block_k: int, order: str = "queries") -> RowWork:
    """The same result without the matrix of scores. order: what the outer loop walks."""
    if order not in ORDERS:
        raise UnsupportedOptionError(f"the outer loop walks {' or '.join(ORDERS)}, not {order!r}")
    return (_queries_outside if order == "queries" else _keys_outside)(q, k, v, out, block_q, block_k)


def grouped_attention(q: Slow, k: Slow, v: Slow, out: Slow, block_q: int, block_k: int, packed: bool) -> None:
    """Query heads that share KV heads: q, out [queries, heads, d]; k, v [n, kv_heads, d]. block_q: rows of a tile.

    packed: the heads of a group are rows of the same tile, so a tile of keys serves them all. Else each query head walks the keys of its
    KV head by itself, as if they were its own. The result is the same; what differs is how often keys and values are read.
    """
    heads, kv_heads = q.data.shape[1], k.data.shape[1]
    if heads % kv_heads:
        raise UnsupportedOptionError(f"{heads} query heads cannot share {kv_heads} KV heads evenly")
    group = heads // kv_heads
    together = group if packed else 1
    for head in range(0, heads, together):
        mine = slice(head, head + together)
        rows, keys, values = Slow(q.data[:, mine].flatten(0, 1)), Slow(k.data[:, head // group]), Slow(v.data[:, head // group])
        result = Slow.empty(*rows.data.shape, like=q.data)
        flash_attention(rows, keys, values, result, block_q, block_k)
        out.data[:, mine] = result.data.unflatten(0, (-1, together))
        for whole, part in ((q, rows), (k, keys), (v, values), (out, result)):
            whole.read += part.read
            whole.written += part.written


def _queries_outside(q: Slow, k: Slow, v: Slow, out: Slow, block_q: int, block_k: int) -> RowWork:
    """FlashAttention-2: a tile of queries stays in fast memory with its state and walks all keys."""
    (queries, d), n = q.data.shape, len(k.data)
    work = RowWork()
    for i in range(0, queries, block_q):
        tile = q[i : i + block_q] * d**-0.5
        state = _nothing(tile)
        for j in range(0, n, block_k):
            state = merge(state, state_of(tile @ k[j : j + block_k].T, v[j : j + block_k]))
            work.rescaled += len(tile)  # u and l, at every tile of keys
        out[i : i + block_q] = finish(state)
        work.divided += len(tile)  # once
    return work


def _keys_outside(q: Slow, k: Slow, v: Slow, out: Slow, block_q: int, block_k: int) -> RowWork:
    """FlashAttention-1: a tile of keys and values stays, all queries pass by. Outputs and their m and l wait in slow memory, normalized."""
    (queries, d), n = q.data.shape, len(k.data)
    work = RowWork()
    sums = Slow.empty(queries, 2, like=q.data)
    for j in range(0, n, block_k):
        keys, values = k[j : j + block_k], v[j : j + block_k]
        for i in range(0, queries, block_q):
            tile = q[i : i + block_q] * d**-0.5
            old = _nothing(tile)
            if j:
                m, total = sums[i : i + block_q].unbind(-1)
                old = State(m, total, out[i : i + block_q] * total[:, None])
            state = merge(old, state_of(tile @ keys.T, values))
            out[i : i + block_q] = finish(state)
            sums[i : i + block_q] = torch.stack((state.m, state.l), -1)
            work.rescaled += len(tile)
            work.divided += len(tile)  # at every tile of keys
    return work


def _nothing(tile: torch.Tensor) -> State:
    """The state of no keys at all: merging it changes nothing."""
    return State(tile.new_full((len(tile),), float("-inf")), tile.new_zeros(len(tile)), torch.zeros_like(tile))


def blocks_for(memory: int, d: int) -> tuple[int, int]:
    """(block_q, block_k) that fit fast memory of so many elements, as FlashAttention-1 chose them: a quarter each for q, k, v and out."""
    block = max(1, memory // (4 * d))
    return min(block, d), block
