"""Temperature, penalties, top-k, top-p, min-p and the draw itself, without sorting the vocabulary.

Why: sorting 64 rows of 131,072 logits takes many times as long as reading them a few times. All three filters keep "everything with
at least this score", so it is enough to find one threshold per row. A survey histograms the scores in half bits below the best; bounds
on the mass of each bin tell which few can hold the threshold; a second histogram of 64 bins inside them leaves a handful of tokens;
a bisection of their bit patterns gives the threshold exactly. (Threshold search instead of sorting: FlashInfer, Ye et al. 2025.)

Order: penalties, temperature, top-k, top-p of what top-k kept, min-p. Equal scores share their fate: top-k keeps every token that is
equal to the k-th. The draw inverts the cumulative weight in the order of token ids with one uniform number from Philox, keyed by the
request's seed and counted by its position, so a request's tokens do not depend on its batch mates, on chunking or on preemption.
Greedy rows (temperature below 1e-5) take the best score, the lowest id among equals. NaN logits are never chosen; a row in which nothing
can be chosen gives -1. All sums run in a fixed order: the same inputs give the same tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import LOG2_E, Target, cdiv, launch, next_power_of_2
from infer_lab.kernels._sampling_kernels import finish_kernel, narrow_kernel, pick_kernel, survey_kernel

GREEDY_BELOW = 1e-5  # a smaller temperature means the best token
BINS = 64  # of a histogram; the cost of one grows with them
CAPACITY = 256  # scores of the last bracket that a chunk can hand over, at most


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """block: scores a program holds in registers."""

    block: int = 4096
    num_warps: int = 8


def sampling_config(target: Target) -> SamplingConfig:
    """The same for any number of rows: sums of a row must not depend on its batch mates, not even in the last bit."""
    found = _common.tuned(target, "sampling", "any")
    return SamplingConfig(**found) if found else SamplingConfig()


@dataclass(frozen=True, slots=True)
class SamplingBatch:
    """What each row asks for, on the device, and which passes the batch needs. Made when the batch changes, not every step.

    params float32 `[rows, 8]`: log2(e) / temperature, top_p, min_p, unused, repetition, frequency and presence penalty, unused.
    limits int32 `[rows, 2]`: greedy, top_k. seeds int64 `[rows]`.
    """

    params: torch.Tensor
    limits: torch.Tensor
    seeds: torch.Tensor
    any_random: bool
    any_top_k: bool
    any_top_p: bool
    any_penalty: bool

    @classmethod
    def build(
        cls,
        device: torch.device,
        temperatures: Sequence[float],
        seeds: Sequence[int],
        top_ks: Sequence[int] | None = None,
        top_ps: Sequence[float] | None = None,
        min_ps: Sequence[float] | None = None,
        repetition: Sequence[float] | None = None,
        frequency: Sequence[float] | None = None,
        presence: Sequence[float] | None = None,
    ) -> SamplingBatch:
        """One entry a row; None switches a filter or penalty off (top_k 0, top_p 1, min_p 0, repetition 1, frequency and presence 0)."""
        n = len(temperatures)
        given = {"top_ks": top_ks, "top_ps": top_ps, "min_ps": min_ps, "seeds": seeds, "repetition": repetition, "frequency": frequency}
        for name, values in {**given, "presence": presence}.items():
            if values is not None and len(values) != n:
                raise UserError(f"{name} has {len(values)} entries for {n} rows")
        ks, ps, ms = top_ks or [0] * n, top_ps or [1.0] * n, min_ps or [0.0] * n
        rep, freq, pres = repetition or [1.0] * n, frequency or [0.0] * n, presence or [0.0] * n
        for i, (k, p, m, r) in enumerate(zip(ks, ps, ms, rep, strict=True)):
            if k < 0 or not 0 < p <= 1 or not 0 <= m <= 1 or r <= 0:
                raise UserError(f"row {i}: top_k {k} must be ≥ 0, top_p {p} in (0, 1], min_p {m} in [0, 1], repetition penalty {r} > 0")
        greedy = [t < GREEDY_BELOW for t in temperatures]
        scale = [LOG2_E if g else LOG2_E / t for g, t in zip(greedy, temperatures, strict=True)]
        zero = [0.0] * n
        columns = torch.tensor([scale, ps, ms, zero, rep, freq, pres, zero], dtype=torch.float32)
        limits = torch.tensor([[int(g), k] for g, k in zip(greedy, ks, strict=True)], dtype=torch.int32).reshape(n, 2)
        draws = [not g for g in greedy]
        return cls(
            columns.T.contiguous().to(device),
            limits.to(device),
            torch.tensor([s & (2**63 - 1) for s in seeds], dtype=torch.int64, device=device),
            any(draws),
            any(d and k > 0 for d, k in zip(draws, ks, strict=True)),
            any(d and p < 1 for d, p in zip(draws, ps, strict=True)),
            any(r != 1 for r in rep) or any(f != 0 for f in freq) or any(x != 0 for x in pres),
        )


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """What the penalties look at. output int32 `[slots, vocabulary]`: times a token stands in the request's output;
    prompt bool, the same shape: whether it stands in the prompt. row_slots int32 `[rows]`: the slot of each row of the batch."""

    output: torch.Tensor
    prompt: torch.Tensor
    row_slots: torch.Tensor


@dataclass(frozen=True, slots=True)
class SamplingWorkspace:
    """Scratch of the passes, made once. The counters (arrived, n_found) must be zero between calls; the kernels leave them so."""

    floats: torch.Tensor
    chunk_floats: torch.Tensor
    chunk_ints: torch.Tensor
    chunk_hist: torch.Tensor
    hist: torch.Tensor
    found: torch.Tensor
    arrived: torch.Tensor
    config: SamplingConfig

    @classmethod
    def allocate(cls, rows: int, vocab: int, device: torch.device, config: SamplingConfig | None = None) -> SamplingWorkspace:
        """For calls of up to `rows` rows."""
        config = config or sampling_config(_common.target_of(device))
        chunks = cdiv(vocab, chunk_size(vocab, config))

        def floats(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.float32, device=device)

        def ints(*shape: int) -> torch.Tensor:
            return torch.zeros(*shape, dtype=torch.int32, device=device)

        return cls(
            floats(rows, 8), floats(3, rows, chunks), ints(2, rows, chunks), ints(rows, chunks, BINS), ints(rows, BINS),
            floats(rows, chunks, capacity(chunks)), ints(rows), config,
        )  # fmt: skip

    @property
    def thresholds(self) -> torch.Tensor:
        """Least logit over temperature that the last call kept, per row."""
        return self.floats[:, 2] / LOG2_E


def capacity(chunks: int) -> int:
    """Scores a chunk can hand over: 4,096 together fit the registers of the program that searches them."""
    return max(32, min(CAPACITY, 4096 // next_power_of_2(chunks)))


def chunk_size(vocab: int, config: SamplingConfig) -> int:
    return min(next_power_of_2(vocab), config.block)


def sample(
    logits: torch.Tensor,
    batch: SamplingBatch,
    positions: torch.Tensor,
    counts: TokenCounts | None = None,
    out: torch.Tensor | None = None,
    workspace: SamplingWorkspace | None = None,
) -> torch.Tensor:
    """One token id per row of `logits [rows, vocabulary]` (any float dtype), int64. positions int64 `[rows]`: index of the new token.

    Raises UserError when a row has a penalty and there are no counts.
    """
    _common.target_of(logits.device)
    _common.require_unit_stride(logits=logits)
    rows, vocab = logits.shape
    if batch.any_penalty and counts is None:
        raise UserError("a row has a repetition, frequency or presence penalty: give the token counts that it looks at")
    if out is None:
        out = torch.empty(rows, dtype=torch.int64, device=logits.device)
    if rows == 0:
        return out
    w = workspace or SamplingWorkspace.allocate(rows, vocab, logits.device)
    block = chunk_size(vocab, w.config)
    chunks = cdiv(vocab, block)
    if w.arrived.numel() < rows or w.chunk_hist.shape[1] != chunks:
        raise UserError(f"the sampling workspace is for {w.arrived.numel()} rows of {w.chunk_hist.shape[1]} chunks, not {rows} of {chunks}")
    penalties = batch.any_penalty
    slots, output, prompt, stride_counts = None, None, None, 0
    if penalties and counts is not None:
        slots, output, prompt, stride_counts = counts.row_slots, counts.output, counts.prompt, counts.output.stride(0)
    grid = (chunks, rows)
    scored = (logits, slots, batch.params, batch.limits, output, prompt)
    strides = (vocab, logits.stride(0), stride_counts)
    meta = dict(
        CHUNKS=chunks, CHUNKS_POW2=next_power_of_2(chunks), BLOCK=block, PENALTIES=penalties,
        num_warps=max(1, min(w.config.num_warps, block // 256)), enable_fp_fusion=False,
    )  # fmt: skip
    any_filter = batch.any_top_k or batch.any_top_p
    best, sums, mass = w.chunk_floats
    args, n_found = w.chunk_ints
    launch(
        survey_kernel, grid, *scored, out, w.floats, best, args, sums, w.chunk_hist, w.hist, w.arrived, *strides,
        BINS=BINS, FILTER=any_filter, **meta,
    )  # fmt: skip
    for is_mass in (False, True):
        if batch.any_top_p if is_mass else batch.any_top_k:
            launch(narrow_kernel, grid, *scored, w.floats, sums, mass, w.chunk_hist, w.arrived, *strides, BINS=BINS, MASS=is_mass, **meta)
            launch(
                finish_kernel, grid, *scored, w.floats, sums, mass, n_found, w.found, w.hist, w.arrived, *strides,
                BINS=BINS, CAPACITY=capacity(chunks), MASS=is_mass, THEN_MASS=batch.any_top_p and not is_mass, **meta,
            )  # fmt: skip
    if batch.any_random:
        launch(pick_kernel, grid, *scored, batch.seeds, positions, out, w.floats, sums, w.arrived, *strides, **meta)
    return out
