"""A step while it is being planned, and while it is on its way.

Why: `schedule()` collects what it decides here and freezes it into a `StepPlan` at the end; `apply()` needs to know later which
lives of which requests the plan was made for, since a request may have been aborted, preempted or replaced by then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from infer_lab.core.plan import AdmittedRequest, BlockCopy, ScheduledRequest, StepPlan
from infer_lab.core.request import Request


@dataclass(slots=True)
class Step:
    """budget: tokens that may still be handed out. `requests` and `epochs` run beside `scheduled`."""

    step_id: int
    scheduled_at: float
    token_budget: int
    budget: int = 0
    scheduled: list[ScheduledRequest] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)
    admitted: list[AdmittedRequest] = field(default_factory=list)
    swap_out: list[BlockCopy] = field(default_factory=list)
    swap_in: list[BlockCopy] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    num_swapped_out: int = 0
    num_partial: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    draft_tokens: int = 0
    cached_tokens: int = 0

    def __post_init__(self) -> None:
        self.budget = self.token_budget

    def freeze(self, released: tuple[str, ...]) -> StepPlan:
        return StepPlan(
            step_id=self.step_id,
            scheduled=tuple(self.scheduled),
            admitted=tuple(self.admitted),
            released=released,
            swap_out=tuple(self.swap_out),
            swap_in=tuple(self.swap_in),
            copies=tuple(self.copies),
        )
