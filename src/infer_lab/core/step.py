"""A step while it is being planned, and while it is on its way.

Why: `schedule()` collects here what it decides and freezes it into a `StepPlan`; `apply()` needs to know later which requests the plan
was made for (objects, not ids: an id may belong to someone else by then), and whose KV was thrown away in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from infer_lab.core.block_pool import BlockPool
from infer_lab.core.plan import AdmittedRequest, BlockCopy, ScheduledRequest, StepPlan
from infer_lab.core.record import StepRecord
from infer_lab.core.request import Request, RequestStatus


@dataclass(slots=True)
class Step:
    """budget: tokens still to be handed out. requests: runs beside `scheduled`. served: tokens by tenant, not charged yet.
    promised_blocks: what running requests may still need, when somebody asked for it.
    moved, lost_kv: requests that a later plan preempted, and those of them whose KV it threw away."""

    step_id: int
    scheduled_at: float
    token_budget: int
    budget: int = field(init=False)
    scheduled: list[ScheduledRequest] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    admitted: list[AdmittedRequest] = field(default_factory=list)
    swap_out: list[BlockCopy] = field(default_factory=list)
    swap_in: list[BlockCopy] = field(default_factory=list)
    copies: list[BlockCopy] = field(default_factory=list)
    preempted: list[Request] = field(default_factory=list)
    swapped_out: list[Request] = field(default_factory=list)
    served: dict[str, int] = field(default_factory=dict)
    moved: set[Request] = field(default_factory=set)
    lost_kv: set[Request] = field(default_factory=set)
    promised_blocks: int | None = None
    num_partial: int = 0
    prefill_tokens: int = 0
    decode_tokens: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    cached_tokens: int = 0
    kv_tokens: int = 0

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

    def forget(self, preempted: Iterable[Request]) -> None:
        """A later plan preempted these: what this step wrote for them is gone, or has moved to the host."""
        self.moved.update(preempted)
        self.lost_kv.update(request for request in preempted if request.status is RequestStatus.WAITING)

    def record(self, applied_at: float, num_running: int, num_waiting: int, pool: BlockPool) -> StepRecord:
        return StepRecord(
            step_id=self.step_id,
            scheduled_at=self.scheduled_at,
            applied_at=applied_at,
            token_budget=self.token_budget,
            prefill_tokens=self.prefill_tokens,
            decode_tokens=self.decode_tokens,
            draft_tokens=self.draft_tokens,
            accepted_draft_tokens=self.accepted_tokens,
            cached_tokens=self.cached_tokens,
            kv_tokens=self.kv_tokens,
            batch_size=len(self.scheduled),
            num_admitted=len(self.admitted),
            num_preempted=len(self.preempted),
            num_swapped_out=len(self.swapped_out),
            num_running=num_running,
            num_waiting=num_waiting,
            used_blocks=pool.num_used,
            total_blocks=pool.num_usable,
        )
