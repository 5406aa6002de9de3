"""Attention for whatever a step holds: decodes, drafts to verify, first and later prompt chunks, in one call.

Why: the scheduler has no phases, so the engine should not have them either. Each request is (new tokens, cached keys). Those with few new
tokens are bound by memory and go to the split-KV kernel; those with many are bound by arithmetic and go to the tiled one. Both kernels
look at the query lengths on the device and leave the other's requests alone, so the batch needs no sorting; the host's bounds
only say which of the two launches can be left out. A step without prompt chunks is one launch and can be captured in a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.errors import UserError
from infer_lab.kernels.flash_prefill import flash_prefill_paged
from infer_lab.kernels.paged_decode import MAX_ROWS, DecodeWorkspace, paged_decode


@dataclass(frozen=True, slots=True)
class AttentionBatch:
    """Who attends to what in one step; made once, used by every layer.

    cu_seqlens_q int32 `[requests + 1]`: new tokens of request i are rows [cu[i], cu[i+1]); equal bounds are a padding row.
    seq_lens int32 `[requests]`: keys of each request, its new tokens included. block_table int32 `[requests, max_blocks]`.
    min_query_len, max_query_len, max_seq_len: bounds over the batch that the host knows without asking the device
    (padding rows left out). decode_query_len: most new tokens that count as decoding (1, or 1 + drafts).
    """

    cu_seqlens_q: torch.Tensor
    seq_lens: torch.Tensor
    block_table: torch.Tensor
    min_query_len: int
    max_query_len: int
    max_seq_len: int
    decode_query_len: int = 1


def mixed_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    batch: AttentionBatch,
    scale: float | None = None,
    window: int = 0,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    workspace: DecodeWorkspace | None = None,
) -> torch.Tensor:
    """Causal attention of `q [tokens, heads, head_dim]` to the pages, into which the step's keys and values are already written.

    lse `[tokens, heads]` float32, filled when given (natural log). Returns out. Rows that belong to no request are left as they are.
    """
    if batch.min_query_len > batch.max_query_len:
        raise UserError(f"min_query_len {batch.min_query_len} exceeds max_query_len {batch.max_query_len}")
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    decode_len = min(batch.decode_query_len, MAX_ROWS // (q.shape[1] // k_cache.shape[2]))
    if batch.min_query_len <= decode_len:
        paged_decode(
            q, k_cache, v_cache, batch.block_table, batch.cu_seqlens_q, batch.seq_lens, batch.max_seq_len,
            min(decode_len, batch.max_query_len), scale, window, k_scale, v_scale, out, lse, workspace,
        )  # fmt: skip
    if batch.max_query_len > decode_len:
        flash_prefill_paged(
            q, k_cache, v_cache, batch.block_table, batch.cu_seqlens_q, batch.seq_lens, scale, window, k_scale, v_scale, out, lse,
            min_query_len=decode_len + 1,
        )  # fmt: skip
    return out
