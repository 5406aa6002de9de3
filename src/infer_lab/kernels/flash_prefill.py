"""Flash attention of prompt chunks: causal, grouped query heads, packed variable lengths, keys and values dense or paged.

Why: materialized scores of an 8k prompt are 128 MiB a head; here a tile of queries keeps a running maximum, sum and output in registers
and walks the keys once (FlashAttention-2, Dao 2023). Keys of earlier chunks, of a shared prefix and of the chunk itself all lie in
the paged cache, so one kernel serves a first chunk, a later chunk and a resumed request alike: the last query stands at the last key.

Shapes: q, out `[tokens, heads, head_dim]`; dense k, v `[keys, kv_heads, head_dim]`; caches `[num_blocks, block_size, kv_heads, head_dim]`;
lse `[tokens, heads]` float32, natural log. A row that sees nothing (no keys) gives out 0 and lse -inf.
Slots past a request's length are never read, so what they hold (NaN too) does not matter.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import LOG2_E, Target, launch, next_power_of_2
from infer_lab.kernels._programs import grid, locate_tile
from infer_lab.kernels.hopper_prefill import HopperConfig, hopper_prefill, supported


@triton.jit
def _attend(
    acc, m, den, q, k_ptr, v_ptr, k_scale, v_scale, table, lo, hi, kv_len, position, scale_log2,
    stride_kb, stride_ks, stride_vb, stride_vs, stride_sb, stride_ss,
    HEAD_DIM: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    MASKED: tl.constexpr, QUANTIZED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Walk keys [lo, hi). BLOCK_SIZE 0 means dense. Without MASKED the caller promises that every row sees every key of the range."""
    offs_d = tl.arange(0, HEAD_DIM)
    for n in tl.range(lo, hi, BLOCK_N):
        offs_n = n + tl.arange(0, BLOCK_N)
        exists = offs_n < kv_len
        if BLOCK_SIZE == 0:
            k_row = offs_n.to(tl.int64) * stride_ks
            v_row = offs_n.to(tl.int64) * stride_vs
        else:
            if BLOCK_SIZE % BLOCK_N == 0:  # the tile lies in one page: one look-up
                page = tl.load(table + n // BLOCK_SIZE).to(tl.int64)
            else:
                page = tl.load(table + offs_n // BLOCK_SIZE, mask=exists, other=0).to(tl.int64)
            k_row = page * stride_kb + (offs_n % BLOCK_SIZE) * stride_ks
            v_row = page * stride_vb + (offs_n % BLOCK_SIZE) * stride_vs
        if MASKED:
            k = tl.load(k_ptr + k_row[None, :] + offs_d[:, None], mask=exists[None, :], other=0.0)
            v = tl.load(v_ptr + v_row[:, None] + offs_d[None, :], mask=exists[:, None], other=0.0)
        else:
            k = tl.load(k_ptr + k_row[None, :] + offs_d[:, None])
            v = tl.load(v_ptr + v_row[:, None] + offs_d[None, :])
        s = tl.dot(q, k.to(q.dtype), input_precision=PRECISION)
        if QUANTIZED:
            s_row = page * stride_sb + (offs_n % BLOCK_SIZE) * stride_ss
            s *= tl.load(k_scale + s_row, mask=exists, other=0.0)[None, :]
        if MASKED:
            seen = exists[None, :] & (position[:, None] >= 0)
            if CAUSAL:
                seen &= offs_n[None, :] <= position[:, None]
            if WINDOW > 0:
                seen &= offs_n[None, :] > position[:, None] - WINDOW
            s = tl.where(seen, s * scale_log2, float("-inf"))
            m_new = tl.maximum(m, tl.max(s, 1))
            base = tl.where(m_new == float("-inf"), 0.0, m_new)  # a row with nothing seen yet: exp2(-inf - 0) is 0, not NaN
            p = tl.exp2(s - base[:, None])
        else:
            m_new = tl.maximum(m, tl.max(s, 1) * scale_log2)
            base = m_new
            p = tl.exp2(s * scale_log2 - base[:, None])
        alpha = tl.exp2(m - base)
        den = den * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if QUANTIZED:
            # scales relative to the tile's largest keep p in the range of float16
            vs = tl.load(v_scale + s_row, mask=exists, other=0.0)
            top = tl.max(vs, 0)
            p *= (vs / tl.where(top > 0.0, top, 1.0))[None, :]
            acc += tl.dot(p.to(q.dtype), v.to(q.dtype), input_precision=PRECISION) * top
        else:
            acc = tl.dot(p.to(q.dtype), v, acc, input_precision=PRECISION)
        m = m_new
    return acc, m, den


@triton.jit(do_not_specialize=["num_requests", "min_query_len"])
def _prefill_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, k_scale, v_scale, block_table, cu_seqlens_q, key_bounds,
    num_requests, min_query_len, scale_log2,
    stride_qt, stride_qh, stride_kb, stride_ks, stride_kh, stride_vb, stride_vs, stride_vh,
    stride_sb, stride_ss, stride_sh, stride_ot, stride_oh, stride_lt, stride_lh, stride_table,
    GROUP: tl.constexpr, HEADS_TOGETHER: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, REQUESTS: tl.constexpr,
    CAUSAL: tl.constexpr, WINDOW: tl.constexpr,
    QUANTIZED: tl.constexpr, WRITE_LSE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """One program is BLOCK_M queries of one head; for their order see _programs.

    key_bounds: cu_seqlens_k when dense (BLOCK_SIZE 0), seq_lens when paged.
    """
    head = tl.program_id(1) * HEADS_TOGETHER + tl.program_id(0) % HEADS_TOGETHER
    request, tile = locate_tile(cu_seqlens_q, num_requests, tl.program_id(0) // HEADS_TOGETHER, min_query_len, BLOCK_M, REQUESTS)
    if request >= num_requests:
        return
    q_start = tl.load(cu_seqlens_q + request)
    q_len = tl.load(cu_seqlens_q + request + 1) - q_start
    first = ((q_len + BLOCK_M - 1) // BLOCK_M - 1 - tile) * BLOCK_M
    kv_head = head // GROUP
    if BLOCK_SIZE == 0:
        kv_start = tl.load(key_bounds + request)
        kv_len = tl.load(key_bounds + request + 1) - kv_start
        k_ptr += kv_start.to(tl.int64) * stride_ks
        v_ptr += kv_start.to(tl.int64) * stride_vs
    else:
        kv_len = tl.load(key_bounds + request)
        block_table += request.to(tl.int64) * stride_table
    k_ptr += kv_head.to(tl.int64) * stride_kh
    v_ptr += kv_head.to(tl.int64) * stride_vh
    if QUANTIZED:
        k_scale += kv_head * stride_sh
        v_scale += kv_head * stride_sh

    row = first + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, HEAD_DIM)
    token = (q_start + row).to(tl.int64)
    q = tl.load(q_ptr + token[:, None] * stride_qt + head * stride_qh + offs_d[None, :], mask=(row < q_len)[:, None], other=0.0)
    position = tl.where(row < q_len, row + kv_len - q_len, -1)
    if not CAUSAL:
        position = tl.where(row < q_len, kv_len, -1)

    acc = tl.zeros([BLOCK_M, HEAD_DIM], tl.float32)
    m = tl.full([BLOCK_M], float("-inf"), tl.float32)
    den = tl.zeros([BLOCK_M], tl.float32)
    lo = 0
    hi = kv_len
    plain = kv_len // BLOCK_N * BLOCK_N
    if CAUSAL:
        hi = tl.minimum(kv_len, first + BLOCK_M + kv_len - q_len)
        plain = tl.maximum(first + kv_len - q_len + 1, 0) // BLOCK_N * BLOCK_N  # every row of the tile sees every key before this
    if WINDOW > 0:
        lo = tl.maximum(first + kv_len - q_len - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
        plain = lo
    acc, m, den = _attend(
        acc, m, den, q, k_ptr, v_ptr, k_scale, v_scale, block_table, lo, plain, kv_len, position, scale_log2,
        stride_kb, stride_ks, stride_vb, stride_vs, stride_sb, stride_ss,
        HEAD_DIM, BLOCK_N, BLOCK_SIZE, CAUSAL, WINDOW, False, QUANTIZED, PRECISION,
    )  # fmt: skip
    acc, m, den = _attend(
        acc, m, den, q, k_ptr, v_ptr, k_scale, v_scale, block_table, plain, hi, kv_len, position, scale_log2,
        stride_kb, stride_ks, stride_vb, stride_vs, stride_sb, stride_ss,
        HEAD_DIM, BLOCK_N, BLOCK_SIZE, CAUSAL, WINDOW, True, QUANTIZED, PRECISION,
    )  # fmt: skip

    out = acc / tl.where(den == 0.0, 1.0, den)[:, None]
    out_ptrs = out_ptr + token[:, None] * stride_ot + head * stride_oh + offs_d[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=(row < q_len)[:, None])
    if WRITE_LSE:
        lse = tl.where(den == 0.0, float("-inf"), (m + tl.log2(tl.where(den == 0.0, 1.0, den))) / 1.4426950408889634)
        tl.store(lse_ptr + token * stride_lt + head * stride_lh, lse, mask=row < q_len)


@dataclass(frozen=True, slots=True)
class PrefillConfig:
    block_m: int
    block_n: int
    num_warps: int
    num_stages: int
    kv_heads_together: int = 1


def prefill_config(target: Target, head_dim: int, element_size: int, paged: bool, quantized: bool) -> PrefillConfig:
    """The tuned configuration of this device, else a shape that fits its shared memory: q, and `num_stages` tiles of k and v."""
    kind = ("fp8int8" if quantized else "paged") if paged else "dense"
    found = _common.tuned(target, "flash_prefill", f"d{head_dim}-{kind}")
    if found and element_size == 2:
        return PrefillConfig(**found)
    if target.interpreted:
        return PrefillConfig(32, 32, 4, 1)
    # none of these spills on sm_80, sm_89 or sm_90 (tests/kernels/compile_table.json)
    if element_size == 4:
        return PrefillConfig(32, 32, 4, 2)
    if quantized:
        return PrefillConfig(64 if head_dim <= 128 else 32, 32, 8, 2)
    c = PrefillConfig(128, 64, 8, 3) if head_dim <= 128 else PrefillConfig(64, 32, 8, 2)
    fits = (c.block_m + 2 * c.num_stages * c.block_n) * head_dim * element_size < 1.3 * target.shared_memory
    return c if fits else PrefillConfig(64, 32, 4, 2)


def _launch(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    key_bounds: torch.Tensor,
    block_table: torch.Tensor | None,
    scale: float | None,
    causal: bool,
    window: int,
    k_scale: torch.Tensor | None,
    v_scale: torch.Tensor | None,
    out: torch.Tensor | None,
    lse: torch.Tensor | None,
    min_query_len: int,
    config: PrefillConfig | HopperConfig | None,
) -> torch.Tensor:
    target = _common.target_of(q.device)
    tokens, heads, head_dim = q.shape
    kv_heads = k.shape[-2]
    _common.require_head_dim(head_dim)
    _common.require_unit_stride(q=q, k=k, v=v, out=out)
    if heads % kv_heads:
        raise UserError(f"{heads} query heads cannot share {kv_heads} KV heads evenly")
    if config is not None and (config.kv_heads_together < 1 or kv_heads % config.kv_heads_together):
        raise UserError(f"{config.kv_heads_together} KV heads together do not divide {kv_heads} KV heads")
    if window < 0:
        raise UserError(f"window must be 0 (off) or a positive number of keys, got {window}")
    quantized = k_scale is not None
    if k.dtype == _common.FP8:
        _common.require_fp8(target)
    if out is None:
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
    requests = cu_seqlens_q.numel() - 1
    if tokens == 0 or requests == 0:
        return out
    paged = block_table is not None
    softmax_scale = scale if scale is not None else head_dim**-0.5
    if not isinstance(config, PrefillConfig) and supported(target, q, k, v, paged):
        hopper_prefill(q, k, v, cu_seqlens_q, key_bounds, block_table, softmax_scale, causal, window, out, lse, min_query_len, config)
        return out
    if isinstance(config, HopperConfig):
        raise UserError("these tensors or this chip do not fit the Hopper kernel: give a PrefillConfig or none")
    c = config or prefill_config(target, head_dim, q.element_size(), paged, quantized)
    # Each request wastes at most one partial tile.
    num_tiles = tokens // c.block_m + requests
    kb, ks = (k.stride(0), k.stride(1)) if paged else (0, k.stride(0))
    vb, vs = (v.stride(0), v.stride(1)) if paged else (0, v.stride(0))
    sb, ss, sh = k_scale.stride() if k_scale is not None else (0, 0, 0)
    if v_scale is not None and v_scale.stride() != (sb, ss, sh):
        raise UserError("k_scale and v_scale must have the same strides")
    launch(
        _prefill_kernel, grid(num_tiles, heads, kv_heads, c.kv_heads_together),
        q, k, v, out, lse, k_scale, v_scale, block_table, cu_seqlens_q, key_bounds,
        requests, min_query_len, softmax_scale * LOG2_E,
        q.stride(0), q.stride(1), kb, ks, k.stride(-2), vb, vs, v.stride(-2), sb, ss, sh,
        out.stride(0), out.stride(1), *(lse.stride() if lse is not None else (0, 0)), block_table.stride(0) if paged else 0,
        GROUP=heads // kv_heads, HEADS_TOGETHER=heads // kv_heads * c.kv_heads_together, HEAD_DIM=head_dim, BLOCK_M=c.block_m,
        BLOCK_N=c.block_n, BLOCK_SIZE=k.shape[1] if paged else 0, REQUESTS=next_power_of_2(requests), CAUSAL=causal, WINDOW=window,
        QUANTIZED=quantized, WRITE_LSE=lse is not None, PRECISION="ieee" if q.dtype == torch.float32 else "tf32",
        num_warps=c.num_warps, num_stages=c.num_stages,
    )  # fmt: skip
    return out


def flash_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    scale: float | None = None,
    causal: bool = True,
    window: int = 0,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    config: PrefillConfig | HopperConfig | None = None,
) -> torch.Tensor:
    """Attention over dense, packed keys and values. scale defaults to head_dim ** -0.5; window 0 is off.

    Fills `lse` when given. Returns out. Raises UserError for head counts or options that have no kernel.
    """
    if window and not causal:
        raise UserError("a sliding window is defined for causal attention only")
    return _launch(q, k, v, cu_seqlens_q, cu_seqlens_k, None, scale, causal, window, None, None, out, lse, 1, config)


def flash_prefill_paged(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float | None = None,
    window: int = 0,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    lse: torch.Tensor | None = None,
    min_query_len: int = 1,
    config: PrefillConfig | HopperConfig | None = None,
) -> torch.Tensor:
    """Causal attention of new tokens to their request's pages, into which their own keys and values are already written.

    k_scale, v_scale: `[num_blocks, block_size, kv_heads]` float32 for FP8 or INT8 caches (stride 0 where a scale is shared).
    min_query_len: leave out rows of requests with fewer new tokens (another kernel writes them).
    """
    return _launch(
        q, k_cache, v_cache, cu_seqlens_q, seq_lens, block_table, scale, True, window, k_scale, v_scale, out, lse,
        min_query_len, config,
    )  # fmt: skip
