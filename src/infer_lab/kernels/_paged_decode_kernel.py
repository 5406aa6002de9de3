"""The kernel of paged decode (see paged_decode.py): one program is one KV head of one request and one range of its keys.

Its last act, for a request whose keys were split, is to announce its part; the program that announces last merges all parts.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _merge_splits(
    out_ptr, lse_ptr, part, part_lse, base, used, out_offset, out_mask, lse_offset,
    NUM_SPLITS: tl.constexpr, ROWS: tl.constexpr, HEAD_DIM: tl.constexpr, CHUNK: tl.constexpr, WRITE_LSE: tl.constexpr,
):  # fmt: skip
    """out = sum_s w_s part_s / sum_s w_s with w_s = 2^(lse_s - max lse). An empty part has lse -inf and weight 0."""
    r = tl.arange(0, ROWS)
    d = tl.arange(0, HEAD_DIM)
    s = tl.arange(0, NUM_SPLITS)
    lse_all = tl.load(
        part_lse + (base + s[:, None]) * ROWS + r[None, :], mask=(s < used)[:, None], other=float("-inf"), cache_modifier=".cg"
    )
    top = tl.max(lse_all, 0)
    top = tl.where(top == float("-inf"), 0.0, top)
    total = tl.sum(tl.exp2(lse_all - top[None, :]), 0)
    acc = tl.zeros([ROWS, HEAD_DIM], tl.float32)
    for s0 in tl.range(0, used, CHUNK):
        c = s0 + tl.arange(0, CHUNK)
        here = c < used
        row = (base + c[:, None]) * ROWS + r[None, :]
        w = tl.exp2(tl.load(part_lse + row, mask=here[:, None], other=float("-inf"), cache_modifier=".cg") - top[None, :])
        x = tl.load(part + row[:, :, None] * HEAD_DIM + d[None, None, :], mask=here[:, None, None], other=0.0, cache_modifier=".cg")
        acc += tl.sum(x * w[:, :, None], 0)
    acc = acc / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out_ptr + out_offset[:, None] + d[None, :], acc.to(out_ptr.dtype.element_ty), mask=out_mask[:, None])
    if WRITE_LSE:
        lse = tl.where(total == 0.0, float("-inf"), (top + tl.log2(tl.where(total == 0.0, 1.0, total))) / 1.4426950408889634)
        tl.store(lse_ptr + lse_offset, lse, mask=out_mask)


@triton.jit
def _unpack(words, FP8: tl.constexpr, PTX: tl.constexpr):
    """The even and the odd elements of 16-bit words that hold two 8-bit values, as float16; FP8 values come 256 times too small.

    By bits, so that the words reach the matrix unit the way float16 does: the four exponent bits of e4m3 go below the five of float16
    (the biases differ by 8), and an integer becomes the low bits of 1024 + n. In PTX two words at a time, elsewhere one.
    """
    if PTX and FP8:
        return tl.inline_asm_elementwise(
            "{.reg .b32 a, b; shl.b32 a, $2, 7; shl.b32 b, $2, 8; and.b32 a, a, 0x3f803f80; lop3.b32 $0, b, 0x80008000, a, 0xea;"
            " shr.b32 a, $2, 1; and.b32 a, a, 0x3f803f80; lop3.b32 $1, $2, 0x80008000, a, 0xea;}",
            "=r,=r,r", [words], dtype=(tl.float16, tl.float16), is_pure=True, pack=2,
        )  # fmt: skip
    if PTX:
        return tl.inline_asm_elementwise(
            "{.reg .b32 a, b, c; mov.b32 c, 0x64806480; lop3.b32 a, $2, 0x00ff00ff, 0x64806480, 0x6a; shr.b32 b, $2, 8;"
            " lop3.b32 b, b, 0x00ff00ff, 0x64806480, 0x6a; sub.f16x2 $0, a, c; sub.f16x2 $1, b, c;}",
            "=r,=r,r", [words], dtype=(tl.float16, tl.float16), is_pure=True, pack=2,
        )  # fmt: skip
    w = words.to(tl.uint16, bitcast=True)
    if FP8:
        even = ((w & 0x7F) << 7) | ((w & 0x80) << 8)
        odd = ((w >> 1) & 0x3F80) | (w & 0x8000)
        return even.to(tl.float16, bitcast=True), odd.to(tl.float16, bitcast=True)
    even = ((w & 0xFF) ^ 0x80) | 0x6400
    odd = ((w >> 8) ^ 0x80) | 0x6400
    return even.to(tl.float16, bitcast=True) - 1152.0, odd.to(tl.float16, bitcast=True) - 1152.0


@triton.jit
def _attend(
    acc, acc_odd, m, den, q, q_odd, k_ptr, v_ptr, k_scale, v_scale, table, lo, hi, position, scale_log2,
    stride_kb, stride_ks, stride_vb, stride_vs, stride_sb, stride_ss,
    WIDTH: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, SAME_STRIDES: tl.constexpr, WINDOW: tl.constexpr,
    QUANTIZED: tl.constexpr, FP8: tl.constexpr, MASKED: tl.constexpr, PRECISION: tl.constexpr, PTX: tl.constexpr,
):  # fmt: skip
    """Walk keys [lo, hi). Without MASKED the range is whole tiles and every row sees every key. WIDTH: elements or words of a row."""
    e = tl.arange(0, WIDTH)
    for n in tl.range(lo, hi, BLOCK_N):
        offs_n = n + tl.arange(0, BLOCK_N)
        exists = offs_n < hi
        if BLOCK_SIZE % BLOCK_N == 0:  # the tile lies in one page: one look-up
            page = tl.load(table + n // BLOCK_SIZE).to(tl.int64)
        elif MASKED:
            page = tl.load(table + offs_n // BLOCK_SIZE, mask=exists, other=0).to(tl.int64)
        else:
            page = tl.load(table + offs_n // BLOCK_SIZE).to(tl.int64)
        slot = offs_n % BLOCK_SIZE
        k_row = page * stride_kb + slot * stride_ks
        v_row = k_row
        if not SAME_STRIDES:
            v_row = page * stride_vb + slot * stride_vs
        if MASKED:
            k = tl.load(k_ptr + k_row[:, None] + e[None, :], mask=exists[:, None], other=0)
            v = tl.load(v_ptr + v_row[:, None] + e[None, :], mask=exists[:, None], other=0)
        else:
            k = tl.load(k_ptr + k_row[:, None] + e[None, :])
            v = tl.load(v_ptr + v_row[:, None] + e[None, :])
        if QUANTIZED:
            s_row = page * stride_sb + slot * stride_ss
            if MASKED:
                ks = tl.load(k_scale + s_row, mask=exists, other=0.0)
                vs = tl.load(v_scale + s_row, mask=exists, other=0.0)
            else:
                ks = tl.load(k_scale + s_row)
                vs = tl.load(v_scale + s_row)
            k_even, k_odd = _unpack(tl.trans(k), FP8, PTX)
            s = tl.dot(q, k_even)
            s = tl.dot(q_odd, k_odd, s) * (ks * scale_log2)[None, :]
        else:
            s = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale_log2
        if MASKED:
            seen = exists[None, :] & (offs_n[None, :] <= position[:, None])
            if WINDOW > 0:
                seen &= offs_n[None, :] > position[:, None] - WINDOW
            s = tl.where(seen, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        base = m_new
        if MASKED:
            base = tl.where(m_new == float("-inf"), 0.0, m_new)  # nothing seen yet: exp2(-inf - 0) is 0, not NaN
        p = tl.exp2(s - base[:, None])
        alpha = tl.exp2(m - base)
        den = den * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        if QUANTIZED:
            # scales relative to the tile's largest keep p in the range of float16
            top = tl.max(vs, 0)
            p = (p * (vs / tl.where(top > 0.0, top, 1.0))[None, :]).to(tl.float16)
            v_even, v_odd = _unpack(v, FP8, PTX)
            acc += tl.dot(p, v_even) * top
            acc_odd = acc_odd * alpha[:, None] + tl.dot(p, v_odd) * top
        else:
            acc = tl.dot(p.to(q.dtype), v, acc, input_precision=PRECISION)
        m = m_new
    return acc, acc_odd, m, den


@triton.jit(do_not_specialize=["splits", "min_split_blocks", "max_query_len"])
def decode_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, k_scale, v_scale, block_table, cu_seqlens_q, seq_lens, part, part_lse, arrived,
    scale_log2, max_query_len, splits, min_split_blocks,
    stride_qt, stride_qh, stride_kb, stride_ks, stride_kh, stride_vb, stride_vs, stride_vh,
    stride_sb, stride_ss, stride_sh, stride_ot, stride_oh, stride_lt, stride_lh, stride_table,
    KV_HEADS: tl.constexpr, GROUP: tl.constexpr, HEAD_DIM: tl.constexpr, ROWS: tl.constexpr, TILE_ROWS: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, NUM_SPLITS: tl.constexpr, CHUNK: tl.constexpr, WINDOW: tl.constexpr,
    QUANTIZED: tl.constexpr, FP8: tl.constexpr, SAME_STRIDES: tl.constexpr, WRITE_LSE: tl.constexpr, PRECISION: tl.constexpr,
    PTX: tl.constexpr,
):  # fmt: skip
    """One program is one KV head of one request and one range of its keys.

    ROWS: query rows rounded up to a power of two; TILE_ROWS: the same, at least the 16 that the matrix unit takes.
    `splits` programs share a request, at most NUM_SPLITS: a bound, so that batches of any size run the same compiled kernel.
    """
    kv_head = tl.program_id(0)
    split = tl.program_id(1)
    request = tl.program_id(2)
    q_start = tl.load(cu_seqlens_q + request)
    q_len = tl.load(cu_seqlens_q + request + 1) - q_start
    kv_len = tl.load(seq_lens + request)  # before the branch: one wait for all three
    if (q_len == 0) | (q_len > max_query_len):
        return
    lo = 0
    if WINDOW > 0:
        lo = tl.maximum(kv_len - q_len - WINDOW + 1, 0) // BLOCK_N * BLOCK_N
    blocks = (kv_len - lo + BLOCK_N - 1) // BLOCK_N
    per_split = tl.maximum((blocks + splits - 1) // splits, min_split_blocks)
    used = tl.maximum((blocks + per_split - 1) // per_split, 1)
    if split >= used:  # an empty split leaves no part and is not waited for
        return
    lo += split * per_split * BLOCK_N
    hi = tl.minimum(lo + per_split * BLOCK_N, kv_len)

    r = tl.arange(0, TILE_ROWS)
    d = tl.arange(0, HEAD_DIM)
    token = r // GROUP
    head = kv_head * GROUP + r % GROUP
    valid = token < q_len
    position = tl.where(valid, kv_len - q_len + token, -1)
    q_row = (q_start + token).to(tl.int64)
    q_at = q_ptr + (q_row * stride_qt + head * stride_qh)[:, None]
    k_ptr += kv_head.to(tl.int64) * stride_kh
    v_ptr += kv_head.to(tl.int64) * stride_vh
    table = block_table + request.to(tl.int64) * stride_table
    WIDTH: tl.constexpr = HEAD_DIM // 2 if QUANTIZED else HEAD_DIM
    e = tl.arange(0, WIDTH)
    if QUANTIZED:  # words of two elements: the even and the odd ones are multiplied apart
        q = tl.load(q_at + 2 * e[None, :], mask=valid[:, None], other=0.0).to(tl.float16)
        q_odd = tl.load(q_at + 2 * e[None, :] + 1, mask=valid[:, None], other=0.0).to(tl.float16)
        k_scale += kv_head * stride_sh
        v_scale += kv_head * stride_sh
        if FP8:
            scale_log2 *= 256.0
    else:
        q = tl.load(q_at + e[None, :], mask=valid[:, None], other=0.0)
        q_odd = q
    acc = tl.zeros([TILE_ROWS, WIDTH], tl.float32)
    acc_odd = acc
    m = tl.full([TILE_ROWS], float("-inf"), tl.float32)
    den = tl.zeros([TILE_ROWS], tl.float32)
    plain = lo  # keys before this are seen by every row, and tiles up to it are whole
    if WINDOW == 0:
        plain = tl.maximum(lo, tl.minimum(hi, kv_len - q_len + 1) // BLOCK_N * BLOCK_N)
    acc, acc_odd, m, den = _attend(
        acc, acc_odd, m, den, q, q_odd, k_ptr, v_ptr, k_scale, v_scale, table, lo, plain, position, scale_log2,
        stride_kb, stride_ks, stride_vb, stride_vs, stride_sb, stride_ss,
        WIDTH, BLOCK_N, BLOCK_SIZE, SAME_STRIDES, WINDOW, QUANTIZED, FP8, False, PRECISION, PTX,
    )  # fmt: skip
    acc, acc_odd, m, den = _attend(
        acc, acc_odd, m, den, q, q_odd, k_ptr, v_ptr, k_scale, v_scale, table, plain, hi, position, scale_log2,
        stride_kb, stride_ks, stride_vb, stride_vs, stride_sb, stride_ss,
        WIDTH, BLOCK_N, BLOCK_SIZE, SAME_STRIDES, WINDOW, QUANTIZED, FP8, True, PRECISION, PTX,
    )  # fmt: skip

    if QUANTIZED:
        acc = tl.reshape(tl.join(acc, acc_odd), [TILE_ROWS, HEAD_DIM])
        if FP8:
            acc *= 256.0
    acc = acc / tl.where(den == 0.0, 1.0, den)[:, None]
    lse2 = tl.where(den == 0.0, float("-inf"), m + tl.log2(tl.where(den == 0.0, 1.0, den)))
    if used == 1:
        out_offset = q_row * stride_ot + head * stride_oh
        tl.store(out_ptr + out_offset[:, None] + d[None, :], acc.to(out_ptr.dtype.element_ty), mask=valid[:, None])
        if WRITE_LSE:
            tl.store(lse_ptr + q_row * stride_lt + head * stride_lh, lse2 / 1.4426950408889634, mask=valid)
    elif NUM_SPLITS > 1:
        pair = request * KV_HEADS + kv_head
        base = pair.to(tl.int64) * splits
        mine = (base + split) * ROWS + r
        tl.store(part + mine[:, None] * HEAD_DIM + d[None, :], acc, mask=(r < ROWS)[:, None])
        tl.store(part_lse + mine, lse2, mask=r < ROWS)
        tl.debug_barrier()  # every warp's part is written before the one atomic that announces it
        before = tl.atomic_add(arrived + pair, 1, sem="acq_rel", scope="gpu")
        if before == used - 1:
            rows = tl.arange(0, ROWS)
            token_m = rows // GROUP
            head_m = kv_head * GROUP + rows % GROUP
            row_m = (q_start + token_m).to(tl.int64)
            _merge_splits(
                out_ptr, lse_ptr, part, part_lse, base, used, row_m * stride_ot + head_m * stride_oh, token_m < q_len,
                row_m * stride_lt + head_m * stride_lh, NUM_SPLITS, ROWS, HEAD_DIM, CHUNK, WRITE_LSE,
            )  # fmt: skip
            tl.store(arrived + pair, 0)  # ready for the next launch
