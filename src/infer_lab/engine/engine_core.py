"""One engine: a scheduler that decides, an executor that computes, and the loop that connects them."""

from __future__ import annotations

from typing import Protocol

from infer_lab.core.plan import StepOutput, StepPlan
from infer_lab.core.request import RequestUpdate
from infer_lab.core.scheduler import Scheduler
from infer_lab.spec.speculator import Speculator


class Executor(Protocol):
    """The core's seam, and a way back to an empty state."""

    def execute(self, plan: StepPlan) -> StepOutput: ...

    def reset(self) -> None: ...


class EngineCore:
    """`step` is the whole engine. Both halves are given to it, so the same loop runs on a CPU, a GPU or a cost model."""

    def __init__(self, scheduler: Scheduler, executor: Executor, speculator: Speculator | None = None) -> None:
        self.scheduler, self.executor, self.speculator = scheduler, executor, speculator

    def step(self) -> list[RequestUpdate]:
        """(draft →) schedule → run → apply. The requests that got tokens; empty when there was nothing to do."""
        if self.speculator is not None:
            self.speculator.propose(self.scheduler)
        plan = self.scheduler.schedule()
        output = self.executor.execute(plan)
        return self.scheduler.apply(plan, output)

    def reset(self, scheduler: Scheduler) -> None:
        """Start over with an empty scheduler after a step failed half way; the executor forgets its rows."""
        self.scheduler = scheduler
        self.executor.reset()
