"""Flash prefill for Hopper, written with explicit warp roles (Gluon): one warp feeds, two warpgroups compute.

Why: on sm_90 the matrix unit is busy only if nothing else stands in its way. A producer warp keeps the bulk copy engine (TMA) ahead by a
few tiles; each consumer warpgroup owns 64 query rows and issues the next tile's Q·Kᵀ and this tile's P·V before it does the
exponentials in between, so the exponentials of one warpgroup run under the matrix products of both (FlashAttention-3, Shah et al. 2024).
The tiles of a row are walked from the diagonal to the first key: only the first ones need masks.

Memory map of a block: q [consumers][64, D] · k [stages][N, D] · v [stages][N, D], each in the 128-byte swizzle that wgmma reads, and one
pair of barriers (full, free) per stage of k and of v.

Slots past a request's length are never used: keys are masked, and the rows of the last value tile that do not belong to the request are
zeroed in shared memory by the producer (0 · NaN would be NaN).
"""

# pyright: reportGeneralTypeIssues=false, reportCallIssue=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportAssignmentType=false, reportIndexIssue=false, reportOptionalMemberAccess=false, reportOperatorIssue=false
from __future__ import annotations

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

CONSUMER_ROWS = gl.constexpr(64)


@gluon.jit
def _add(a, b):
    return a + b


@gluon.jit
def _locate_tile(cu_seqlens_q, num_requests, tile, min_query_len, BLOCK_M: gl.constexpr, REQUESTS: gl.constexpr):
    """As _programs.locate_tile."""
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    r = gl.arange(0, REQUESTS, layout)
    start = gl.load(cu_seqlens_q + r, mask=r < num_requests, other=0)
    end = gl.load(cu_seqlens_q + r + 1, mask=r < num_requests, other=0)
    length = end - start
    tiles = gl.where(length >= min_query_len, (length + BLOCK_M - 1) // BLOCK_M, 0)
    ends = gl.associative_scan(tiles, 0, _add)
    before = ends <= tile
    request = gl.sum(before.to(gl.int32), 0)
    first = gl.sum(gl.where(before, tiles, 0), 0)
    return request, tile - first


@gluon.jit
def _copy_tile(
    desc, block, buffer, ready, table, num_pages, row0, rows_per_page, column,
    N: gl.constexpr, BOX: gl.constexpr, BLOCK_SIZE: gl.constexpr,
):  # fmt: skip
    """One tile of N keys or values into shared memory: a single box when dense or in one page, else a box a page."""
    if BLOCK_SIZE == 0:
        tma.async_copy_global_to_shared(desc, [row0 + block * N, column], ready, buffer)
    else:
        for i in gl.static_range(N // BOX):
            key = block * N + i * BOX
            page = gl.load(table + key // BLOCK_SIZE, mask=key // BLOCK_SIZE < num_pages, other=-1)
            row = page * rows_per_page + key % BLOCK_SIZE  # a page that is not there lies before row 0: zeros
            tma.async_copy_global_to_shared(desc, [row, column], ready, buffer.slice(i * BOX, BOX))


@gluon.jit
def _zero_tail(buffer, rows, N: gl.constexpr, D: gl.constexpr):
    """Zero the rows of a value tile from `rows` on, a few rows at a time: this warp has few registers."""
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [1, 1], [1, 0])
    STEP: gl.constexpr = 16 if D == 64 else 8
    for i in gl.static_range(N // STEP):
        if (i + 1) * STEP > rows:
            part = buffer.slice(i * STEP, STEP)
            at = i * STEP + gl.arange(0, STEP, gl.SliceLayout(1, layout))
            part.store(gl.where((at < rows)[:, None], part.load(layout), 0.0))
    fence_async_shared()


@gluon.jit
def _producer(
    q_desc, k_desc, v_desc, q_bufs, k_bufs, v_bufs, q_ready, k_ready, k_free, v_ready, v_free, tail_ready, table, num_pages,
    q_row, q_column, k_row0, k_rows_per_page, k_column, v_row0, v_rows_per_page, v_column, first_block, num_blocks, tail_rows,
    N: gl.constexpr, D: gl.constexpr, BOX: gl.constexpr, BLOCK_SIZE: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr,
):  # fmt: skip
    for c in gl.static_range(CONSUMERS):
        mbarrier.expect(q_ready.index(c), q_desc.block_type.nbytes)
        tma.async_copy_global_to_shared(q_desc, [q_row + c * CONSUMER_ROWS, q_column], q_ready.index(c), q_bufs.index(c))
    tile_bytes: gl.constexpr = N * D * 2
    for i in range(num_blocks):
        stage = i % STAGES
        phase = (i // STAGES) & 1
        block = first_block + num_blocks - 1 - i
        mbarrier.wait(k_free.index(stage), phase ^ 1)
        mbarrier.expect(k_ready.index(stage), tile_bytes)
        _copy_tile(
            k_desc,
            block,
            k_bufs.index(stage),
            k_ready.index(stage),
            table,
            num_pages,
            k_row0,
            k_rows_per_page,
            k_column,
            N,
            BOX,
            BLOCK_SIZE,
        )
        mbarrier.wait(v_free.index(stage), phase ^ 1)
        if (i == 0) & (tail_rows < N):
            mbarrier.expect(tail_ready, tile_bytes)
            _copy_tile(
                v_desc, block, v_bufs.index(stage), tail_ready, table, num_pages, v_row0, v_rows_per_page, v_column, N, BOX, BLOCK_SIZE
            )
            mbarrier.wait(tail_ready, 0)
            _zero_tail(v_bufs.index(stage), tail_rows, N, D)
            mbarrier.arrive(v_ready.index(stage), count=1)
        else:
            mbarrier.expect(v_ready.index(stage), tile_bytes)
            _copy_tile(
                v_desc,
                block,
                v_bufs.index(stage),
                v_ready.index(stage),
                table,
                num_pages,
                v_row0,
                v_rows_per_page,
                v_column,
                N,
                BOX,
                BLOCK_SIZE,
            )


@gluon.jit
def _masked(s, block, position, kv_len, N: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr):
    layout: gl.constexpr = s.type.layout
    key = block * N + gl.arange(0, N, gl.SliceLayout(0, layout))
    if CAUSAL:
        seen = key[None, :] <= position[:, None]
        if WINDOW > 0:
            seen = seen & (key[None, :] > position[:, None] - WINDOW)
    else:
        seen = (key[None, :] < kv_len) & (position[:, None] >= 0)
    return gl.where(seen, s, float("-inf"))


@gluon.jit
def _softmax(s, m, total, scale_log2, GUARD: gl.constexpr):
    """(p, new maximum, new sum, factor for what was accumulated). GUARD: a row may have seen nothing yet."""
    m_new = gl.maximum(m, gl.max(s, 1) * scale_log2)
    base = m_new
    if GUARD:
        base = gl.where(m_new == float("-inf"), 0.0, m_new)
    p = gl.exp2(s * scale_log2 - base[:, None])
    alpha = gl.exp2(m - base)
    return p, m_new, total * alpha + gl.sum(p, 1), alpha


@gluon.jit
def _step(
    i, q, k_bufs, v_bufs, k_ready, k_free, v_ready, v_free, o, p, m, total, position, kv_len, last_block, num_blocks, scale_log2,
    N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, MASKED: gl.constexpr,
):  # fmt: skip
    """Scores of tile i and P·V of tile i - 1 in flight together; the exponentials wait for the scores alone. Keys of tile i are there."""
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    k_stage = i % STAGES
    v_stage = (i - 1) % STAGES
    zeros = gl.zeros([CONSUMER_ROWS, N], gl.float32, s_layout)
    s = warpgroup_mma(q, k_bufs.index(k_stage).permute((1, 0)), zeros, use_acc=False, is_async=True)
    mbarrier.wait(v_ready.index(v_stage), ((i - 1) // STAGES) & 1)
    o = warpgroup_mma(p, v_bufs.index(v_stage), o, is_async=True)
    s = warpgroup_mma_wait(1, deps=[s])
    mbarrier.arrive(k_free.index(k_stage), count=1)
    if MASKED:
        s = _masked(s, last_block - i, position, kv_len, N, CAUSAL, WINDOW)
    weights, m, total, alpha = _softmax(s, m, total, scale_log2, MASKED)
    next_p = gl.convert_layout(weights.to(k_bufs.dtype), p_layout)
    # The wait for the next keys stands here because it is a branch: the assembler would sink the exponentials below the wait for P·V.
    mbarrier.wait(k_ready.index((i + 1) % STAGES), ((i + 1) // STAGES) & 1, pred=i + 1 < num_blocks)
    o, p, next_p = warpgroup_mma_wait(0, deps=[o, p, next_p])
    mbarrier.arrive(v_free.index(v_stage), count=1)
    return o * gl.convert_layout(alpha, gl.SliceLayout(1, o_layout))[:, None], next_p, m, total


@gluon.jit
def _consumer(
    WHICH: gl.constexpr, q_bufs, k_bufs, v_bufs, q_ready, k_ready, k_free, v_ready, v_free, out_ptr, lse_ptr,
    q_start, q_len, kv_len, first, head, first_block, num_blocks, scale_log2, stride_ot, stride_oh, stride_lt, stride_lh,
    N: gl.constexpr, D: gl.constexpr, STAGES: gl.constexpr, CAUSAL: gl.constexpr, WINDOW: gl.constexpr, WRITE_LSE: gl.constexpr,
):  # fmt: skip
    s_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, N, 16])
    o_layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, D, 16])
    p_layout: gl.constexpr = gl.DotOperandLayout(0, o_layout, 2)
    row0 = first + WHICH * CONSUMER_ROWS
    row = row0 + gl.arange(0, CONSUMER_ROWS, gl.SliceLayout(1, s_layout))
    position = gl.where(row < q_len, row + kv_len - q_len, -1)
    last_block = first_block + num_blocks - 1
    # tiles that every row of this warpgroup sees whole need no mask; the others come first
    if CAUSAL:
        plain = gl.maximum(row0 + kv_len - q_len + 1, 0) // N - first_block
    else:
        plain = kv_len // N
    masked = gl.minimum(gl.maximum(num_blocks - plain, 1), num_blocks)
    if WINDOW > 0:
        masked = num_blocks

    m = gl.full([CONSUMER_ROWS], float("-inf"), gl.float32, gl.SliceLayout(1, s_layout))
    total = gl.zeros([CONSUMER_ROWS], gl.float32, gl.SliceLayout(1, s_layout))
    o = gl.zeros([CONSUMER_ROWS, D], gl.float32, o_layout)
    q = q_bufs.index(WHICH)
    mbarrier.wait(q_ready.index(WHICH), 0)
    mbarrier.wait(k_ready.index(0), 0)
    zeros = gl.zeros([CONSUMER_ROWS, N], gl.float32, s_layout)
    s = warpgroup_mma(q, k_bufs.index(0).permute((1, 0)), zeros, use_acc=False, is_async=True)
    s = warpgroup_mma_wait(0, deps=[s])
    mbarrier.arrive(k_free.index(0), count=1)
    s = _masked(s, last_block, position, kv_len, N, CAUSAL, WINDOW)
    weights, m, total, _ = _softmax(s, m, total, scale_log2, True)
    p = gl.convert_layout(weights.to(k_bufs.dtype), p_layout)
    mbarrier.wait(k_ready.index(1 % STAGES), (1 // STAGES) & 1, pred=num_blocks > 1)
    for i in range(1, masked):
        o, p, m, total = _step(
            i, q, k_bufs, v_bufs, k_ready, k_free, v_ready, v_free, o, p, m, total, position, kv_len, last_block, num_blocks,
            scale_log2, N, D, STAGES, CAUSAL, WINDOW, True,
        )  # fmt: skip
    for i in range(masked, num_blocks):
        o, p, m, total = _step(
            i, q, k_bufs, v_bufs, k_ready, k_free, v_ready, v_free, o, p, m, total, position, kv_len, last_block, num_blocks,
            scale_log2, N, D, STAGES, CAUSAL, WINDOW, False,
        )  # fmt: skip
    stage = (num_blocks - 1) % STAGES
    mbarrier.wait(v_ready.index(stage), ((num_blocks - 1) // STAGES) & 1)
    o = warpgroup_mma(p, v_bufs.index(stage), o, is_async=True)
    o, p = warpgroup_mma_wait(0, deps=[o, p])

    token = (q_start + row).to(gl.int64)
    if WRITE_LSE:
        lse = gl.where(total == 0.0, float("-inf"), (m + gl.log2(gl.where(total == 0.0, 1.0, total))) / 1.4426950408889634)
        gl.store(lse_ptr + token * stride_lt + head * stride_lh, lse, mask=row < q_len)
    inverse = 1.0 / gl.where(total == 0.0, 1.0, total)
    o = o * gl.convert_layout(inverse, gl.SliceLayout(1, o_layout))[:, None]
    store_layout: gl.constexpr = gl.BlockedLayout([1, 8], [256 // D, D // 8], [4, 1], [1, 0])
    q.store(o.to(out_ptr.dtype.element_ty))  # the queries are done with: their place turns the accumulator into rows
    gl.thread_barrier()
    y = q.load(store_layout)
    store_row = row0 + gl.arange(0, CONSUMER_ROWS, gl.SliceLayout(1, store_layout))
    d = gl.arange(0, D, gl.SliceLayout(0, store_layout))
    at = (q_start + store_row).to(gl.int64) * stride_ot + head * stride_oh
    gl.store(out_ptr + at[:, None] + d[None, :], y, mask=(store_row < q_len)[:, None])


@gluon.jit(do_not_specialize=["num_requests", "min_query_len"])
def hopper_prefill_kernel(
    q_desc, k_desc, v_desc, out_ptr, lse_ptr, block_table, cu_seqlens_q, key_bounds, num_requests, min_query_len, scale_log2,
    k_rows_per_page, v_rows_per_page, q_head_columns, k_head_columns, v_head_columns,
    stride_ot, stride_oh, stride_lt, stride_lh, stride_table,
    GROUP: gl.constexpr, HEADS_TOGETHER: gl.constexpr, D: gl.constexpr, N: gl.constexpr, BOX: gl.constexpr,
    BLOCK_SIZE: gl.constexpr, STAGES: gl.constexpr, CONSUMERS: gl.constexpr, REQUESTS: gl.constexpr, CAUSAL: gl.constexpr,
    WINDOW: gl.constexpr, WRITE_LSE: gl.constexpr, CONSUMER_REGS: gl.constexpr, PRODUCER_REGS: gl.constexpr,
):  # fmt: skip
    BLOCK_M: gl.constexpr = CONSUMERS * CONSUMER_ROWS
    head = gl.program_id(1) * HEADS_TOGETHER + gl.program_id(0) % HEADS_TOGETHER
    request, tile = _locate_tile(cu_seqlens_q, num_requests, gl.program_id(0) // HEADS_TOGETHER, min_query_len, BLOCK_M, REQUESTS)
    exists = request < num_requests  # a program past the last tile walks one tile of nothing and stores nothing
    request = gl.minimum(request, num_requests - 1)
    q_start = gl.load(cu_seqlens_q + request)
    q_len = gl.where(exists, gl.load(cu_seqlens_q + request + 1) - q_start, 0)
    first = gl.maximum((q_len + BLOCK_M - 1) // BLOCK_M - 1 - tile, 0) * BLOCK_M  # late tiles, which see most keys, start first
    kv_row0 = 0
    table = block_table
    if BLOCK_SIZE == 0:
        kv_row0 = gl.load(key_bounds + request)
        kv_len = gl.load(key_bounds + request + 1) - kv_row0
        num_pages = 0
    else:
        kv_len = gl.load(key_bounds + request)
        table = block_table + request.to(gl.int64) * stride_table
        num_pages = (kv_len + BLOCK_SIZE - 1) // BLOCK_SIZE
    kv_len = gl.where(exists, kv_len, 0)
    last_key = kv_len
    first_block = 0
    if CAUSAL:
        last_key = gl.minimum(kv_len, first + BLOCK_M + kv_len - q_len)
    if WINDOW > 0:
        first_block = gl.maximum(first + kv_len - q_len - WINDOW + 1, 0) // N
    num_blocks = gl.maximum((last_key + N - 1) // N - first_block, 1)
    tail_rows = kv_len - (first_block + num_blocks - 1) * N

    dtype: gl.constexpr = q_desc.dtype
    barrier: gl.constexpr = mbarrier.MBarrierLayout()
    q_bufs = gl.allocate_shared_memory(dtype, [CONSUMERS, CONSUMER_ROWS, D], q_desc.layout)
    k_bufs = gl.allocate_shared_memory(dtype, [STAGES, N, D], k_desc.layout)
    v_bufs = gl.allocate_shared_memory(dtype, [STAGES, N, D], v_desc.layout)
    q_ready = gl.allocate_shared_memory(gl.int64, [CONSUMERS, 1], barrier)
    k_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    k_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    v_ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    v_free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], barrier)
    tail_ready = gl.allocate_shared_memory(gl.int64, [1], barrier)
    for c in gl.static_range(CONSUMERS):
        mbarrier.init(q_ready.index(c), count=1)
    for s in gl.static_range(STAGES):
        mbarrier.init(k_ready.index(s), count=1)
        mbarrier.init(k_free.index(s), count=CONSUMERS)
        mbarrier.init(v_ready.index(s), count=1)
        mbarrier.init(v_free.index(s), count=CONSUMERS)
    mbarrier.init(tail_ready, count=1)
    fence_async_shared()

    kv_head = head // GROUP
    gl.warp_specialize(
        [
            (_consumer, (
                0, q_bufs, k_bufs, v_bufs, q_ready, k_ready, k_free, v_ready, v_free, out_ptr, lse_ptr, q_start, q_len, kv_len,
                first, head, first_block, num_blocks, scale_log2, stride_ot, stride_oh, stride_lt, stride_lh,
                N, D, STAGES, CAUSAL, WINDOW, WRITE_LSE,
            )),
            (_consumer, (
                1, q_bufs, k_bufs, v_bufs, q_ready, k_ready, k_free, v_ready, v_free, out_ptr, lse_ptr, q_start, q_len, kv_len,
                first, head, first_block, num_blocks, scale_log2, stride_ot, stride_oh, stride_lt, stride_lh,
                N, D, STAGES, CAUSAL, WINDOW, WRITE_LSE,
            )),
            (_producer, (
                q_desc, k_desc, v_desc, q_bufs, k_bufs, v_bufs, q_ready, k_ready, k_free, v_ready, v_free, tail_ready, table, num_pages,
                q_start + first, head * q_head_columns, kv_row0, k_rows_per_page, kv_head * k_head_columns, kv_row0, v_rows_per_page,
                kv_head * v_head_columns, first_block, num_blocks, tail_rows, N, D, BOX, BLOCK_SIZE, STAGES, CONSUMERS,
            )),
        ],
        [4, 1],
        [CONSUMER_REGS, PRODUCER_REGS],
    )  # fmt: skip
