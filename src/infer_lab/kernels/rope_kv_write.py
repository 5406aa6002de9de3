"""What happens to q, k and v between the projection and attention, in one launch: QK-norm, rotary embedding, writing the KV cache.

Why fused: at decode sizes each of these is a launch of a microsecond around almost no work; fused, q is read and written once, k and v
are read once and go straight into their slots, quantized if the cache is. A slot of -1 (a padding row of a captured graph) writes nothing.

Shapes: q `[tokens, heads, head_dim]` (rotated in place), k, v `[tokens, kv_heads, head_dim]`: views of the fused projection will do.
caches `[num_blocks, block_size, kv_heads, head_dim]`; slot_mapping int64 `[tokens]`, slot = block * block_size + offset;
cos_sin `[max_positions, head_dim]` float32, cosines then sines; scales float32 `[num_blocks, block_size, kv_heads]`.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import FP8_MAX, INT8_MAX, cdiv, launch, next_power_of_2


@triton.jit
def _load_pairs(ptr, offsets, mask, HALF: tl.constexpr, INTERLEAVED: tl.constexpr):
    """The two members `[heads, HALF]` of each rotary pair, float32."""
    if INTERLEAVED:
        both = tl.load(ptr + offsets[:, None] + tl.arange(0, 2 * HALF)[None, :], mask=mask[:, None], other=0.0)
        a, b = tl.split(tl.reshape(both, [both.shape[0], HALF, 2]))
    else:
        col = tl.arange(0, HALF)[None, :]
        a = tl.load(ptr + offsets[:, None] + col, mask=mask[:, None], other=0.0)
        b = tl.load(ptr + offsets[:, None] + HALF + col, mask=mask[:, None], other=0.0)
    return a.to(tl.float32), b.to(tl.float32)


@triton.jit
def _store_pairs(ptr, offsets, a, b, mask, HALF: tl.constexpr, INTERLEAVED: tl.constexpr):
    if INTERLEAVED:
        both = tl.reshape(tl.join(a, b), [a.shape[0], 2 * HALF])
        tl.store(ptr + offsets[:, None] + tl.arange(0, 2 * HALF)[None, :], both.to(ptr.dtype.element_ty), mask=mask[:, None])
    else:
        col = tl.arange(0, HALF)[None, :]
        tl.store(ptr + offsets[:, None] + col, a.to(ptr.dtype.element_ty), mask=mask[:, None])
        tl.store(ptr + offsets[:, None] + HALF + col, b.to(ptr.dtype.element_ty), mask=mask[:, None])


@triton.jit
def _norm_and_rotate(a, b, norm_ptr, cos_sin_row, eps, HALF: tl.constexpr, INTERLEAVED: tl.constexpr, NORM: tl.constexpr):
    col = tl.arange(0, HALF)
    if NORM:
        first = col * 2 if INTERLEAVED else col
        second = first + 1 if INTERLEAVED else first + HALF
        scale = tl.rsqrt((tl.sum(a * a, 1) + tl.sum(b * b, 1)) / (2 * HALF) + eps)
        a = a * scale[:, None] * tl.load(norm_ptr + first).to(tl.float32)[None, :]
        b = b * scale[:, None] * tl.load(norm_ptr + second).to(tl.float32)[None, :]
    cos = tl.load(cos_sin_row + col).to(tl.float32)[None, :]
    sin = tl.load(cos_sin_row + HALF + col).to(tl.float32)[None, :]
    return a * cos - b * sin, b * cos + a * sin


@triton.jit
def _quantized(a, b, scale, LIMIT: tl.constexpr, ROUND: tl.constexpr):
    inverse = tl.where(scale > 0.0, 1.0 / tl.where(scale > 0.0, scale, 1.0), 0.0)[:, None]  # a zero row stays zero
    a = tl.minimum(tl.maximum(a * inverse, -LIMIT), LIMIT)
    b = tl.minimum(tl.maximum(b * inverse, -LIMIT), LIMIT)
    if ROUND:  # to nearest, ties to even: adding 1.5 * 2^23 leaves no bits below one
        a = (a + 12582912.0) - 12582912.0
        b = (b + 12582912.0) - 12582912.0
    return a, b


@triton.jit
def _rope_kv_kernel(
    q_ptr, k_ptr, v_ptr, k_cache, v_cache, k_scale, v_scale, q_norm, k_norm, positions, slot_mapping, cos_sin, eps,
    stride_qt, stride_qh, stride_kt, stride_kh, stride_vt, stride_vh, stride_ckb, stride_cks, stride_ckh,
    stride_cvb, stride_cvs, stride_cvh, stride_sb, stride_ss, stride_sh, stride_cs,
    NUM_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, KV_BLOCK: tl.constexpr, HALF: tl.constexpr, HEAD_BLOCK: tl.constexpr,
    Q_PROGRAMS: tl.constexpr, BLOCK_SIZE: tl.constexpr, INTERLEAVED: tl.constexpr, NORM: tl.constexpr,
    QUANTIZED: tl.constexpr, DYNAMIC: tl.constexpr, LIMIT: tl.constexpr, ROUND: tl.constexpr,
):  # fmt: skip
    """Programs 0 .. Q_PROGRAMS - 1 of a token rotate HEAD_BLOCK query heads each, the last one writes all of its k and v."""
    part = tl.program_id(0)
    token = tl.program_id(1).to(tl.int64)
    angles = cos_sin + tl.load(positions + token).to(tl.int64) * stride_cs
    if part < Q_PROGRAMS:
        head = part * HEAD_BLOCK + tl.arange(0, HEAD_BLOCK)
        offsets = token * stride_qt + head * stride_qh
        a, b = _load_pairs(q_ptr, offsets, head < NUM_HEADS, HALF, INTERLEAVED)
        a, b = _norm_and_rotate(a, b, q_norm, angles, eps, HALF, INTERLEAVED, NORM)
        _store_pairs(q_ptr, offsets, a, b, head < NUM_HEADS, HALF, INTERLEAVED)
    else:
        slot = tl.load(slot_mapping + token)
        if slot >= 0:
            page = slot // BLOCK_SIZE
            place = slot % BLOCK_SIZE
            head = tl.arange(0, KV_BLOCK)
            mask = head < KV_HEADS
            a, b = _load_pairs(k_ptr, token * stride_kt + head * stride_kh, mask, HALF, INTERLEAVED)
            a, b = _norm_and_rotate(a, b, k_norm, angles, eps, HALF, INTERLEAVED, NORM)
            c, d = _load_pairs(v_ptr, token * stride_vt + head * stride_vh, mask, HALF, False)
            if QUANTIZED:
                at = page * stride_sb + place * stride_ss + head * stride_sh
                if DYNAMIC:
                    ks = tl.maximum(tl.max(tl.abs(a), 1), tl.max(tl.abs(b), 1)) / LIMIT
                    vs = tl.maximum(tl.max(tl.abs(c), 1), tl.max(tl.abs(d), 1)) / LIMIT
                    tl.store(k_scale + at, ks, mask=mask)
                    tl.store(v_scale + at, vs, mask=mask)
                else:
                    ks = tl.load(k_scale + at, mask=mask, other=1.0)
                    vs = tl.load(v_scale + at, mask=mask, other=1.0)
                a, b = _quantized(a, b, ks, LIMIT, ROUND)
                c, d = _quantized(c, d, vs, LIMIT, ROUND)
            _store_pairs(k_cache, page * stride_ckb + place * stride_cks + head * stride_ckh, a, b, mask, HALF, INTERLEAVED)
            _store_pairs(v_cache, page * stride_cvb + place * stride_cvs + head * stride_cvh, c, d, mask, HALF, False)


def rope_kv_write(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    positions: torch.Tensor,
    cos_sin: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    slot_mapping: torch.Tensor,
    interleaved: bool = False,
    q_norm: torch.Tensor | None = None,
    k_norm: torch.Tensor | None = None,
    eps: float = 1e-6,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    dynamic_scale: bool = True,
) -> None:
    """Rotate q in place; rotate k and put k and v into their slots.

    interleaved: pairs (2i, 2i + 1) instead of (i, i + d/2). q_norm, k_norm: RMSNorm weights `[head_dim]` applied per head before rotating.
    For an FP8 or INT8 cache: dynamic_scale writes one scale per token and head (largest magnitude / 448 or 127), else the given scales
    (static, stride 0 where shared) are used and values beyond them saturate.
    """
    target = _common.target_of(q.device)
    tokens, heads, head_dim = q.shape
    kv_heads, block_size = k.shape[1], k_cache.shape[1]
    _common.require_head_dim(head_dim)
    _common.require_unit_stride(q=q, k=k, v=v, k_cache=k_cache, v_cache=v_cache, cos_sin=cos_sin, q_norm=q_norm, k_norm=k_norm)
    if (q_norm is None) != (k_norm is None):
        raise UserError("q_norm and k_norm come together")
    if cos_sin.shape[1] != head_dim:
        raise UserError(f"cos_sin must have head_dim = {head_dim} columns (cosines, then sines), got {cos_sin.shape[1]}")
    quantized = k_cache.dtype in (torch.int8, _common.FP8)
    if quantized and (k_scale is None or v_scale is None or k_scale.stride() != v_scale.stride()):
        raise UserError(f"a {k_cache.dtype} cache needs k_scale and v_scale with the same strides")
    if quantized and dynamic_scale and k_scale is not None and 0 in k_scale.stride()[:2]:
        raise UserError("per-token scales need a place per slot: k_scale is shared between slots (stride 0); say dynamic_scale=False")
    if k_cache.dtype == _common.FP8:
        _common.require_fp8(target)
    if tokens == 0:
        return
    if tokens > 65535:
        raise UserError(f"rope_kv_write takes at most 65,535 tokens a call, got {tokens}")
    head_block = min(next_power_of_2(heads), max(1, 1024 // head_dim))
    q_programs = cdiv(heads, head_block)
    sb, ss, sh = k_scale.stride() if quantized and k_scale is not None else (0, 0, 0)
    launch(
        _rope_kv_kernel, (q_programs + 1, tokens),
        q, k, v, k_cache, v_cache, k_scale, v_scale, q_norm, k_norm, positions, slot_mapping, cos_sin, eps,
        q.stride(0), q.stride(1), k.stride(0), k.stride(1), v.stride(0), v.stride(1), *k_cache.stride()[:3], *v_cache.stride()[:3],
        sb, ss, sh, cos_sin.stride(0),
        NUM_HEADS=heads, KV_HEADS=kv_heads, KV_BLOCK=next_power_of_2(kv_heads), HALF=head_dim // 2, HEAD_BLOCK=head_block,
        Q_PROGRAMS=q_programs, BLOCK_SIZE=block_size, INTERLEAVED=interleaved, NORM=q_norm is not None, QUANTIZED=quantized,
        DYNAMIC=dynamic_scale, LIMIT=FP8_MAX if k_cache.dtype == _common.FP8 else INT8_MAX, ROUND=k_cache.dtype == torch.int8,
        num_warps=4,
    )  # fmt: skip
