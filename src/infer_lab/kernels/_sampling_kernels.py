"""The passes of the sampler (see sampling.py for what they add up to). Each is one read of the logits by a grid of (chunks, rows).

Each program leaves the figures of its chunk; the program of a row that arrives last adds them up in the order of the chunks, so a sum does
not depend on who was last. A score is a logit after penalties, over the temperature, in units of log2(e): weights are powers of two.
All passes must see the same score for the same token to the last bit: they share `_scores`, and are launched without floating-point
contraction. A pass takes a bracket [low, high) of scores that holds the threshold and leaves a smaller one; every pass counts exactly
what lies at or above `high`, so a bracket may be a little too wide but never too narrow (`_widened`).

State of a row, float32 [8]: 0 best score · 1 target count or mass · 2 threshold · 3 high · 4 low · 5 bins per unit of score · 6 whole mass.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import triton
import triton.language as tl

LOWEST = tl.constexpr(-3.0e38)  # of a token that is never chosen: masked, NaN or past the vocabulary
HIGHEST = tl.constexpr(3.0e38)


@triton.jit
def _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES: tl.constexpr):
    """Score of each token.

    Penalties: repetition divides positive logits and multiplies negative ones of tokens seen in prompt or output; frequency subtracts
    per occurrence in the output, presence once (the OpenAI definitions count output alone).
    """
    x = tl.load(logits + row * stride + col, mask=col < vocab, other=LOWEST).to(tl.float32)
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
    return tl.minimum(tl.where(x > LOWEST, x, LOWEST), HIGHEST)  # NaN compares false


@triton.jit
def _grid_line(score):
    """Number of the half unit that the score lies in."""
    return tl.floor(tl.minimum(tl.maximum(score, -1.0e8), 1.0e8) * 2.0).to(tl.int32)


@triton.jit
def _key(score):
    """int32 in the order of the floats; -0 and 0 are one."""
    bits = (score + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def _score_of(key):
    return (key ^ ((key >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _widened(edge, up):
    """The edge moved outwards by more than the rounding of what it was computed from. up: 1.0 or -1.0."""
    return edge + up * tl.abs(edge) * 4.0e-7


@triton.jit
def _bracket(low, high, target, base, mass, BINS: tl.constexpr):
    """First bin that may, and first that must, bring the running weight to the target: bounds on each bin's weight, from `base` down
    and, since the weight of all bins is known to be `mass`, from the far end up. Near a large top-p only the second is narrow."""
    b = tl.arange(0, BINS)
    low_so_far = tl.cumsum(low, 0)
    high_so_far = tl.cumsum(high, 0)
    need = target - base
    slack = 1e-4 * tl.abs(target)
    slack_below = slack + 1e-5 * mass
    most = mass - (tl.sum(low, 0) - low_so_far)
    least = mass - (tl.sum(high, 0) - high_so_far)
    may = (high_so_far >= need - slack) & (most >= need - slack_below)
    must = (low_so_far >= need + slack) | (least >= need + slack_below)
    return tl.min(tl.where(may, b, BINS - 1), 0), tl.min(tl.where(must, b, BINS - 1), 0)


@triton.jit
def _coarse_bracket(floats, h, best, row, target, mass, MASS: tl.constexpr, BINS: tl.constexpr):
    """Set the row's bracket for a target count or mass, from its histogram in half units below the best score. mass: of the whole row."""
    b = tl.arange(0, BINS)
    line = _grid_line(best)
    n = h.to(tl.float32)
    if MASS:
        edge = (line - b).to(tl.float32) * 0.5 - best
        low = tl.where(b == BINS - 1, 0.0, n * tl.exp2(tl.minimum(edge, 0.0)))  # the last bin reaches all the way down
        first, last = _bracket(low, n * tl.exp2(tl.minimum(edge + 0.5, 0.0)), target, 0.0, mass, BINS)
    else:
        first = tl.min(tl.where(tl.cumsum(n, 0) >= target, b, BINS - 1), 0)
        last = first
    high = _widened((line - first + 1).to(tl.float32) * 0.5, 1.0)
    low_edge = (line - last).to(tl.float32) * 0.5
    width = tl.where(last == BINS - 1, 32.0, high - low_edge)
    tl.store(floats + row * 8 + 1, target)
    tl.store(floats + row * 8 + 3, high)
    tl.store(floats + row * 8 + 4, tl.where(last == BINS - 1, LOWEST, _widened(low_edge, -1.0)))
    tl.store(floats + row * 8 + 5, BINS / width)


@triton.jit
def _arrive(arrived, row):
    """How many programs of the row arrived before, everything they and this one wrote being visible to the next."""
    tl.debug_barrier()
    return tl.atomic_add(arrived + row, 1, sem="acq_rel", scope="gpu")


@triton.jit
def survey_kernel(
    logits, rows_of, row_params, limits, counts, seen, out, floats, chunk_best, chunk_arg, chunk_sum, chunk_hist, hist, arrived,
    vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, PENALTIES: tl.constexpr, FILTER: tl.constexpr,
):  # fmt: skip
    """Best score, sum of weights and a coarse histogram of scores (half units below the best).

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
            tl.store(chunk_sum + row * CHUNKS + chunk, tl.sum(tl.exp2(y - best), 0))
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
        tl.store(floats + row * 8 + 2, tl.where(min_p > 0.0, top + tl.log2(tl.maximum(min_p, 1e-30)), LOWEST))
        first = tl.min(tl.where(bests == top, args, 0x7FFFFFFF), 0)
        tl.store(out + row, tl.where(top <= LOWEST, -1, first).to(out.dtype.element_ty))
        if FILTER:  # noqa: SIM102
            if not greedy:
                sums = tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg")
                b = tl.arange(0, BINS)
                # a chunk's bins count down from its own best: shift them to the row's
                at = b[None, :] - (_grid_line(top) - _grid_line(bests))[:, None]
                inside = (c < CHUNKS)[:, None] & (at >= 0) & (at < BINS - 1) & (b < BINS - 1)[None, :]
                each = tl.load(chunk_hist + (row * CHUNKS + c[:, None]) * BINS + at, mask=inside, other=0, cache_modifier=".cg")
                h = tl.sum(each, 0)
                h = tl.where(b == BINS - 1, vocab - tl.sum(h, 0), h)
                tl.store(hist + row * BINS + b, h)
                total = tl.sum(sums * tl.exp2(bests - top), 0)
                tl.store(floats + row * 8 + 6, total)
                top_k = tl.load(limits + row * 2 + 1)
                if (top_k > 0) & (top_k < vocab):
                    _coarse_bracket(floats, h, top, row, top_k.to(tl.float32), total, False, BINS)
                else:
                    _coarse_bracket(floats, h, top, row, total * tl.load(row_params + row * 8 + 1), total, True, BINS)


@triton.jit
def _active(row_params, limits, floats, row, vocab, MASS: tl.constexpr):
    """Whether this row takes part in a filter pass: it samples, has a token to sample, and has the filter on."""
    top_k = tl.load(limits + row * 2 + 1)
    on = (tl.load(limits + row * 2) == 0) & (tl.load(floats + row * 8) > LOWEST)
    return on & ((tl.load(row_params + row * 8 + 1) < 1.0) if MASS else ((top_k > 0) & (top_k < vocab)))


@triton.jit
def narrow_kernel(
    logits, rows_of, row_params, limits, counts, seen, floats, chunk_sum, chunk_mass, chunk_hist, arrived, vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, PENALTIES: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """Exact weight at or above the bracket and a histogram of what lies inside; then a bracket of a few of its bins."""
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    if not _active(row_params, limits, floats, row, vocab, MASS):
        return
    col = chunk * BLOCK + tl.arange(0, BLOCK)
    y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
    best = tl.load(floats + row * 8)
    high = tl.load(floats + row * 8 + 3)
    low = tl.load(floats + row * 8 + 4)
    density = tl.load(floats + row * 8 + 5)
    weight = tl.exp2(y - best) if MASS else tl.full([BLOCK], 1.0, tl.float32)
    tl.store(chunk_sum + row * CHUNKS + chunk, tl.sum(tl.where(y >= high, weight, 0.0), 0))
    b = tl.arange(0, BINS)
    fine = tl.minimum((high - y) * density, BINS - 1.0).to(tl.int32)
    inside = (y < high) & (y >= low) & (col < vocab)
    h = tl.histogram(fine, BINS, mask=inside)
    if MASS:
        tl.store(chunk_mass + row * CHUNKS + chunk, tl.sum(tl.where(inside, weight, 0.0), 0))
    tl.store(chunk_hist + (row * CHUNKS + chunk) * BINS + b, h)
    if _arrive(arrived, row) == CHUNKS - 1:
        tl.store(arrived + row, 0)
        c = tl.arange(0, CHUNKS_POW2)
        base = tl.sum(tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
        at = (row * CHUNKS + c[:, None]) * BINS + b[None, :]
        n = tl.sum(tl.load(chunk_hist + at, mask=(c < CHUNKS)[:, None], other=0, cache_modifier=".cg"), 0).to(tl.float32)
        target = tl.load(floats + row * 8 + 1)
        step = 1.0 / density
        if MASS:
            edge = high - best - b.to(tl.float32) * step  # upper edge of each bin
            least = tl.where(b == BINS - 1, 0.0, n * tl.exp2(tl.minimum(edge - step, 0.0)))  # the last one may reach further down
            mass = tl.sum(tl.load(chunk_mass + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
            first, last = _bracket(least, n * tl.exp2(tl.minimum(edge, 0.0)), target, base, mass, BINS)
        else:
            first = tl.min(tl.where(base + tl.cumsum(n, 0) >= target, b, BINS - 1), 0)
            last = first
        new_high = _widened(high - (first.to(tl.float32) - 0.01) * step, 1.0)
        new_low = _widened(high - (last.to(tl.float32) + 1.01) * step, -1.0)
        tl.store(floats + row * 8 + 3, tl.where(first == 0, high, tl.minimum(new_high, high)))
        tl.store(floats + row * 8 + 4, tl.where(last == BINS - 1, low, tl.maximum(new_low, low)))


@triton.jit
def finish_kernel(
    logits, rows_of, row_params, limits, counts, seen, floats, chunk_sum, chunk_mass, chunk_found, found, hist, arrived,
    vocab, stride, stride_counts,
    CHUNKS: tl.constexpr, CHUNKS_POW2: tl.constexpr, BLOCK: tl.constexpr, BINS: tl.constexpr, CAPACITY: tl.constexpr,
    PENALTIES: tl.constexpr, MASS: tl.constexpr, THEN_MASS: tl.constexpr,
):  # fmt: skip
    """Collect the few scores of the bracket and find the exact threshold among them, by bisection of their bit patterns.

    Where a chunk has more than CAPACITY of them (many equal scores), the bisection reads the row again instead.
    THEN_MASS: a top-p pass follows, whose target is a share of what top-k keeps.
    """
    chunk = tl.program_id(0)
    row = tl.program_id(1).to(tl.int64)
    if not _active(row_params, limits, floats, row, vocab, MASS):
        return
    col = chunk * BLOCK + tl.arange(0, BLOCK)
    y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
    best = tl.load(floats + row * 8)
    high = tl.load(floats + row * 8 + 3)
    low = tl.load(floats + row * 8 + 4)
    candidate = (y < high) & (y >= low) & (col < vocab)
    at = row * CHUNKS + chunk
    if not MASS:
        tl.store(chunk_sum + at, tl.sum((y >= high).to(tl.float32), 0))
    tl.store(chunk_mass + at, tl.sum(tl.where(y >= high, tl.exp2(y - best), 0.0), 0))
    # the order in which they are collected is not fixed; everything done with them is a sum of integers or a maximum
    place = tl.atomic_add(chunk_found + at + tl.zeros([BLOCK], tl.int32), 1, mask=candidate, sem="relaxed")
    tl.store(found + at * CAPACITY + place, y, mask=candidate & (place < CAPACITY))
    if _arrive(arrived, row) == CHUNKS - 1:
        tl.store(arrived + row, 0)
        c = tl.arange(0, CHUNKS_POW2)
        above_mass = tl.sum(tl.load(chunk_mass + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
        above = above_mass
        if not MASS:
            above = tl.sum(tl.load(chunk_sum + row * CHUNKS + c, mask=c < CHUNKS, other=0.0, cache_modifier=".cg"), 0)
        n = tl.load(chunk_found + row * CHUNKS + c, mask=c < CHUNKS, other=0, cache_modifier=".cg")
        tl.debug_barrier()  # every warp has read the counters before they are reset
        tl.store(chunk_found + row * CHUNKS + c, 0, mask=c < CHUNKS)
        need = tl.load(floats + row * 8 + 1) - above
        if tl.max(n, 0) > CAPACITY:
            threshold, kept = _rescan(
                logits, rows_of, row_params, counts, seen, row, stride, stride_counts, vocab, best, need, low, high,
                CHUNKS, BLOCK, PENALTIES, MASS,
            )  # fmt: skip
        else:
            slot = tl.arange(0, CAPACITY)
            there = slot[None, :] < n[:, None]
            values = tl.load(found + (row * CHUNKS + c)[:, None] * CAPACITY + slot[None, :], mask=there, other=LOWEST, cache_modifier=".cg")
            keys = _key(values)
            # weights in units of 2^-18 of the heaviest here: 4,096 of them stay below 2^31
            unit = tl.exp2(tl.max(values) - best) * 3.814697265625e-06
            weights = tl.where(there, tl.exp2(values - best) / tl.maximum(unit, 1e-38), 0.0).to(tl.int32)
            counted = weights if MASS else there.to(tl.int32)
            wanted = tl.minimum(need / tl.maximum(unit, 1e-38) if MASS else need, 1.0e9).to(tl.int32)
            smallest = tl.min(tl.where(there, keys, 0x7FFFFFFF))
            largest = tl.max(tl.where(there, keys, -0x7FFFFFFF))
            while smallest < largest:
                middle = (smallest & largest) + ((smallest ^ largest) >> 1) + ((smallest ^ largest) & 1)  # mean, rounded up
                if tl.sum(tl.where(keys >= middle, counted, 0)) >= wanted:
                    smallest = middle
                else:
                    largest = middle - 1
            threshold = _score_of(smallest)
            kept = tl.sum(tl.where(keys >= smallest, weights, 0)).to(tl.float32) * unit
        tl.store(floats + row * 8 + 2, tl.maximum(threshold, tl.load(floats + row * 8 + 2)))
        if THEN_MASS:
            h = tl.load(hist + row * BINS + tl.arange(0, BINS), cache_modifier=".cg")
            target = (above_mass + kept) * tl.load(row_params + row * 8 + 1)
            _coarse_bracket(floats, h, best, row, target, tl.load(floats + row * 8 + 6), True, BINS)


@triton.jit
def _rescan(
    logits, rows_of, row_params, counts, seen, row, stride, stride_counts, vocab, best, need, low, high,
    CHUNKS: tl.constexpr, BLOCK: tl.constexpr, PENALTIES: tl.constexpr, MASS: tl.constexpr,
):  # fmt: skip
    """The bisection over the row itself. Bounds move to scores that exist, so it ends after log2(distinct scores) passes."""
    smallest = tl.full([], -0x7FFFFFFF, tl.int32)
    largest = tl.full([], 0x7FFFFFFF, tl.int32)
    kept = 0.0
    while smallest < largest:
        middle = (smallest & largest) + ((smallest ^ largest) >> 1) + ((smallest ^ largest) & 1)
        weight = 0.0
        mass = 0.0
        up = tl.full([], 0x7FFFFFFF, tl.int32)
        down = tl.full([], -0x7FFFFFFF, tl.int32)
        for i in range(CHUNKS):
            col = i * BLOCK + tl.arange(0, BLOCK)
            y = _scores(logits, rows_of, row_params, counts, seen, row, col, stride, stride_counts, vocab, PENALTIES)
            candidate = (y < high) & (y >= low) & (col < vocab)
            k = _key(y)
            e = tl.exp2(y - best)
            mass += tl.sum(tl.where(candidate & (k >= middle), e, 0.0), 0)
            weight += tl.sum(tl.where(candidate & (k >= middle), e if MASS else 1.0, 0.0), 0)
            up = tl.minimum(up, tl.min(tl.where(candidate & (k >= middle), k, 0x7FFFFFFF), 0))
            down = tl.maximum(down, tl.max(tl.where(candidate & (k < middle), k, -0x7FFFFFFF), 0))
        if (weight >= need) | (down == -0x7FFFFFFF):
            smallest = up
            kept = mass
        else:
            largest = down
    return _score_of(smallest), kept


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
    tl.store(chunk_sum + row * CHUNKS + chunk, tl.sum(tl.where(kept, tl.exp2(y - best), 0.0), 0))
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
        weight = tl.where((y >= threshold) & (y > LOWEST), tl.exp2(y - best), 0.0)
        token = tl.min(tl.where((tl.cumsum(weight, 0) > rest) & (weight > 0.0), col, 0x7FFFFFFF), 0)
        token = tl.where(token == 0x7FFFFFFF, tl.max(tl.where(weight > 0.0, col, -1), 0), token)
        tl.store(out + row, token.to(out.dtype.element_ty))
