"""One engine: a scheduler that decides, an executor that computes, and the loop that connects them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from infer_lab.core.plan import StepOutput, StepPlan
from infer_lab.core.record import StepRecord
from infer_lab.core.request import RequestUpdate
from infer_lab.core.scheduler import Scheduler
from infer_lab.spec.speculator import Speculator


class Executor(Protocol):
    """The core's seam, and a way back to an empty state."""

    def execute(self, plan: StepPlan) -> StepOutput: ...

    def reset(self) -> None: ...


@runtime_checkable
class LaunchingExecutor(Executor, Protocol):
    """One whose steps can wait in a device's queue. The result of `launch` waits for the step; results are asked for in order."""

    def launch(self, plan: StepPlan) -> Callable[[], StepOutput]: ...


class EngineCore:
    """`step` is the whole engine. Both halves are given to it, so the same loop runs on a CPU, a GPU or a cost model.

    With the scheduler's `async_scheduling` a step is launched before the one ahead of it is over: while the device computes, the host takes
    in the last output and prepares the next plan. Tokens are the same, since a plan depends on there being a token, never on its value.
    last_record: of the step that `step` took in.
    """

    def __init__(self, scheduler: Scheduler, executor: Executor, speculator: Speculator | None = None) -> None:
        self.scheduler, self.executor, self.speculator = scheduler, executor, speculator
        self.last_record: StepRecord | None = None
        self._in_flight: deque[tuple[StepPlan, Callable[[], StepOutput]]] = deque()

    def step(self) -> list[RequestUpdate]:
        """(draft →) schedule → launch, then apply the oldest that was launched. The requests that got tokens; empty when there was
        nothing to do."""
        if self.speculator is not None:
            self.speculator.propose(self.scheduler)
        try:
            while len(self._in_flight) <= self.scheduler.config.async_scheduling:
                plan = self.scheduler.schedule()
                self._in_flight.append((plan, self._launch(plan)))
            updates = self._apply_oldest()
        except BaseException:
            self._in_flight.clear()  # the scheduler says which requests that costs
            raise
        self.last_record = self.scheduler.step_records[-1]
        self.settle()
        return updates

    def settle(self) -> None:
        """When nothing is alive, take in what is still on its way for requests that have ended."""
        try:
            while self._in_flight and not self.scheduler.has_unfinished():
                self._apply_oldest()
        except BaseException:
            self._in_flight.clear()
            raise

    def _launch(self, plan: StepPlan) -> Callable[[], StepOutput]:
        if isinstance(self.executor, LaunchingExecutor):
            return self.executor.launch(plan)
        output = self.executor.execute(plan)
        return lambda: output

    def _apply_oldest(self) -> list[RequestUpdate]:
        plan, result = self._in_flight.popleft()
        return self.scheduler.apply(plan, result())

    def reset(self, scheduler: Scheduler) -> None:
        """Start over with an empty scheduler after a step failed half way; the executor forgets its rows."""
        self.scheduler = scheduler
        self._in_flight.clear()
        self.executor.reset()
