"""What happened, as plain data: one timeline a request, one record a step.

Why in the core: only the scheduler knows why a request waited. Why plain data: exporters, notebooks, the simulator and the
browser read it without asking the scheduler anything. Times are seconds of the clock that the scheduler was given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from typing import NamedTuple


class TimelineEvent(NamedTuple):
    """name: arrived · admitted · preempted · swapped_out · resumed · swapped_in · finished.

    tokens: what was already in KV (admitted, resumed, swapped_in) or was in KV (preempted, swapped_out), else the tokens known."""

    time: float
    name: str
    step_id: int
    tokens: int


@dataclass(slots=True)
class Timeline:
    """Events of one request in order of time, and the time at which each output token was known."""

    events: list[TimelineEvent] = field(default_factory=list)
    token_times: list[float] = field(default_factory=list)

    def time_of(self, name: str) -> float | None:
        """Time of the first event of that name."""
        return next((event.time for event in self.events if event.name == name), None)

    @property
    def arrival_time(self) -> float | None:
        return self.time_of("arrived")

    @property
    def finish_time(self) -> float | None:
        return self.time_of("finished")

    @property
    def queue_time(self) -> float | None:
        """Arrival to first admission, seconds."""
        arrived, admitted = self.time_of("arrived"), self.time_of("admitted")
        return None if arrived is None or admitted is None else admitted - arrived

    @property
    def ttft(self) -> float | None:
        """Time to first token: arrival to the first output token, seconds."""
        arrived = self.time_of("arrived")
        return None if arrived is None or not self.token_times else self.token_times[0] - arrived

    @property
    def tpot(self) -> float | None:
        """Time per output token after the first, seconds; None with fewer than two."""
        count = len(self.token_times)
        return None if count < 2 else (self.token_times[-1] - self.token_times[0]) / (count - 1)


@dataclass(slots=True)
class DraftCounts:
    """What became of drafts, of one request or of all. Names as in vLLM's metrics (spec_decode_…).

    num_drafts: steps that verified drafts. num_accepted_tokens_per_pos[i]: how often the (i + 1)-th draft of a step was accepted."""

    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)

    def add(self, num_drafted: int, num_accepted: int) -> None:
        """One step verified `num_drafted` tokens and kept the first `num_accepted`."""
        self.num_drafts += 1
        self.num_draft_tokens += num_drafted
        self.num_accepted_tokens += num_accepted
        per_pos = self.num_accepted_tokens_per_pos
        per_pos.extend([0] * (num_drafted - len(per_pos)))
        for position in range(num_accepted):
            per_pos[position] += 1

    def __add__(self, other: DraftCounts) -> DraftCounts:
        return DraftCounts(
            self.num_drafts + other.num_drafts,
            self.num_draft_tokens + other.num_draft_tokens,
            self.num_accepted_tokens + other.num_accepted_tokens,
            [a + b for a, b in zip_longest(self.num_accepted_tokens_per_pos, other.num_accepted_tokens_per_pos, fillvalue=0)],
        )

    @property
    def acceptance_rate(self) -> float | None:
        """Share of the drafted tokens that was kept; None without drafts."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """Tokens that a verifying step gave, its own one included; None without drafts."""
        return 1 + self.num_accepted_tokens / self.num_drafts if self.num_drafts else None


class StepRecord(NamedTuple):
    """One step as it was planned and came out. Counts are of tokens, requests or blocks as named; times are seconds.

    cached_tokens: KV that was found instead of computed. kv_tokens: KV positions that attention had to go through, summed over the batch.
    """

    step_id: int
    scheduled_at: float
    applied_at: float
    token_budget: int
    prefill_tokens: int
    decode_tokens: int
    draft_tokens: int
    accepted_draft_tokens: int
    cached_tokens: int
    kv_tokens: int
    batch_size: int
    num_admitted: int
    num_preempted: int
    num_swapped_out: int
    num_running: int
    num_waiting: int
    used_blocks: int
    total_blocks: int

    @property
    def num_tokens(self) -> int:
        return self.prefill_tokens + self.decode_tokens + self.draft_tokens

    @property
    def kv_usage(self) -> float:
        return self.used_blocks / self.total_blocks
