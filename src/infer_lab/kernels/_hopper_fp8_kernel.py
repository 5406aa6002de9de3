"""The FP8 product for Hopper with explicit warp roles (Gluon): one warp feeds, two warpgroups multiply.

Why: FP8 sums must move to float32 registers every 128 columns (see _w8a8), and the compiler's own pipeline does that with the matrix unit
standing still. Here each warpgroup has two partial sums, and one is added up while the product into the other runs (the scheme of
DeepGEMM, one step deeper).

Memory map of a block: a [stages][2 consumers][64, 128] · b [stages][128, 128] · y [2 consumers][64, 128], in the swizzle that the matrix
unit and the copy engine share; one pair of barriers (ready, free) per stage. The grid is persistent: the producer is already fetching
the next tile while the results of the last one are stored.
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


@gluon.jit
def _place(tile, tiles_a, tiles_b, BAND: gl.constexpr):
    """Tiles go in bands of BAND tile rows, so that neighbours share operands in the L2."""
    band = tile // (BAND * tiles_b)
    rows = gl.minimum(tiles_a - band * BAND, BAND)
    place = tile - band * (BAND * tiles_b)
    return band * BAND + place % rows, place // rows


@gluon.jit
def _producer(
    a_desc, b_desc, a_bufs, b_bufs, ready, free, tiles_a, tiles_b, pairs,
    BLOCK_B: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, BAND: gl.constexpr,
):  # fmt: skip
    i = 0
    for tile in range(gl.program_id(0), tiles_a * tiles_b, gl.num_programs(0)):
        ta, tb = _place(tile, tiles_a, tiles_b, BAND)
        for step in range(2 * pairs):
            stage = i % STAGES
            mbarrier.wait(free.index(stage), ((i // STAGES) & 1) ^ 1)
            bar = ready.index(stage)
            mbarrier.expect(bar, (128 + BLOCK_B) * BLOCK_K)
            tma.async_copy_global_to_shared(a_desc, [ta * 128, step * BLOCK_K], bar, a_bufs.index(2 * stage))
            tma.async_copy_global_to_shared(a_desc, [ta * 128 + 64, step * BLOCK_K], bar, a_bufs.index(2 * stage + 1))
            tma.async_copy_global_to_shared(b_desc, [tb * BLOCK_B, step * BLOCK_K], bar, b_bufs.index(stage))
            i += 1


@gluon.jit
def _product(i, zeros, WHICH: gl.constexpr, a_bufs, b_bufs, ready, STAGES: gl.constexpr):
    """Issue the product of step i, 128 columns, and go on without waiting for it."""
    stage = i % STAGES
    mbarrier.wait(ready.index(stage), (i // STAGES) & 1)
    a = a_bufs.index(2 * stage + WHICH)
    b = b_bufs.index(stage).permute((1, 0))
    return warpgroup_mma(a, b, zeros, use_acc=False, is_async=True)


@gluon.jit
def _consumer(
    WHICH: gl.constexpr, y_desc, a_bufs, b_bufs, y_bufs, ready, free, scale_a, scale_b, A, B, tiles_a, tiles_b, pairs,
    BLOCK_B: gl.constexpr, STAGES: gl.constexpr, BAND: gl.constexpr,
):  # fmt: skip
    layout: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BLOCK_B, 32])
    zeros = gl.zeros([64, BLOCK_B], gl.float32, layout)
    y = y_bufs.index(WHICH)
    i = 0
    for tile in range(gl.program_id(0), tiles_a * tiles_b, gl.num_programs(0)):
        ta, tb = _place(tile, tiles_a, tiles_b, BAND)
        acc = gl.zeros([64, BLOCK_B], gl.float32, layout)
        for _ in range(pairs):
            # Nothing may be in flight where a loop turns: the assembler would then run all products one after the other.
            even = _product(i, zeros, WHICH, a_bufs, b_bufs, ready, STAGES)
            odd = _product(i + 1, zeros, WHICH, a_bufs, b_bufs, ready, STAGES)
            even = warpgroup_mma_wait(1, deps=[even])
            mbarrier.arrive(free.index(i % STAGES), count=1)
            acc += even
            odd = warpgroup_mma_wait(0, deps=[odd])
            mbarrier.arrive(free.index((i + 1) % STAGES), count=1)
            acc += odd
            i += 2

        row = ta * 128 + WHICH * 64 + gl.arange(0, 64, gl.SliceLayout(1, layout))
        column = tb * BLOCK_B + gl.arange(0, BLOCK_B, gl.SliceLayout(0, layout))
        sa = gl.load(scale_a + row, mask=row < A, other=0.0)
        sb = gl.load(scale_b + column, mask=column < B, other=0.0)
        scaled = acc * sa[:, None] * sb[None, :]
        tma.store_wait(0)
        gl.thread_barrier()
        y.store(scaled.to(y_desc.dtype))
        fence_async_shared()
        gl.thread_barrier()
        tma.async_copy_shared_to_global(y_desc, [ta * 128 + WHICH * 64, tb * BLOCK_B], y)
    tma.store_wait(0)


@gluon.jit(do_not_specialize=["A", "B"])
def hopper_fp8_kernel(
    a_desc, b_desc, y_desc, scale_a, scale_b, A, B, K,
    BLOCK_B: gl.constexpr, BLOCK_K: gl.constexpr, STAGES: gl.constexpr, BAND: gl.constexpr,
):  # fmt: skip
    """y [A, B] = scale_a[:, None] * scale_b[None, :] * (a [A, K] b [B, K]T); tiles of 128 by BLOCK_B, 64 rows to each consumer."""
    tiles_a = gl.cdiv(A, 128)
    tiles_b = gl.cdiv(B, BLOCK_B)
    pairs = gl.cdiv(K, 2 * BLOCK_K)  # a step past K adds zeros
    a_bufs = gl.allocate_shared_memory(a_desc.dtype, [2 * STAGES, 64, BLOCK_K], a_desc.layout)
    b_bufs = gl.allocate_shared_memory(b_desc.dtype, [STAGES, BLOCK_B, BLOCK_K], b_desc.layout)
    y_bufs = gl.allocate_shared_memory(y_desc.dtype, [2, 64, BLOCK_B], y_desc.layout)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    free = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for s in gl.static_range(STAGES):
        mbarrier.init(ready.index(s), count=1)
        mbarrier.init(free.index(s), count=2)
    fence_async_shared()
    gl.warp_specialize(
        [
            (_consumer, (
                0, y_desc, a_bufs, b_bufs, y_bufs, ready, free, scale_a, scale_b, A, B, tiles_a, tiles_b, pairs,
                BLOCK_B, STAGES, BAND,
            )),
            (_consumer, (
                1, y_desc, a_bufs, b_bufs, y_bufs, ready, free, scale_a, scale_b, A, B, tiles_a, tiles_b, pairs,
                BLOCK_B, STAGES, BAND,
            )),
            (_producer, (a_desc, b_desc, a_bufs, b_bufs, ready, free, tiles_a, tiles_b, pairs, BLOCK_B, BLOCK_K, STAGES, BAND)),
        ],
        [4, 1],
        [232, 40],
    )  # fmt: skip
