"""A run as plain data, step by step: what a page, a notebook or a test needs to show it, and nothing that needs the engine.

Times are milliseconds from the start, requests are numbered in order of arrival. A step's `runs` are rows
`[request, kind, start, tokens, again, new, block…]`: it computes `tokens` positions from `start` on (`again` of them for the second time,
after a preemption), writes into those blocks, and gets `new` output tokens. `blocks` lists only what changed since the step before:
`[block]` is empty, `[block, -1]` free with cached KV, `[block, request…]` held.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_lab.core.block_pool import BlockPool
from infer_lab.core.plan import ScheduledRequest
from infer_lab.core.request import Request, RequestStatus, RequestUpdate
from infer_lab.errors import InferLabError, SimulationTooLongError
from infer_lab.sim.instance import Instance
from infer_lab.sim.results import RequestResult
from infer_lab.sim.simulation import Observer
from infer_lab.sim.traffic import Arrival

MAX_STEPS, MAX_RUNS = 2000, 30_000
PREFILL, DECODE, DRAFTS, AGAIN = "prefill", "decode", "drafts", "again"
CACHED = -1
_SPANS = {
    "arrived": ("waiting", ("admitted", "finished")),
    "preempted": ("preempted", ("resumed", "finished")),
    "swapped_out": ("swapped", ("swapped_in", "finished")),
}


def ms(seconds: float) -> float:
    """To the microsecond, so that a trace is the same on every machine."""
    return round(seconds * 1e3, 3)


class Recorder(Observer):
    """Watches one instance. SimulationTooLongError when there is more than a page can show."""

    def __init__(self, names: Sequence[str]) -> None:
        """names: of arrivals, by their place in the order of time."""
        self.steps: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self._names = names
        self._alive: dict[str, tuple[int, Request, Arrival]] = {}
        self._all: list[tuple[Request, Arrival]] = []
        self._computed: list[int] = []  # by request: how many positions had KV at some time
        self._blocks: list[tuple[int, ...]] = []
        self._num_arrivals = self._num_runs = 0

    # -- while it runs ---------------------------------------------------------------------------------------------------

    def arrived(self, arrival: Arrival, requests: Sequence[Request]) -> None:
        name = self._names[self._num_arrivals]
        for index, request in enumerate(requests):
            self._alive[request.request_id] = (len(self.requests), request, arrival)
            self._all.append((request, arrival))
            self._computed.append(0)
            self.requests.append(_request(f"{name}, answer {index + 1}" if arrival.n > 1 else name, arrival))
        self._num_arrivals += 1

    def rejected(self, arrival: Arrival, error: InferLabError) -> None:
        name = self._names[self._num_arrivals]
        said = str(error).partition(": ")[2] or str(error)
        for _ in range(arrival.n):
            self._all.append((Request("refused", [0], 1), arrival))
            self._computed.append(0)
            self.requests.append(_request(name, arrival) | {"refused": said})
        self._num_arrivals += 1

    def step_started(self, instance: Instance, now: float, seconds: float) -> None:
        plan, scheduler = instance.plan, instance.scheduler
        assert plan is not None
        self._num_runs += len(plan.scheduled)
        if len(self.steps) >= MAX_STEPS or self._num_runs > MAX_RUNS:
            left = len(self._alive)
            raise SimulationTooLongError(
                f"after {len(self.steps)} steps and {ms(now) / 1e3:.1f} s, {left} of {len(self.requests)} requests are unfinished; a page"
                f" shows at most {MAX_STEPS:,} steps of {MAX_RUNS:,} runs together: ask for fewer requests or shorter outputs"
            )
        entered, left = [], []
        for number, request, _ in self._alive.values():
            for event in reversed(request.timeline.events):
                if event.step_id != plan.step_id:
                    break
                if event.name in ("admitted", "resumed", "swapped_in"):
                    entered.append([number, event.tokens])
                else:
                    left.append([number, "swap" if event.name == "swapped_out" else "recompute", event.tokens])
        waiting = sorted((r for r in scheduler.requests.values() if r.status is not RequestStatus.RUNNING), key=lambda r: r.urgency)
        waiting += [request for requests in instance.gate for request in requests]
        pool = scheduler.kv.pool
        self.steps.append(
            {
                "at": ms(now),
                "ms": ms(seconds),
                "runs": [self._run(scheduled, scheduler.kv.block_size) for scheduled in plan.scheduled],
                "waiting": [self._alive[request.request_id][0] for request in waiting],
                "entered": entered,
                "left": left,
                "done": [],
                "used": pool.num_used,
                "blocks": self._changed_blocks(pool, scheduler.running),
            }
        )

    def step_ended(self, instance: Instance, now: float, updates: Sequence[RequestUpdate]) -> None:
        step = self.steps[-1]
        rows = {row[0]: row for row in step["runs"]}
        for update in updates:
            number, _, _ = self._alive[update.request_id]
            rows[number][5] = len(update.new_token_ids)
            if update.finish_reason is not None:
                step["done"].append(number)
                del self._alive[update.request_id]

    # -- afterwards ------------------------------------------------------------------------------------------------------

    def finish(self, instance: Instance, now: float) -> None:
        """Adds what is known at the end: the requests' own times, and the pool as it was left."""
        pool = instance.scheduler.kv.pool
        last = {"at": ms(now), "ms": 0.0, "runs": [], "waiting": [], "entered": [], "left": [], "done": [], "used": pool.num_used}
        self.steps.append(last | {"blocks": self._changed_blocks(pool, [])})
        for shown, (request, arrival) in zip(self.requests, self._all, strict=True):
            if not shown["refused"]:
                shown.update(_times(request, arrival))

    # -- rows ------------------------------------------------------------------------------------------------------------

    def _run(self, scheduled: ScheduledRequest, block_size: int) -> list[Any]:
        number, request, _ = self._alive[scheduled.request_id]
        start, count = scheduled.start, scheduled.num_tokens
        end = start + count - scheduled.num_drafts
        again = max(0, min(end, self._computed[number]) - start)
        self._computed[number] = max(self._computed[number], end)
        if again:
            kind = AGAIN
        elif start < request.num_prompt_tokens:
            kind = PREFILL
        else:
            kind = DRAFTS if scheduled.num_drafts else DECODE
        return [number, kind, start, count, again, 0, *request.block_ids[start // block_size : -(-(start + count) // block_size)]]

    def _changed_blocks(self, pool: BlockPool, running: Sequence[Request]) -> list[list[int]]:
        holders: dict[int, tuple[int, ...]] = {}
        for request in running:
            number = self._alive[request.request_id][0]
            for block in request.block_ids:
                holders[block] = (*holders[block], number) if block in holders else (number,)
        now = [holders.get(block) or ((CACHED,) if pool.is_cached(block) else ()) for block in range(pool.num_blocks)]
        before = self._blocks or [()] * pool.num_blocks
        self._blocks = now
        return [[block, *state] for block, state in enumerate(now) if state != before[block]]


def _request(name: str, arrival: Arrival) -> dict[str, Any]:
    return {
        "name": name,
        "at": ms(arrival.time),
        "prompt": arrival.prompt_tokens,
        "output": arrival.output_tokens,
        "prefix": arrival.prefix_tokens,
        "priority": arrival.priority,
        "refused": "",
    }


def _times(request: Request, arrival: Arrival) -> dict[str, Any]:
    result = RequestResult.of(request, arrival)
    return {
        "queue": ms(result.queue_s),
        "ttft": ms(result.ttft_s),
        "tpot": None if result.tpot_s is None else ms(result.tpot_s),
        "longest_gap": ms(max(result.itl_s)) if result.itl_s else None,
        "latency": ms(result.latency_s),
        "done": ms(result.finish_s),
        "cached": result.cached_tokens,
        "preemptions": result.num_preemptions,
        "spans": _spans(request, arrival),
    }


def _spans(request: Request, arrival: Arrival) -> list[list[Any]]:
    """[from, to, "waiting", "preempted" or "swapped"]: when the request was alive and not in the batch."""
    events, found = request.timeline.events, []
    for index, event in enumerate(events):
        if event.name in _SPANS:
            kind, ends = _SPANS[event.name]
            end = next(later.time for later in events[index + 1 :] if later.name in ends)
            start = arrival.time if event.name == "arrived" else event.time
            if end > start:
                found.append([ms(start), ms(end), kind])
    return found
