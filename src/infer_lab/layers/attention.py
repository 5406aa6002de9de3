"""Attention over the paged KV cache, in plain torch: the reference that every later kernel is compared with.

Why two shapes: a decoding request brings one query, a prefill chunk brings many. Decodes of similar length are computed together;
each chunk is computed alone. Both *gather* the keys and values of exactly the positions that the request has written, slot by slot,
out of the cache. So a slot that nobody wrote is never read, and what one request left behind (even NaN) cannot touch another.

    cache of one layer   a KVLayer; slot = block · block_size + offset
    queries              [tokens, heads, head_dim]: decodes first, shortest context first, then chunk after chunk
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from infer_lab.layers.kv_layer import KVLayer


@dataclass(frozen=True, slots=True)
class DecodeGroup:
    """Requests with one query each: tokens [start, end) of the step.

    kv_slots [(end − start) · length]: slots of positions 0 … of each request, padded to `length` by repeating its last one.
    mask [end − start, 1, 1, length], 0 or −inf, hides the padding; None when all contexts are equally long.
    """

    start: int
    end: int
    length: int
    kv_slots: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class PrefillChunk:
    """One request with several queries: tokens [start, end) of the step, the last of its `len(kv_slots)` positions.

    mask [queries, positions], 0 or −inf; None when the chunk is the whole context (then plain causal).
    """

    start: int
    end: int
    kv_slots: Tensor
    mask: Tensor | None


@dataclass(frozen=True, slots=True)
class AttentionBatch:
    """slot_mapping [tokens]: where each token's key and value are written."""

    slot_mapping: Tensor
    decodes: tuple[DecodeGroup, ...]
    prefills: tuple[PrefillChunk, ...]


def paged_attention(q: Tensor, k: Tensor, v: Tensor, cache: KVLayer, batch: AttentionBatch) -> Tensor:
    """Write k and v [tokens, kv_heads, head_dim] to the cache, then attend from q [tokens, heads, head_dim]; result like q.

    Head h reads KV head h // (heads / kv_heads) (grouped-query attention).
    """
    cache.write(batch.slot_mapping, k, v)
    parts = [_decode(q[group.start : group.end], cache, group) for group in batch.decodes]
    parts += [_prefill(q[chunk.start : chunk.end], cache, chunk) for chunk in batch.prefills]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(q: Tensor, cache: KVLayer, group: DecodeGroup) -> Tensor:
    """One query for each of the group's requests: q [requests, heads, head_dim]."""
    rows, heads, head_dim = q.shape
    keys, values = (x.unflatten(0, (rows, group.length)).transpose(1, 2) for x in cache.gather(group.kv_slots, q.dtype))
    # the query heads that share a KV head stand where several queries would: no copy of K and V for each of them
    grouped = q.unflatten(1, (keys.shape[1], -1))
    return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=group.mask).reshape(rows, heads, head_dim)


def _prefill(q: Tensor, cache: KVLayer, chunk: PrefillChunk) -> Tensor:
    """Many queries of one request: q [queries, heads, head_dim]."""
    keys, values = (x.transpose(0, 1).unsqueeze(0) for x in cache.gather(chunk.kv_slots, q.dtype))
    queries = q.transpose(0, 1).unsqueeze(0)
    gqa = queries.shape[1] != keys.shape[1]
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=chunk.mask, is_causal=chunk.mask is None, enable_gqa=gqa)
    return attended.squeeze(0).transpose(0, 1)
