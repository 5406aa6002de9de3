"""One engine of the simulation: a real scheduler, and an executor that only says how long a step takes.

Why the executor makes tokens up: what is generated does not matter here, only how many. So a request stops at its length, every generated
token is 0, and a prompt is a list of ids that is equal to another's exactly as far as they share a prefix.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.group import make_children
from infer_lab.core.limits import check_request
from infer_lab.core.plan import ScheduledRequest, StepOutput, StepPlan
from infer_lab.core.request import Request, RequestUpdate
from infer_lab.core.scheduler import Scheduler
from infer_lab.errors import UserError
from infer_lab.sim.cost_model import CostModel, StepWork
from infer_lab.sim.traffic import Arrival


@dataclass(frozen=True, slots=True)
class Speculation:
    """num_drafts guesses a step, each right with probability `acceptance` (and only if those before it were)."""

    num_drafts: int
    acceptance: float

    def __post_init__(self) -> None:
        if self.num_drafts < 0 or not 0 <= self.acceptance <= 1:
            raise UserError(f"speculation wants num_drafts >= 0 and acceptance in [0, 1], got {self.num_drafts} and {self.acceptance}")


class SimulatedExecutor:
    """The executor seam with a cost model behind it. `busy_s` is the time of all steps so far; a step's own is `last_s`."""

    def __init__(self, cost: CostModel, speculation: Speculation | None = None, seed: int = 0) -> None:
        self.cost = cost
        self.speculation = speculation
        self.busy_s = self.last_s = 0.0
        self._random = random.Random(seed)

    def execute(self, plan: StepPlan) -> StepOutput:
        self.last_s = self.cost.seconds(StepWork.of(plan)) if plan.scheduled else 0.0
        self.busy_s += self.last_s
        return StepOutput(plan.step_id, {s.request_id: self._verify(s) if s.num_drafts else (0,) for s in plan.scheduled if s.samples})

    def _verify(self, scheduled: ScheduledRequest) -> tuple[int, ...]:
        assert self.speculation is not None
        accepted = 0
        while accepted < scheduled.num_drafts and self._random.random() < self.speculation.acceptance:
            accepted += 1
        return (*scheduled.draft_token_ids[:accepted], 0)


class Instance:
    """`start_step` plans and runs; `finish_step` applies, at the time that the step takes. One step at a time.

    static_batching: requests wait at a gate in front of the scheduler until every request of the batch before has finished, and up to
    max_num_seqs of them then enter together. It is how batches were run before continuous batching, kept to be compared with.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        cost: CostModel,
        clock: Callable[[], float],
        speculation: Speculation | None = None,
        seed: int = 0,
        static_batching: bool = False,
    ) -> None:
        self.scheduler = Scheduler(config, clock=clock)
        self.executor = SimulatedExecutor(cost, speculation, seed)
        self.static_batching = static_batching
        self.gate: deque[list[Request]] = deque()
        self.outstanding_tokens = 0
        self._under_way: tuple[StepPlan, StepOutput] | None = None

    @property
    def can_start(self) -> bool:
        return self._under_way is None and (self.scheduler.has_unfinished() or bool(self.gate))

    @property
    def plan(self) -> StepPlan | None:
        """The step under way."""
        return self._under_way[0] if self._under_way else None

    def add(self, request_id: str, arrival: Arrival, unique_id: int) -> list[Request]:
        """One request, or with arrival.n > 1 that many, named `id#0` …, from one prompt. Raises what `Scheduler.add` raises."""
        tokens = _prompt(arrival, unique_id)

        def make(name: str, index: int = 0) -> Request:
            return Request(name, tokens, arrival.output_tokens, tenant=arrival.tenant, priority=arrival.priority)

        requests = [make(request_id)] if arrival.n == 1 else make_children(request_id, arrival.n, make)
        if self.static_batching:
            check_request(requests[0], self.scheduler.config)
            self.gate.append(requests)
        else:
            self._enter(requests, request_id)
        self.outstanding_tokens += arrival.n * (arrival.prompt_tokens + arrival.output_tokens)
        return requests

    def _enter(self, requests: list[Request], request_id: str) -> None:
        if len(requests) == 1:
            self.scheduler.add(requests[0])
        else:
            self.scheduler.add_group(request_id, requests)

    def _open_gate(self) -> None:
        room = self.scheduler.config.max_num_seqs
        while self.gate and (len(self.gate[0]) <= room or room == self.scheduler.config.max_num_seqs):
            requests = self.gate.popleft()
            room -= len(requests)
            self._enter(requests, requests[0].request_id.partition("#")[0])

    def start_step(self) -> float:
        """Seconds that the step takes."""
        if self.gate and not self.scheduler.has_unfinished():
            self._open_gate()
        if self.executor.speculation:
            for request in self.scheduler.running:
                self.scheduler.propose(request.request_id, (0,) * self.executor.speculation.num_drafts)
        plan = self.scheduler.schedule()
        self._under_way = (plan, self.executor.execute(plan))
        return self.executor.last_s

    def finish_step(self) -> list[RequestUpdate]:
        assert self._under_way is not None
        updates = self.scheduler.apply(*self._under_way)
        self._under_way = None
        return updates


def _prompt(arrival: Arrival, unique_id: int) -> list[int]:
    """Token ids from 1: odd ones for shared prefixes, even ones for what is a request's own, so that no prefix equals an own part."""
    own = unique_id if arrival.own is None else arrival.own
    return [2 * arrival.prefix + 1] * arrival.prefix_tokens + [2 * own + 2] * (arrival.prompt_tokens - arrival.prefix_tokens)
