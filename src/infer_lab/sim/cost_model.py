"""How long a step takes, as a function of what is in its plan.

Why so simple: a step reads the weights once (fixed), does work for each token, and reads the KV of each sequence. Those three terms
explain measured step times well, and all three can be fitted to a machine from the scheduler's own step records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from infer_lab.core.plan import StepPlan
from infer_lab.core.record import StepRecord
from infer_lab.errors import UserError


class StepWork(NamedTuple):
    """num_tokens: computed in the step. kv_tokens: KV positions that attention goes through, summed over the batch.
    swapped_blocks: KV blocks moved between device and host."""

    num_tokens: int
    kv_tokens: int
    swapped_blocks: int = 0

    @classmethod
    def of(cls, plan: StepPlan) -> StepWork:
        num_tokens = kv_tokens = 0
        for scheduled in plan.scheduled:
            count = len(scheduled.token_ids)
            num_tokens += count
            kv_tokens += scheduled.start + count
        return cls(num_tokens, kv_tokens, len(plan.swap_out) + len(plan.swap_in))


class CostModel(Protocol):
    def seconds(self, work: StepWork) -> float: ...


@dataclass(frozen=True, slots=True)
class LinearCost:
    """seconds = fixed_s + per_token_s · tokens + per_kv_token_s · KV tokens (+ per_swapped_block_s · blocks)."""

    fixed_s: float
    per_token_s: float = 0.0
    per_kv_token_s: float = 0.0
    per_swapped_block_s: float = 0.0

    def seconds(self, work: StepWork) -> float:
        return (
            self.fixed_s
            + self.per_token_s * work.num_tokens
            + self.per_kv_token_s * work.kv_tokens
            + self.per_swapped_block_s * work.swapped_blocks
        )


@dataclass(frozen=True, slots=True)
class RooflineCost:
    """A machine that is limited by its memory or by its arithmetic, whichever takes longer, and pays an overhead for each step.

    weight_bytes: read in every step. kv_bytes: of one token. flops: for one token (about 2 × parameters).
    bandwidth: bytes/s. peak: FLOP/s. host_bandwidth: bytes/s between device and host, with block_bytes moved for each block.
    """

    weight_bytes: float
    kv_bytes: float
    flops: float
    bandwidth: float
    peak: float
    overhead_s: float = 0.0
    block_bytes: float = 0.0
    host_bandwidth: float = float("inf")

    def __post_init__(self) -> None:
        if not min(self.bandwidth, self.peak, self.host_bandwidth) > 0:
            raise UserError(f"bandwidths and peak must be positive, got {self.bandwidth}, {self.host_bandwidth} and {self.peak}")

    def seconds(self, work: StepWork) -> float:
        memory = (self.weight_bytes + self.kv_bytes * work.kv_tokens) / self.bandwidth
        compute = self.flops * work.num_tokens / self.peak
        return self.overhead_s + max(memory, compute) + work.swapped_blocks * self.block_bytes / self.host_bandwidth


@dataclass(frozen=True, slots=True)
class Fit:
    """cost: the fitted model. r_squared: share of the variance that it explains. relative_error: mean |predicted - measured| / measured."""

    cost: LinearCost
    r_squared: float
    relative_error: float
    num_samples: int


def samples_from_records(records: Iterable[StepRecord]) -> list[tuple[StepWork, float]]:
    """Work and duration of the steps that the scheduler recorded (run one after the other), empty ones left out."""
    return [(StepWork(r.num_tokens, r.kv_tokens), r.applied_at - r.scheduled_at) for r in records if r.batch_size]


def fit_linear_cost(samples: Sequence[tuple[StepWork, float]]) -> Fit:
    """Least squares with no negative coefficient: a term that would come out negative is left out and the rest fitted again."""
    if len(samples) < 3:
        raise UserError(f"a cost model has three coefficients; {len(samples)} measured steps are too few to fit it")
    if bad := [seconds for _, seconds in samples if not 0 <= seconds < float("inf")]:
        raise UserError(f"a step cannot have taken {bad[0]} s; give measured times in seconds")
    rows = [(1.0, float(work.num_tokens), float(work.kv_tokens)) for work, _ in samples]
    times = [seconds for _, seconds in samples]
    cost = LinearCost(*_non_negative_least_squares(rows, times))
    predicted = [cost.seconds(work) for work, _ in samples]
    mean = sum(times) / len(times)
    residual = sum((p - t) ** 2 for p, t in zip(predicted, times, strict=True))
    total = sum((t - mean) ** 2 for t in times)
    errors = [abs(p - t) / t for p, t in zip(predicted, times, strict=True) if t > 0]
    return Fit(cost, 1 - residual / total if total else 1.0, sum(errors) / len(errors) if errors else 0.0, len(samples))


def _non_negative_least_squares(rows: list[tuple[float, float, float]], values: list[float]) -> list[float]:
    kept = [0, 1, 2]
    while True:
        solution = _least_squares([[row[i] for i in kept] for row in rows], values)
        if solution is None:  # the steps were too alike to tell the terms apart
            kept.pop()
        elif min(solution) >= 0 or len(kept) == 1:
            break
        else:
            del kept[solution.index(min(solution))]
    coefficients = [0.0, 0.0, 0.0]
    for index, value in zip(kept, solution, strict=True):
        coefficients[index] = value
    return coefficients


def _least_squares(rows: list[list[float]], values: list[float]) -> list[float] | None:
    """Solve the normal equations by elimination with pivoting; columns are scaled, since KV counts are in the millions. None: singular."""
    n = len(rows[0])
    scale = [max(abs(row[i]) for row in rows) or 1.0 for i in range(n)]
    scaled = [[row[i] / scale[i] for i in range(n)] for row in rows]
    matrix = [[sum(row[i] * row[j] for row in scaled) for j in range(n)] for i in range(n)]
    right = [sum(row[i] * value for row, value in zip(scaled, values, strict=True)) for i in range(n)]
    for column in range(n):
        pivot = max(range(column, n), key=lambda i: abs(matrix[i][column]))
        if abs(matrix[pivot][column]) < 1e-10 * len(rows):
            return None
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        right[column], right[pivot] = right[pivot], right[column]
        for below in range(column + 1, n):
            factor = matrix[below][column] / matrix[column][column]
            for i in range(column, n):
                matrix[below][i] -= factor * matrix[column][i]
            right[below] -= factor * right[column]
    solution = [0.0] * n
    for row in reversed(range(n)):
        rest = sum(matrix[row][i] * solution[i] for i in range(row + 1, n))
        solution[row] = (right[row] - rest) / matrix[row][row]
    return [value / scale[i] for i, value in enumerate(solution)]
