"""What a simulation (or an engine) did to its users: latencies as distributions, and what of it was good.

Why distributions: means hide what a user feels. Why goodput: an instance that answers everything too late has throughput and no use.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from infer_lab.core.request import Request
from infer_lab.errors import UserError
from infer_lab.sim.traffic import Arrival


def percentile(values: Iterable[float], percent: float) -> float:
    """Linear between the two nearest ranks, as numpy does by default. NaN for no values."""
    if not 0 <= percent <= 100:
        raise UserError(f"a percentile lies in [0, 100], got {percent}")
    ordered = sorted(values)
    if not ordered:
        return math.nan
    at = (len(ordered) - 1) * percent / 100
    low = math.floor(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


@dataclass(frozen=True, slots=True)
class RequestResult:
    """Times are seconds. itl: gaps between tokens that were known one after the other (0 within one step's drafts)."""

    arrival_s: float
    finish_s: float
    queue_s: float
    ttft_s: float
    tpot_s: float | None
    itl_s: tuple[float, ...]
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    num_preemptions: int
    instance: int
    tenant: str

    @classmethod
    def of(cls, request: Request, arrival: Arrival, instance: int = 0) -> RequestResult:
        timeline = request.timeline
        times = timeline.token_times
        finish, admitted = timeline.finish_time, timeline.time_of("admitted")
        assert finish is not None and admitted is not None and times
        return cls(
            arrival_s=arrival.time,
            finish_s=finish,
            queue_s=admitted - arrival.time,
            ttft_s=times[0] - arrival.time,
            tpot_s=timeline.tpot,
            itl_s=tuple(b - a for a, b in pairwise(times)),
            prompt_tokens=request.num_prompt_tokens,
            output_tokens=request.num_output_tokens,
            cached_tokens=request.num_cached_tokens,
            num_preemptions=request.num_preemptions,
            instance=instance,
            tenant=request.tenant,
        )

    @property
    def latency_s(self) -> float:
        return self.finish_s - self.arrival_s


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """requests: the finished ones, in order of finishing. busy_s: computing time of each instance."""

    requests: Sequence[RequestResult]
    num_rejected: int
    num_unfinished: int
    duration_s: float
    busy_s: Sequence[float]
    num_steps: int
    _sorted: dict[str, list[float]] = field(default_factory=dict, repr=False, compare=False)

    def values(self, name: str) -> list[float]:
        """All values of "ttft", "tpot", "itl", "queue" or "latency", sorted."""
        if name not in self._sorted:
            if name == "itl":
                found = [gap for request in self.requests for gap in request.itl_s]
            else:
                found = [value for request in self.requests if (value := getattr(request, f"{name}_s")) is not None]
            self._sorted[name] = sorted(found)
        return self._sorted[name]

    def percentile(self, name: str, percent: float) -> float:
        return percentile(self.values(name), percent)

    def mean(self, name: str) -> float:
        values = self.values(name)
        return sum(values) / len(values) if values else math.nan

    @property
    def output_tokens_per_s(self) -> float:
        return sum(request.output_tokens for request in self.requests) / self.duration_s if self.duration_s else 0.0

    @property
    def requests_per_s(self) -> float:
        return len(self.requests) / self.duration_s if self.duration_s else 0.0

    @property
    def utilization(self) -> float:
        """Share of the time that the instances computed."""
        return sum(self.busy_s) / (len(self.busy_s) * self.duration_s) if self.duration_s else 0.0

    def attainment(self, ttft_s: float = math.inf, tpot_s: float = math.inf) -> float:
        """Share of all requests, rejected and unfinished ones included, that were served within both limits."""
        total = len(self.requests) + self.num_rejected + self.num_unfinished
        good = sum(r.ttft_s <= ttft_s and (r.tpot_s or 0.0) <= tpot_s for r in self.requests)
        return good / total if total else math.nan

    def goodput(self, ttft_s: float = math.inf, tpot_s: float = math.inf) -> float:
        """Requests a second that were served within both limits."""
        good = sum(r.ttft_s <= ttft_s and (r.tpot_s or 0.0) <= tpot_s for r in self.requests)
        return good / self.duration_s if self.duration_s else 0.0

    def summary(self) -> dict[str, float]:
        """Plain numbers: counts, rates, and p50/p90/p99 of each latency in seconds."""
        numbers: dict[str, float] = {
            "finished": len(self.requests),
            "rejected": self.num_rejected,
            "unfinished": self.num_unfinished,
            "duration_s": self.duration_s,
            "steps": self.num_steps,
            "output_tokens_per_s": self.output_tokens_per_s,
            "requests_per_s": self.requests_per_s,
            "utilization": self.utilization,
            "preemptions": sum(request.num_preemptions for request in self.requests),
            "cached_token_share": (
                sum(request.cached_tokens for request in self.requests) / max(1, sum(request.prompt_tokens for request in self.requests))
            ),
        }
        for name in ("ttft", "tpot", "itl", "queue", "latency"):
            for percent in (50, 90, 99):
                numbers[f"{name}_p{percent}_s"] = self.percentile(name, percent)
        return numbers
