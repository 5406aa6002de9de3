"""The event loop: time jumps from one arrival or end of a step to the next.

Why events and not ticks: between two events nothing changes, so an hour costs as much as there are steps in it, and no time is rounded.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.request import Request, RequestUpdate
from infer_lab.errors import InferLabError, InvalidRequestError, QueueFullError, UserError
from infer_lab.sim.cost_model import CostModel
from infer_lab.sim.instance import Instance, Speculation
from infer_lab.sim.results import RequestResult, SimulationResult
from infer_lab.sim.router import Router, least_outstanding
from infer_lab.sim.traffic import Arrival


class Observer:
    """What one may look at while a simulation runs; subclasses override what they care about. To read, not to change."""

    def arrived(self, arrival: Arrival, requests: Sequence[Request]) -> None: ...

    def rejected(self, arrival: Arrival, error: InferLabError) -> None: ...

    def step_started(self, instance: Instance, now: float, seconds: float) -> None:
        """`instance.plan` is decided and takes `seconds`."""

    def step_ended(self, instance: Instance, now: float, updates: Sequence[RequestUpdate]) -> None: ...


class Simulation:
    """`num_instances` equal engines behind a router, for one run: what it leaves in the caches would count for a second one."""

    def __init__(
        self,
        config: SchedulerConfig,
        cost: CostModel,
        *,
        num_instances: int = 1,
        router: Router | None = None,
        speculation: Speculation | None = None,
        static_batching: bool = False,
        observer: Observer | None = None,
    ) -> None:
        if num_instances < 1:
            raise UserError(f"a simulation needs at least one instance, got {num_instances}")
        self.now = 0.0
        self.instances: Sequence[Instance] = [
            Instance(config, cost, lambda: self.now, speculation, seed, static_batching) for seed in range(num_instances)
        ]
        self._observer = observer or Observer()
        self._router = router or least_outstanding()
        self._ends: list[tuple[float, int]] = []  # when which instance's step ends
        self._alive: dict[str, tuple[Arrival, Request, int]] = {}
        self._results: list[RequestResult] = []
        self._num_rejected = self._num_steps = 0
        self._ran = False

    def run(self, arrivals: Iterable[Arrival], until: float | None = None) -> SimulationResult:
        """Serve the arrivals (in order of time) and everything that is left; or stop the clock at `until` seconds.

        A step under way at `until` is cut off: its tokens do not count, its time up to there does."""
        if self._ran:
            raise UserError("this simulation has run; make a new one")
        self._ran = True
        coming = iter(arrivals)
        arrival = next(coming, None)
        number = 0
        reached: set[int] = set()
        while arrival is not None or self._ends:
            next_end = self._ends[0][0] if self._ends else float("inf")
            next_time = min(next_end, arrival.time if arrival is not None else float("inf"))
            if arrival is not None and not self.now <= arrival.time < float("inf"):
                raise UserError(f"arrivals must come in order of time: {arrival.time:g} s after {self.now:g} s")
            if until is not None and next_time > until:
                self.now = max(self.now, until)
                break
            self.now = next_time
            if arrival is not None and arrival.time <= next_end:
                reached.add(self._arrive(arrival, number))
                number += 1
                arrival = next(coming, None)
                if arrival is None or arrival.time > self.now:  # who comes at the same moment is in the same step
                    for index in sorted(reached):
                        self._start_step(index)
                    reached.clear()
            else:
                self._end_step(heapq.heappop(self._ends)[1])
        cut_off = [0.0] * len(self.instances)  # of steps under way, the part beyond the end
        for end, index in self._ends:
            cut_off[index] = end - self.now
        return SimulationResult(
            requests=self._results,
            num_rejected=self._num_rejected,
            num_unfinished=len(self._alive),
            duration_s=self.now,
            busy_s=[instance.executor.busy_s - cut for instance, cut in zip(self.instances, cut_off, strict=True)],
            num_steps=self._num_steps,
        )

    def _arrive(self, arrival: Arrival, number: int) -> int:
        """The instance that it reached."""
        instance = self._router(arrival, self.instances)
        index = self.instances.index(instance)
        name = str(number)
        try:
            requests = instance.add(name, arrival, number)
        except (QueueFullError, InvalidRequestError) as error:
            self._num_rejected += arrival.n
            self._observer.rejected(arrival, error)
            return index
        for request in requests:
            self._alive[request.request_id] = (arrival, request, index)
        self._observer.arrived(arrival, requests)
        return index

    def _start_step(self, index: int) -> None:
        instance = self.instances[index]
        if instance.can_start:
            self._num_steps += 1
            seconds = instance.start_step()
            if not 0 <= seconds < float("inf"):
                raise UserError(f"the cost model says that a step takes {seconds} s")
            self._observer.step_started(instance, self.now, seconds)
            heapq.heappush(self._ends, (self.now + seconds, index))

    def _end_step(self, index: int) -> None:
        instance = self.instances[index]
        updates = instance.finish_step()
        for update in updates:
            instance.outstanding_tokens -= len(update.new_token_ids)
            if update.finish_reason is not None:
                arrival, request, _ = self._alive.pop(update.request_id)
                instance.outstanding_tokens -= arrival.prompt_tokens + arrival.output_tokens - request.num_output_tokens
                self._results.append(RequestResult.of(request, arrival, index))
        self._observer.step_ended(instance, self.now, updates)
        self._start_step(index)
