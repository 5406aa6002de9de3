"""Attention of one or a few new tokens per request to its pages: the kernel that decides the speed of decoding.

Why: a decode step reads every cached key and value once and does almost no arithmetic on them, so the only question is whether enough
reads are in flight. Two ideas make it so. The query heads that share a KV head (times the new tokens, when drafts are verified) are
packed into the rows of one matrix product, so each key is read once for all of them. And the keys of a request are split over
programs ("split-KV", FlashDecoding, Dao et al. 2023); each leaves a normalized part and its log-sum-exp, and whichever program of a
request finishes last merges them, in the fixed order of the splits, so the result does not depend on who was last.

Shapes: q, out `[tokens, heads, head_dim]`, caches `[num_blocks, block_size, kv_heads, head_dim]` in the dtype of q, FP8 or INT8;
k_scale, v_scale `[num_blocks, block_size, kv_heads]` float32; lse `[tokens, heads]` float32, natural log.
A request without new tokens, or with more than `max_query_len`, is left alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import LOG2_E, Target, cdiv, launch, next_power_of_2
from infer_lab.kernels._paged_decode_kernel import decode_kernel

MAX_ROWS = 64  # query heads of a KV head, times query tokens, that one program holds
MAX_SPLITS = 128


@dataclass(frozen=True, slots=True)
class DecodeConfig:
    """programs_per_sm: how many programs the splits aim at for each multiprocessor; min_split: keys below which splitting costs more."""

    block_n: int
    num_warps: int
    num_stages: int
    programs_per_sm: int = 4
    min_split: int = 256


def decode_config(target: Target, head_dim: int, cache_element_size: int, rows: int, programs: int) -> DecodeConfig:
    """The tuned configuration of this device, else one whose tiles of k and v fit its shared memory twice.

    programs: requests times KV heads. When they fill the chip by themselves, bandwidth decides; when they do not, latency and merging do.
    """
    size = "few" if 4 * programs <= target.num_sms else "some" if programs <= 2 * target.num_sms else "many"
    found = _common.tuned(target, "paged_decode", f"d{head_dim}-{cache_element_size * 8}bit-rows{max(rows, 16)}-{size}")
    if found:
        return DecodeConfig(**found)
    if target.interpreted:
        return DecodeConfig(32, 4, 1, min_split=32)
    block_n = 64 if head_dim <= 128 else 32
    stages = 3
    while stages > 1 and 2 * stages * block_n * head_dim * cache_element_size > 0.45 * target.shared_memory:
        stages -= 1
    return DecodeConfig(block_n, 4, stages)


def num_splits(target: Target, config: DecodeConfig, programs: int, max_seq_len: int) -> int:
    """How many programs share a request: enough that `programs` times it fills the chip, none with fewer than `min_split` keys."""
    wanted = cdiv(config.programs_per_sm * target.num_sms, max(programs, 1))
    return max(1, min(wanted, cdiv(max_seq_len, config.min_split), MAX_SPLITS))


@dataclass(frozen=True, slots=True)
class DecodeWorkspace:
    """Parts of split requests and the arrival counters, made once and shared by every layer (they run one after another).

    The counters must be zero between launches; the kernel leaves them so.
    """

    part: torch.Tensor
    part_lse: torch.Tensor
    arrived: torch.Tensor

    @classmethod
    def allocate(cls, requests: int, kv_heads: int, rows: int, head_dim: int, splits: int, device: torch.device) -> DecodeWorkspace:
        entries = requests * kv_heads * splits * rows
        return cls(
            torch.empty(entries * head_dim, dtype=torch.float32, device=device),
            torch.empty(entries, dtype=torch.float32, device=device),
            torch.zeros(requests * kv_heads, dtype=torch.int32, device=device),
        )


def _words(cache: torch.Tensor) -> torch.Tensor:
    """An 8-bit cache as 16-bit words of two elements."""
    if any(s % 2 for s in cache.stride()[:3]) or cache.storage_offset() % 2:
        raise UserError(f"an 8-bit cache is read in pairs: its strides must be even, got {tuple(cache.stride())}")
    return cache.view(torch.int16)


def paged_decode(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    max_seq_len: int,
    max_query_len: int = 1,
    scale: float | None = None,
    window: int = 0,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    workspace: DecodeWorkspace | None = None,
    splits: int | None = None,
    config: DecodeConfig | None = None,
) -> torch.Tensor:
    """Causal attention for requests with 1 to `max_query_len` new tokens, whose keys and values are already written.

    max_seq_len: bound on seq_lens, known to the host; it only sets how far the grid splits, so a captured graph may use the model's limit.
    Fills `lse` when given. Returns out. Raises UserError when heads times query tokens exceed MAX_ROWS or a cache has no scales.
    """
    target = _common.target_of(q.device)
    tokens, heads, head_dim = q.shape
    block_size, kv_heads = k_cache.shape[1], k_cache.shape[2]
    _common.require_head_dim(head_dim)
    _common.require_unit_stride(q=q, k_cache=k_cache, v_cache=v_cache, out=out)
    if heads % kv_heads:
        raise UserError(f"{heads} query heads cannot share {kv_heads} KV heads evenly")
    if window < 0:
        raise UserError(f"window must be 0 (off) or a positive number of keys, got {window}")
    group = heads // kv_heads
    rows = next_power_of_2(group * max_query_len)
    if rows > MAX_ROWS:
        raise UserError(
            f"{max_query_len} query tokens x {group} heads per KV head are {group * max_query_len} rows, decode packs at most"
            f" {MAX_ROWS}: use flash_prefill_paged for more than {MAX_ROWS // group} query tokens"
        )
    quantized = k_cache.dtype != q.dtype
    if quantized and (k_scale is None or v_scale is None):
        raise UserError(f"a {k_cache.dtype} cache under {q.dtype} queries needs k_scale and v_scale")
    if k_cache.dtype == _common.FP8:
        _common.require_fp8(target)
    sb, ss, sh = k_scale.stride() if k_scale is not None and quantized else (0, 0, 0)
    if quantized and v_scale is not None and v_scale.stride() != (sb, ss, sh):
        raise UserError("k_scale and v_scale must have the same strides")
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    requests = seq_lens.numel()
    if tokens == 0 or requests == 0:
        return out
    k, v = (_words(k_cache), _words(v_cache)) if quantized else (k_cache, v_cache)
    c = config or decode_config(target, head_dim, k_cache.element_size(), rows, requests * kv_heads)
    if splits is not None and not 1 <= splits <= MAX_SPLITS:
        raise UserError(f"splits must lie in 1 to {MAX_SPLITS}, got {splits}")
    splits = splits or num_splits(target, c, requests * kv_heads, max_seq_len)
    if splits > 1 and workspace is None:
        workspace = DecodeWorkspace.allocate(requests, kv_heads, rows, head_dim, splits, q.device)
    if workspace is not None and splits > 1:
        need = requests * kv_heads * splits * rows
        if workspace.part_lse.numel() < need or workspace.arrived.numel() < requests * kv_heads:
            raise UserError(f"the decode workspace holds {workspace.part_lse.numel()} rows, this batch needs {need}")
    launch(
        decode_kernel, (kv_heads, splits, requests),
        q, k, v, out, lse, k_scale, v_scale, block_table, cu_seqlens_q, seq_lens,
        workspace.part if workspace else None, workspace.part_lse if workspace else None, workspace.arrived if workspace else None,
        (scale if scale is not None else head_dim**-0.5) * LOG2_E, max_query_len, splits, max(1, c.min_split // c.block_n),
        q.stride(0), q.stride(1), *k.stride()[:3], *v.stride()[:3], sb, ss, sh,
        out.stride(0), out.stride(1), *(lse.stride() if lse is not None else (0, 0)), block_table.stride(0),
        KV_HEADS=kv_heads, GROUP=group, HEAD_DIM=head_dim, ROWS=rows, TILE_ROWS=max(rows, 16), BLOCK_N=c.block_n,
        BLOCK_SIZE=block_size, NUM_SPLITS=1 if splits == 1 else MAX_SPLITS, CHUNK=max(1, 64 // rows), WINDOW=window,
        QUANTIZED=quantized, FP8=k_cache.dtype == _common.FP8, SAME_STRIDES=k.stride() == v.stride(), WRITE_LSE=lse is not None,
        PRECISION="ieee" if q.dtype == torch.float32 else "tf32", PTX=not target.interpreted,
        num_warps=c.num_warps, num_stages=c.num_stages,
    )  # fmt: skip
    return out
