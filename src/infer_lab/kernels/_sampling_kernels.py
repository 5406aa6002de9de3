"""The passes of the sampler (see sampling.py for what they add up to). Each is one read of the logits by a grid of (chunks, rows).

Each program leaves the figures of its chunk; the program of a row that arrives last adds them up in the order of the chunks, so a sum does
not depend on who was last. All passes must see the same score for the same token to the last bit: they share `_scores`, and are
launched without floating-point contraction, which could round `top - score` differently from one kernel to the next.

State of a row, float32: 0 best score · 1 target · 2 threshold · 3 top edge of the bracket · 4 1 / fine bin width · 5 sum of weights.
State of a row, int32: 0 grid line of the best · 1, 2 first and last coarse bin of the bracket · 3, 4 the same of the fine bins.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-3.0e38)


@triton.jit
def _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES: tl.constexpr):
    """Score of each token: penalties, then the temperature. NaN and columns past the vocabulary count as -3e38: never chosen.

    Penalties: repetition divides positive logits and multiplies negative ones of tokens seen in prompt or output; frequency subtracts
    per occurrence in the output, presence once (the OpenAI definitions count output alone).
    """
    here = col < vocab
    x = tl.load(logits + row * stride + col, mask=here, other=LOWEST).to(tl.float32)
    x = tl.where(x == x, x, LOWEST)
    if PENALTIES:
        repetition = tl.load(row_params + row * 8 + 4)
        frequency = tl.load(row_params + row * 8 + 5)
        presence = tl.load(row_params + row * 8 + 6)
        on = col < tl.where((repetition != 1.0) | (frequency != 0.0) | (presence != 0.0), vocab, 0)
        at = tl.load(rows_of + row).to(tl.int64) * stride_counts + col
        n = tl.load(counts + at, mask=on, other=0)
        known = (n > 0) | (tl.load(seen + at, mask=on, other=0) != 0)
        x = tl.where(known, tl.where(x > 0.0, x / repetition, x * repetition), x)
        x = x - frequency * n.to(tl.float32) - tl.where(n > 0, presence, 0.0)
    x = x * tl.load(row_params + row * 8)
    return tl.minimum(tl.maximum(x, LOWEST), 3.0e38) + 0.0  # adding 0 turns -0 into 0


@triton.jit
def _grid_line(score):
    """Number of the eighth of a nat that the score lies in."""
    return tl.floor(tl.minimum(tl.maximum(score, -1.0e8), 1.0e8) * 8.0).to(tl.int32)


@triton.jit
def _key(score):
    """int32 in the order of the floats."""
    bits = score.to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _score_of(key):
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _bracket(low, high, target, base, BINS: tl.constexpr):
    """First bin that may, and first that must, bring the running weight to the target, given bounds on each bin's weight."""
    b = tl.arange(0, BINS)
    may = base + tl.cumsum(high, 0) >= target - 1e-4 * tl.abs(target)
    must = base + tl.cumsum(low, 0) >= target + 1e-4 * tl.abs(target)
    return tl.min(tl.where(may, b, BINS - 1), 0), tl.min(tl.where(must, b, BINS - 1), 0)


@triton.jit
def _coarse_bracket(floats, ints, hist_row, row, target, MASS: tl.constexpr, BINS: tl.constexpr):
    """Set the row's bracket of coarse bins for a target count or mass."""
    b = tl.arange(0, BINS)
    h = tl.load(hist_row + b, cache_modifier=".cg").to(tl.float32)
    best = tl.load(floats + row * 8)
    line = tl.load(ints + row * 8)
    if MASS:
        edge = (line - b).to(tl.float32) * 0.125 - best
        first, last = _bracket(h * tl.exp(tl.minimum(edge, 0.0)), h * tl.exp(tl.minimum(edge + 0.125, 0.0)), target, 0.0, BINS)
    else:
        total = tl.cumsum(h, 0)
        first = tl.min(tl.where(total >= target, b, BINS - 1), 0)
        last = first
    top = (line - first + 1).to(tl.float32) * 0.125
    width = tl.where(last == BINS - 1, 32.0, (last - first + 1).to(tl.float32) * 0.125)
    tl.store(floats + row * 8 + 1, target)
    tl.store(floats + row * 8 + 3, top)
    tl.store(floats + row * 8 + 4, BINS / width)
    tl.store(ints + row * 8 + 1, first)
    tl.store(ints + row * 8 + 2, last)


@triton.jit
def _arrive(arrived, row):
    """How many programs of the row arrived before, everything they and this one wrote being visible to the next."""
    tl.debug_barrier()
    return tl.atomic_add(arrived + row, 1, sem="acq_rel", scope="gpu")


@triton.jit
def survey_kernel(
    logits, rows_of, row_params, limits, counts, seen, out, floats, ints, chunk_best, chunk_arg, chunk_sum, chunk_hist, hist, arrived,
    vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, PENALTIES: tl.constexpr, FILTER: tl.constexpr,
):  # fmt: skip
    """Best score, sum of exponentials and a coarse histogram of scores (eighths of a nat below the best).

    Then, per row: greedy rows are done; the others get their threshold from min-p and a bracket for top-k, or else for top-p.
    limits: int32 [rows, 2], (greedy, top_k with 0 for off).
    """
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    col = chunk * BLOCK + tl.arange(0, BLOCK)
    greedy = tl.load(limits + row * 2) != 0
    y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
    best = tl.max(y, 0)
    tl.store(chunk_best + row * CHUNKS + chunk, best)
    tl.store(chunk_arg + row * CHUNKS + chunk, tl.min(tl.where(y == best, col, 0x7FFFFFFF), 0))
    if FILTER:  # noqa: SIM102 (one is known when compiling, the other is not)
        if not greedy:
            tl.store(chunk_sum + row * CHUNKS + chunk, tl.sum(tl.exp(y - best), 0))
            below = tl.minimum(_grid_line(best) - _grid_line(y), BINS - 1)
            h = tl.histogram(below, BINS, mask=col < vocab)
            tl.store(chunk_hist + (row * CHUNKS + chunk) * BINS + tl.arange(0, BINS), h)
    if _arrive(arrived, row) == CHUNKS - 1:
        tl.store(arrived + row, 0)
        c = tl.arange(0, CHUNKS_POW2)
        bests = tl.load(chunk_best + row * CHUNKS + c, mask=c < CHUNKS, other=LOWEST, cache_modifier=".cg")
        args = tl.load(chunk_arg + row * CHUNKS + c, mask=c < CHUNKS, other=0x7FFFFFFF, cache_modifier=".cg")
        top = tl.max(bests, 0)
        tl.store(floats + row * 8, top)
        min_p = tl.load(row_params + row * 8 + 2)
        tl.store(floats + row * 8 + 2, tl.where(min_p > 0.0, top + tl.log(tl.maximum(min_p, 1e-30)), LOWEST))
        first = tl.min(tl.where(bests == top, args, 0x7FFFFFFF), 0)
        tl.store(out + row, tl.where(top <= LOWEST, -1, first).to(out.dtype.element_ty))
        if FILTER:  # noqa: SIM102
            if not greedy:
                line = _grid_line(top)
                tl.store(ints + row * 8, line)
                sums = tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg")
                b = tl.arange(0, BINS)
                h = tl.zeros([BINS], tl.int32)
                for i in range(CHUNKS):  # a chunk's bins count down from its own best: shift them to the row's
                    at = b - (line - _grid_line(tl.load(chunk_best + row * CHUNKS + i, cache_modifier=".cg")))
                    inside = (at >= 0) & (at < BINS - 1) & (b < BINS - 1)
                    h += tl.load(chunk_hist + (row * CHUNKS + i) * BINS + at, mask=inside, other=0, cache_modifier=".cg")
                h = tl.where(b == BINS - 1, vocab - tl.sum(h, 0), h)
                tl.store(hist + row * BINS + b, h)
                tl.debug_barrier()
                total = tl.sum(sums * tl.exp(bests - top), 0)
                tl.store(floats + row * 8 + 5, total)
                top_k = tl.load(limits + row * 2 + 1)
                if (top_k > 0) & (top_k < vocab):
                    _coarse_bracket(floats, ints, hist + row * BINS, row, top_k.to(tl.float32), False, BINS)
                else:
                    _coarse_bracket(floats, ints, hist + row * BINS, row, total * tl.load(row_params + row * 8 + 1), True, BINS)


@triton.jit
def _active(row_params, limits, floats, row, vocab, MASS: tl.constexpr):
    """Whether this row takes part in a filter pass: it samples, has a token to sample, and has the filter on."""
    top_k = tl.load(limits + row * 2 + 1)
    on = (tl.load(limits + row * 2) == 0) & (tl.load(floats + row * 8) > LOWEST)
    return on & ((tl.load(row_params + row * 8 + 1) < 1.0) if MASS else ((top_k > 0) & (top_k < vocab)))


@triton.jit
def _fine_bins(y, floats, ints, row, BINS: tl.constexpr):
    """(in a coarse bin above the bracket, inside it, fine bin) of each score."""
    below = tl.minimum(tl.load(ints + row * 8) - _grid_line(y), BINS - 1)
    first = tl.load(ints + row * 8 + 1)
    inside = (below >= first) & (below <= tl.load(ints + row * 8 + 2))
    fine = tl.minimum(tl.maximum((tl.load(floats + row * 8 + 3) - y) * tl.load(floats + row * 8 + 4), 0.0), BINS - 1.0)
    return below < first, inside, fine.to(tl.int32)


@triton.jit
def narrow_kernel(
    logits, rows_of, row_params, limits, counts, seen, floats, ints, chunk_sum, chunk_hist, arrived, vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, PENALTIES: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """Exact weight above the bracket and a fine histogram inside it; then the row's bracket of fine bins."""
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    if not _active(row_params, limits, floats, row, vocab, MASS):
        return
    col = chunk * BLOCK + tl.arange(0, BLOCK)
    y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
    above, inside, fine = _fine_bins(y, floats, ints, row, BINS)
    here = col < vocab
    best = tl.load(floats + row * 8)
    weight = tl.exp(y - best) if MASS else tl.full([BLOCK], 1.0, tl.float32)
    tl.store(chunk_sum + row * CHUNKS + chunk, tl.sum(tl.where(above & here, weight, 0.0), 0))
    h = tl.histogram(fine, BINS, mask=inside & here)
    b = tl.arange(0, BINS)
    tl.store(chunk_hist + (row * CHUNKS + chunk) * BINS + b, h)
    if _arrive(arrived, row) == CHUNKS - 1:
        tl.store(arrived + row, 0)
        c = tl.arange(0, CHUNKS_POW2)
        base = tl.sum(tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
        total = tl.zeros([BINS], tl.int32)
        for i in range(CHUNKS):
            total += tl.load(chunk_hist + (row * CHUNKS + i) * BINS + b, cache_modifier=".cg")
        n = total.to(tl.float32)
        target = tl.load(floats + row * 8 + 1)
        if MASS:
            step = 1.0 / tl.load(floats + row * 8 + 4)
            edge = tl.load(floats + row * 8 + 3) - best - b.to(tl.float32) * step  # upper edge of each fine bin
            low = tl.where(b == BINS - 1, 0.0, n * tl.exp(tl.minimum(edge - step, 0.0)))  # the last one may reach further down
            first, last = _bracket(low, n * tl.exp(tl.minimum(edge, 0.0)), target, base, BINS)
        else:
            first = tl.min(tl.where(base + tl.cumsum(n, 0) >= target, b, BINS - 1), 0)
            last = first
        tl.store(ints + row * 8 + 3, first)
        tl.store(ints + row * 8 + 4, last)


@triton.jit
def finish_kernel(
    logits, rows_of, row_params, limits, counts, seen, floats, ints, chunk_sum, chunk_mass, chunk_found, found, hist, arrived,
    vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, CAPACITY: tl.constexpr,
    PENALTIES: tl.constexpr, MASS: tl.constexpr, THEN_MASS: tl.constexpr,
):  # fmt: skip
    """Collect the few scores of the fine bracket and find the exact threshold among them, by bisection of their bit patterns.

    Where a chunk has more than CAPACITY of them (many equal scores), the bisection reads the row again instead.
    THEN_MASS: a top-p pass follows, whose target is a share of what top-k keeps.
    """
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    if not _active(row_params, limits, floats, row, vocab, MASS):
        return
    col = chunk * BLOCK + tl.arange(0, BLOCK)
    y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
    above, inside, fine = _fine_bins(y, floats, ints, row, BINS)
    first = tl.load(ints + row * 8 + 3)
    last = tl.load(ints + row * 8 + 4)
    best = tl.load(floats + row * 8)
    here = col < vocab
    above = here & (above | (inside & (fine < first)))
    candidate = here & inside & (fine >= first) & (fine <= last)
    at = row * CHUNKS + chunk
    tl.store(chunk_sum + at, tl.sum(above.to(tl.float32), 0))
    tl.store(chunk_mass + at, tl.sum(tl.where(above, tl.exp(y - best), 0.0), 0))
    place = tl.cumsum(candidate.to(tl.int32), 0) - 1
    tl.store(found + at * CAPACITY + place, y, mask=candidate & (place < CAPACITY))
    tl.store(chunk_found + at, tl.sum(candidate.to(tl.int32), 0))
    if _arrive(arrived, row) == CHUNKS - 1:
        tl.store(arrived + row, 0)
        c = tl.arange(0, CHUNKS_POW2)
        above_count = tl.sum(tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
        above_mass = tl.sum(tl.load(chunk_mass + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
        n = tl.load(chunk_found + row * CHUNKS + c, mask=c < CHUNKS, other=0, cache_modifier=".cg")
        need = tl.load(floats + row * 8 + 1) - (above_mass if MASS else above_count)
        slot = tl.arange(0, CAPACITY)
        values = tl.load(
            found + (row * CHUNKS + c)[:, None] * CAPACITY + slot[None, :], mask=slot[None, :] < n[:, None], other=LOWEST,
            cache_modifier=".cg",
        )  # fmt: skip
        there = slot[None, :] < n[:, None]
        many = tl.max(n, 0) > CAPACITY
        keys = _key(values)
        weights = tl.where(there, tl.exp(values - best), 0.0)
        counted = weights if MASS else there.to(tl.float32)
        if many:
            threshold, kept = _rescan(
                logits, rows_of, row_params, counts, seen, floats, ints, row, stride, stride_counts, vocab, need, first, last,
                CHUNKS, BLOCK, BINS, PENALTIES, MASS,
            )  # fmt: skip
        else:
            lo = tl.min(tl.where(there, keys, 0x7FFFFFFF))
            hi = tl.max(tl.where(there, keys, -0x7FFFFFFF))
            while lo < hi:
                middle = (lo & hi) + ((lo ^ hi) >> 1) + ((lo ^ hi) & 1)  # ceil of the mean, without overflow
                if tl.sum(tl.where(keys >= middle, counted, 0.0)) >= need:
                    lo = middle
                else:
                    hi = middle - 1
            threshold = _score_of(lo)
            kept = tl.sum(tl.where(keys >= lo, weights, 0.0))
        tl.store(floats + row * 8 + 2, tl.maximum(threshold, tl.load(floats + row * 8 + 2)))
        if THEN_MASS:
            _coarse_bracket(floats, ints, hist + row * BINS, row, (above_mass + kept) * tl.load(row_params + row * 8 + 1), True, BINS)


@triton.jit
def _rescan(
    logits, rows_of, row_params, counts, seen, floats, ints, row, stride, stride_counts, vocab, need, first, last,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, PENALTIES: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """The bisection over the row itself. Bounds move to scores that exist, so it ends after log2(distinct scores) passes."""
    lo = tl.full([], -0x7FFFFFFF, tl.int32)
    hi = tl.full([], 0x7FFFFFFF, tl.int32)
    kept = 0.0
    best = tl.load(floats + row * 8)
    while lo < hi:
        middle = (lo & hi) + ((lo ^ hi) >> 1) + ((lo ^ hi) & 1)
        weight = 0.0
        mass = 0.0
        up = tl.full([], 0x7FFFFFFF, tl.int32)
        down = tl.full([], -0x7FFFFFFF, tl.int32)
        for i in range(CHUNKS):
            col = i * BLOCK + tl.arange(0, BLOCK)
            y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
            _, inside, fine = _fine_bins(y, floats, ints, row, BINS)
            candidate = (col < vocab) & inside & (fine >= first) & (fine <= last)
            k = _key(y)
            e = tl.exp(y - best)
            mass += tl.sum(tl.where(candidate & (k >= middle), e, 0.0), 0)
            weight += tl.sum(tl.where(candidate & (k >= middle), e if MASS else 1.0, 0.0), 0)
            up = tl.minimum(up, tl.min(tl.where(candidate & (k >= middle), k, 0x7FFFFFFF), 0))
            down = tl.maximum(down, tl.max(tl.where(candidate & (k < middle), k, -0x7FFFFFFF), 0))
        if (weight >= need) | (down == -0x7FFFFFFF):
            lo = up
            kept = mass
        else:
            hi = down
        if (weight < need) & (up == 0x7FFFFFFF) & (down == -0x7FFFFFFF):
            lo = hi
    return _score_of(lo), kept


@triton.jit
def pick_kernel(
    logits, rows_of, row_params, limits, counts, seen, seeds, positions, out, floats, chunk_sum, arrived, vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, PENALTIES: tl.constexpr,
):  # fmt: skip
    """Weight of what each chunk keeps; then the token at which the running weight, in the order of token ids, passes u times the total.

    u comes from Philox keyed by the request's seed and counted by its position: it depends on nothing else in the batch.
    """
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    best = tl.load(floats + row * 8)
    if (tl.load(limits + row * 2) != 0) | (best <= LOWEST):
        return
    threshold = tl.load(floats + row * 8 + 2)
    offsets = tl.arange(0, BLOCK)
    y = _scores(logits, rows_of, row_params, counts, seen, row, chunk * BLOCK + offsets, stride, stride_counts, vocab, PENALTIES)
    kept = (y >= threshold) & (y > LOWEST)
    tl.store(chunk_sum + row * CHUNKS + chunk, tl.sum(tl.where(kept, tl.exp(y - best), 0.0), 0))
    if _arrive(arrived, row) == CHUNKS - 1:
        tl.store(arrived + row, 0)
        c = tl.arange(0, CHUNKS_POW2)
        sums = tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg")
        total = tl.cumsum(sums, 0)
        position = tl.load(positions + row)
        word, _, _, _ = tl.philox(tl.load(seeds + row).to(tl.uint64), position.to(tl.uint32), (position >> 32).to(tl.uint32), 0, 0)
        u = (word >> 8).to(tl.float32) * 5.9604644775390625e-08  # 24 bits: [0, 1)
        goal = u * tl.max(total, 0)
        last = tl.max(tl.where(sums > 0.0, c, 0), 0)  # rounding must not walk past the last chunk that keeps anything
        chosen = tl.minimum(tl.min(tl.where((total > goal) & (sums > 0.0), c, CHUNKS_POW2), 0), last)
        rest = goal - tl.sum(tl.where(c < chosen, sums, 0.0), 0)
        col = chosen * BLOCK + offsets
        y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
        weight = tl.where((y >= threshold) & (y > LOWEST), tl.exp(y - best), 0.0)
        token = tl.min(tl.where((tl.cumsum(weight, 0) > rest) & (weight > 0.0), col, 0x7FFFFFFF), 0)
        token = tl.where(token == 0x7FFFFFFF, tl.max(tl.where(weight > 0.0, col, -1), 0), token)
        tl.store(out + row, token.to(out.dtype.element_ty))
