"""A scheduler, a fake worker and somebody who remembers what must come out. Every operation is followed by every check."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.plan import PLACEHOLDER, StepOutput, StepPlan
from infer_lab.core.request import Request, RequestStatus, RequestUpdate
from infer_lab.core.scheduler import Scheduler

from .fake import FakeParams, FakeWorker, prefix_ids, reference


@dataclass
class Asked:
    request: Request
    prompt: list[int]
    params: FakeParams
    expected: list[int]
    reason: str
    got: list[int] = field(default_factory=list)
    ended: str | None = None


class World:
    """`issue` plans a step, `complete` applies the oldest one; `step` does both. The worker runs a plan at once, or (lazy) at the last
    moment: either way in order, and either way nobody may notice."""

    def __init__(self, config: SchedulerConfig, *, lazy: bool = False) -> None:
        self.config = config
        self.lazy = lazy
        self.now = 0.0
        self.scheduler = Scheduler(config, clock=lambda: self.now)
        self.worker = FakeWorker(
            config.num_blocks, config.block_size, config.num_host_blocks, config.max_num_batched_tokens, config.max_num_seqs
        )
        self.asked: dict[str, Asked] = {}  # alive
        self.in_flight: deque[tuple[StepPlan, StepOutput | None]] = deque()
        self.work = 0  # bound for the steps that what is alive may still need
        self.num_steps = 0
        self.filed: dict[bytes, list[int]] = {}  # what a block with this digest must hold
        self.seen: Counter[str] = Counter()  # how often the rare things happened, to know that they do

    # -- operations --------------------------------------------------------------------------------------------------------

    def make(
        self,
        name: str,
        prompt: list[int],
        max_tokens: int,
        *,
        stop: frozenset[int] = frozenset(),
        cache_keys: tuple[tuple[str, str], ...] = (),
        seed: int = 0,
        vocab: int = 5,
        priority: int = 0,
        tenant: str = "",
    ) -> Request:
        params = FakeParams(cache_keys, seed, vocab)
        return Request(
            name, prompt, max_tokens, stop_token_ids=stop, cache_keys=cache_keys, params=params, priority=priority, tenant=tenant
        )

    def _expect(self, request: Request) -> None:
        params = request.params
        assert isinstance(params, FakeParams)
        expected, reason = reference(request.prompt_token_ids, params, request.max_total_tokens, request.stop_token_ids)
        self.asked[request.request_id] = Asked(request, request.prompt_token_ids, params, expected, reason)
        self.work += request.max_total_tokens + 2

    def add(self, name: str, prompt: list[int], max_tokens: int, **options) -> Request:
        request = self.make(name, prompt, max_tokens, **options)
        self.scheduler.add(request)
        self._expect(request)
        self.check()
        return request

    def add_group(self, name: str, n: int, prompt: list[int], max_tokens: int, **options) -> list[Request]:
        children = [self.make(f"{name}#{i}", prompt, max_tokens, seed=i, **options) for i in range(n)]
        self.scheduler.add_group(name, children)
        for child in children:
            self._expect(child)
        self.check()
        return children

    def abort(self, name: str) -> list[RequestUpdate]:
        updates = self.scheduler.abort(name)
        self._take(updates)
        self.check()
        return updates

    def finish(self, name: str, reason: str) -> None:
        update = self.scheduler.finish(name, reason)
        self._take([] if update is None else [update])
        self.check()

    def propose(self, name: str, num_drafts: int, num_right: int) -> None:
        """Guesses of which the first `num_right` are what the model will say."""
        asked = self.asked[name]
        coming = asked.expected[len(asked.got) : len(asked.got) + num_drafts]
        coming += [0] * (num_drafts - len(coming))
        drafts = [token if i < num_right else (token + 1) % asked.params.vocab for i, token in enumerate(coming)]
        self.scheduler.propose(name, drafts)
        self.check()

    def propose_placeholders(self, name: str, num_drafts: int) -> None:
        """The worker shall guess."""
        self.scheduler.propose(name, [PLACEHOLDER] * num_drafts)
        self.check()

    def issue(self) -> StepPlan:
        scheduler = self.scheduler
        before = {request: request.num_computed_tokens for request in scheduler.running}
        plan = scheduler.schedule()
        self.num_steps += 1
        if not self.in_flight and self.asked:
            assert plan.scheduled, "requests are alive, nothing is on its way, and the step is empty"
            if before:  # the most urgent one moves, whatever else happens
                first = next(iter(before))
                assert first.status is RequestStatus.RUNNING and first.num_computed_tokens > before[first], f"{first} stands still"
        partial = sum(not scheduled.samples for scheduled in plan.scheduled)
        assert not self.config.max_num_partial_prefills or partial <= self.config.max_num_partial_prefills
        assert self.config.enable_chunked_prefill or not partial
        if self.config.admission == "request":
            assert not plan.swap_out and not any(request.num_preemptions for request in scheduler.requests.values())
        self.check()
        self._count(plan)
        self.in_flight.append((plan, None if self.lazy else self.worker.execute(plan)))
        return plan

    def _count(self, plan: StepPlan) -> None:
        record = self.scheduler._in_flight[-1][1]
        self.seen.update(
            steps=1,
            mixed=bool(record.decode_tokens and record.prefill_tokens),
            partial=record.num_partial,
            preempted=len(record.preempted),
            preempted_in_flight=sum(request.num_pending_samples > 0 for request in record.preempted),
            swapped_out=len(record.swapped_out),
            swapped_in=bool(plan.swap_in),
            forked_with_copy=len(plan.copies),
            cached_tokens=record.cached_tokens,
            drafts=record.draft_tokens,
            placeholders=sum(PLACEHOLDER in scheduled.token_ids for scheduled in plan.scheduled) if self.config.async_scheduling else 0,
            own_drafts=sum(PLACEHOLDER in scheduled.draft_token_ids for scheduled in plan.scheduled),
        )

    def complete(self) -> list[RequestUpdate]:
        plan, output = self.in_flight.popleft()
        updates = self.scheduler.apply(plan, output or self.worker.execute(plan))
        self._take(updates)
        self.check()
        if self.lazy:
            self.check_cache()
        return updates

    def fail(self) -> None:
        """A step is issued and the worker does not carry it out, nor anything else that it has not begun."""
        self.scheduler.schedule()
        self.in_flight.clear()
        self.worker.had_failure = True
        self._take(self.scheduler.drop_in_flight())
        assert self.scheduler.num_in_flight == 0
        self.check()
        self.check_cache()

    def step(self) -> list[RequestUpdate]:
        self.issue()
        return self.complete()

    def drain(self, tick: float = 0.0, depth: int = 1) -> None:
        """Run until everything is finished, within a bound; then nothing may be left anywhere."""
        bound = self.num_steps + depth * (self.work * (len(self.asked) + 1) + 10)  # ahead of the outputs, many plans are empty
        while self.asked or self.in_flight:
            while len(self.in_flight) < depth and self.asked:
                self.issue()
            self.complete()
            self.now += tick
            assert self.num_steps <= bound, f"no end in sight after {self.num_steps} steps"
        self.check_nothing_left()

    # -- checks ------------------------------------------------------------------------------------------------------------

    def _take(self, updates: list[RequestUpdate]) -> None:
        for update in updates:
            asked = self.asked[update.request_id]
            asked.got += update.new_token_ids
            assert asked.got == asked.expected[: len(asked.got)], f"{update.request_id}: {asked.got}, expected {asked.expected}"
            assert asked.request.output_token_ids == asked.got
            if update.finish_reason is not None:
                asked.ended = update.finish_reason
                assert asked.request.finish_reason == asked.ended and asked.request.is_finished
                if asked.ended in ("stop", "length"):
                    assert (asked.got, asked.ended) == (asked.expected, asked.reason), f"{update.request_id} ended wrongly"
                self._remember_keys(asked)
                del self.asked[update.request_id]
            else:
                assert len(asked.got) < len(asked.expected), f"{update.request_id} goes on past its end"

    def check(self) -> None:
        self.scheduler.check_invariants()
        assert set(self.scheduler.requests) == set(self.asked)

    def check_cache(self) -> None:
        """Every block that can be found holds what its key says. (The worker has carried out every plan that was not dropped.)"""
        pool = self.scheduler.kv.pool
        for asked in self.asked.values():
            self._remember_keys(asked)
        for block, key in enumerate(pool._keys):
            assert key is None or self.worker.device[block] == self.filed[key.digest], f"block {block} does not hold what it is filed under"

    def _remember_keys(self, asked: Asked) -> None:
        size, request = self.config.block_size, asked.request
        ids = prefix_ids(asked.params.root, request.token_ids)
        for index, key in enumerate(request.block_keys):
            self.filed[key.digest] = ids[index * size : (index + 1) * size]

    def check_nothing_left(self) -> None:
        self.check()
        self.check_cache()
        kv = self.scheduler.kv
        assert not self.scheduler.has_unfinished() and not self.scheduler.num_running and not self.scheduler.num_waiting
        assert kv.pool.num_free == kv.pool.num_usable and kv.num_free_host_blocks == kv.num_host_blocks
        plan = self.scheduler.schedule()  # carries the last releases
        assert not plan.scheduled and not plan.admitted
        self.scheduler.apply(plan, self.worker.execute(plan))
        assert not self.worker.rows
        assert self.scheduler.num_in_flight == 0
