"""Attention over the paged KV cache, in plain torch: the reference that every later kernel is compared with.

Why two shapes: a decoding request brings one query, a prefill chunk brings many. Decodes of similar length are computed together;
each chunk is computed alone. Both *gather* the keys and values of exactly the positions that the request has written, slot by slot,
out of the cache. So a slot that nobody wrote is never read, and what one request left behind (even NaN) cannot touch another.

    cache of one layer   k, v [num_slots, kv_heads, head_dim],   slot = block · block_size + offset
    queries              [tokens, heads, head_dim]: decodes first, shortest context first, then chunk after chunk
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


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


def paged_attention(q: Tensor, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, batch: AttentionBatch) -> Tensor:
    """Write k and v [tokens, kv_heads, head_dim] to the cache, then attend from q [tokens, heads, head_dim]; result like q.

    Head h reads KV head h // (heads / kv_heads) (grouped-query attention).
    """
    k_cache.index_copy_(0, batch.slot_mapping, k)
    v_cache.index_copy_(0, batch.slot_mapping, v)
    parts = [_decode(q[group.start : group.end], k_cache, v_cache, group) for group in batch.decodes]
    parts += [_prefill(q[chunk.start : chunk.end], k_cache, v_cache, chunk) for chunk in batch.prefills]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _decode(q: Tensor, k_cache: Tensor, v_cache: Tensor, group: DecodeGroup) -> Tensor:
    """One query for each of the group's requests: q [requests, heads, head_dim]."""
    rows, heads, head_dim = q.shape
    shape = (rows, group.length, *k_cache.shape[1:])
    keys = k_cache.index_select(0, group.kv_slots).view(shape).transpose(1, 2)
    values = v_cache.index_select(0, group.kv_slots).view(shape).transpose(1, 2)
    # the query heads that share a KV head stand where several queries would: no copy of K and V for each of them
    grouped = q.unflatten(1, (k_cache.shape[1], -1))
    return F.scaled_dot_product_attention(grouped, keys, values, attn_mask=group.mask).reshape(rows, heads, head_dim)


def _prefill(q: Tensor, k_cache: Tensor, v_cache: Tensor, chunk: PrefillChunk) -> Tensor:
    """Many queries of one request: q [queries, heads, head_dim]."""
    keys = k_cache.index_select(0, chunk.kv_slots).transpose(0, 1).unsqueeze(0)
    values = v_cache.index_select(0, chunk.kv_slots).transpose(0, 1).unsqueeze(0)
    queries = q.transpose(0, 1).unsqueeze(0)
    gqa = q.shape[1] != k_cache.shape[1]
    attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=chunk.mask, is_causal=chunk.mask is None, enable_gqa=gqa)
    return attended.squeeze(0).transpose(0, 1)
