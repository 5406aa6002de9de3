"""Who computes what in the next step.

Why it is one loop without phases: every request has tokens, and a number of them that has KV. A step hands out a budget of tokens;
running requests come first, in order of urgency, then waiting ones; each gets as many of its missing tokens as budget and
blocks allow. Chunked prefill, prefix hits, drafts and resuming are all the same thing. (After vLLM V1's scheduler.)

    plan = scheduler.schedule()          # decide; numbers of computed tokens move now
    output = executor.execute(plan)      # run
    updates = scheduler.apply(plan, output)  # learn: new tokens, finished requests, full blocks filed

What makes it hard to get stuck: the urgency of a request never changes; a request preempts only less urgent ones; every running
request is promised one token a step; no request is admitted in a step that preempted; what cannot fit alone is refused at the door.
So the most urgent running request moves in every step and finishes, then the next.
"""

from __future__ import annotations

import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Sequence

from infer_lab.core.block_hash import Digest, sha256
from infer_lab.core.config import SchedulerConfig
from infer_lab.core.group import Group
from infer_lab.core.kv_manager import KVCacheManager
from infer_lab.core.limits import check_queue, check_request
from infer_lab.core.plan import PLACEHOLDER, AdmittedRequest, ScheduledRequest, StepOutput, StepPlan
from infer_lab.core.policy import WaitingQueue, urgency
from infer_lab.core.record import StepRecord, TimelineEvent
from infer_lab.core.request import Request, RequestStatus, RequestUpdate
from infer_lab.core.step import Step
from infer_lab.core.stop import finish_reason
from infer_lab.errors import DuplicateRequestError, EngineError, InvalidRequestError, UnsupportedOptionError

WAITING, SWAPPED, RUNNING, FINISHED, HELD = (
    RequestStatus.WAITING,
    RequestStatus.SWAPPED,
    RequestStatus.RUNNING,
    RequestStatus.FINISHED,
    RequestStatus.HELD,
)


def _by_urgency(request: Request) -> tuple[float, int]:
    return request.urgency


class Scheduler:
    """Owns every living request, the waiting queue, the running batch and the KV manager. `clock` gives seconds."""

    def __init__(self, config: SchedulerConfig, *, clock: Callable[[], float] = time.monotonic, digest: Digest = sha256) -> None:
        self.config = config
        self.kv = KVCacheManager(
            config.num_blocks,
            config.block_size,
            num_host_blocks=config.num_host_blocks,
            enable_prefix_caching=config.enable_prefix_caching,
            digest=digest,
        )
        self.requests: dict[str, Request] = {}
        self.waiting = WaitingQueue(config.tenant_weights)
        self.running: list[Request] = []  # most urgent first
        self.step_records: deque[StepRecord] = deque(maxlen=config.step_records)
        self._clock = clock
        self._groups: dict[str, Group] = {}
        self._num_held = 0
        self._released: list[str] = []  # rows that the worker must close with the next plan
        self._in_flight: deque[tuple[StepPlan, Step]] = deque()
        self._next_step_id = 0
        self._next_arrival = 0
        self._watermark_blocks = int(config.watermark * self.kv.pool.num_usable)

    # -- requests come and go ----------------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a request. PromptTooLongError, RequestTooLargeError, DuplicateRequestError, QueueFullError: nothing has changed then."""
        self._admit_to_queue([request], None)

    def add_group(self, group_id: str, children: Sequence[Request]) -> None:
        """Queue several requests with the same prompt; it is computed once. `abort(group_id)` aborts all that are left."""
        prompt = children[0].token_ids
        if any(child.token_ids != prompt or child.cache_keys != children[0].cache_keys for child in children):
            raise InvalidRequestError(f"group {group_id!r}: all its requests must have the same prompt and cache keys")
        self._admit_to_queue(list(children), group_id)

    def _admit_to_queue(self, requests: list[Request], group_id: str | None) -> None:
        ids = [request.request_id for request in requests]
        for name in ids if group_id is None else [group_id, *ids]:
            if name in self.requests or name in self._groups or ids.count(name) > 1:
                raise DuplicateRequestError(f"request {name!r} is alive already; wait until it has finished or take another id")
        for request in requests:
            if request.status is not RequestStatus.NEW:
                raise InvalidRequestError(f"request {request.request_id!r} was added before; make a new Request")
            check_request(request, self.config)
        check_queue(requests, len(self.waiting) + self._num_held, self.waiting.num_tokens, self.config)
        now = self._clock()
        for request in requests:
            request.arrival = self._next_arrival
            self._next_arrival += 1
            request.urgency = urgency(self.config.policy, request.priority, request.arrival, now, self.config.priority_aging_s)
            request.group_id = group_id
            request.status = HELD
            self.requests[request.request_id] = request
            self._event(request, "arrived", now, request.num_tokens)
        self._num_held += len(requests)
        if group_id is not None:
            self._groups[group_id] = Group(group_id, requests)
        self._enqueue(requests[0])

    def _enqueue(self, request: Request) -> None:
        self._num_held -= 1
        request.status = WAITING
        self.waiting.push(request)

    def abort(self, request_id: str) -> list[RequestUpdate]:
        """End a request, or all that is left of a group, wherever it is. Unknown and finished ids are no error: the caller may be late."""
        group = self._groups.get(request_id)
        members = list(group.members.values()) if group else [self.requests.get(request_id)]
        return [self._finish(request, "abort") for request in members if request is not None]

    def finish(self, request_id: str, reason: str = "stop") -> RequestUpdate | None:
        """End a request for a reason that only the engine can see, such as a stop string. None if it is over already."""
        request = self.requests.get(request_id)
        return None if request is None else self._finish(request, reason)

    def propose(self, request_id: str, draft_token_ids: Sequence[int]) -> None:
        """Guesses for the tokens after the last known one, to be verified in the request's next step: just more tokens to compute.

        Ignored unless the request is about to decode; cut to what it may still generate."""
        if self.config.async_scheduling:
            raise UnsupportedOptionError("drafts follow a token that must be known; they do not work with async_scheduling")
        request = self.requests.get(request_id)
        if request is None or request.status is not RUNNING or request.num_computed_tokens != request.num_tokens - 1:
            return
        request.draft_token_ids = tuple(draft_token_ids[: request.max_total_tokens - request.num_tokens - 1])

    def has_unfinished(self) -> bool:
        return bool(self.requests)

    @property
    def num_waiting(self) -> int:
        return len(self.waiting) + self._num_held

    @property
    def num_running(self) -> int:
        return len(self.running)

    @property
    def num_in_flight(self) -> int:
        """Plans issued and not applied yet."""
        return len(self._in_flight)

    # -- schedule ------------------------------------------------------------------------------------------------------------

    def schedule(self) -> StepPlan:
        """The next step. May be called again before the plan is applied; a request whose next token is not known yet then sits out
        (or, with async_scheduling, goes on with a placeholder)."""
        step = Step(self._next_step_id, self._clock(), self.config.max_num_batched_tokens)
        self._next_step_id += 1
        self._schedule_running(step)
        if not step.preempted:
            self._schedule_waiting(step)
        plan = step.freeze(tuple(self._released))
        self._released.clear()
        self._in_flight.append((plan, step))
        return plan

    def _schedule_running(self, step: Step) -> None:
        index = 0
        while index < len(self.running):
            request = self.running[index]
            missing = self._num_missing(request)
            if missing:
                promised = len(self.running) - index - 1  # one token for each that comes after
                count = self._make_room(request, self._chunk(missing, step.budget - promised), step)
                if not count:
                    break  # it was the least urgent itself, and gave way
                self._compute(request, count, missing, step)
            index += 1

    def _num_missing(self, request: Request) -> int:
        """Tokens without KV: known ones, drafts, and with async_scheduling those that plans in flight will sample."""
        known = len(request.token_ids)
        if self.config.async_scheduling:
            known += request.num_pending_samples
            if known >= request.max_total_tokens:  # the plans in flight end it
                return 0
        return known + len(request.draft_token_ids) - request.num_computed_tokens

    def _chunk(self, missing: int, budget: int) -> int:
        threshold = self.config.long_prefill_token_threshold
        return min(missing, budget, threshold) if threshold else min(missing, budget)

    def _make_room(self, request: Request, count: int, step: Step) -> int:
        """As many of `count` tokens as there are blocks for; if not even one, preempt from the least urgent end. 0: it went itself."""
        while (room := self.kv.room(request)) < 1:
            victim = self.running.pop()
            assert self.running or victim is not request, f"{request} does not fit into an empty pool"
            self._preempt(victim, step)
            if victim is request:
                return 0
        return min(count, room)

    def _preempt(self, request: Request, step: Step) -> None:
        now = step.scheduled_at
        if self.config.preemption == "swap" and self.kv.can_swap_out(request):
            self._event(request, "swapped_out", now, request.num_computed_tokens, step.step_id)
            step.swap_out += self.kv.swap_out(request)
            step.num_swapped_out += 1
            request.status = SWAPPED
        else:
            self._event(request, "preempted", now, request.num_computed_tokens, step.step_id)
            self.kv.release(request)
            request.num_computed_tokens = 0
            request.epoch += 1
            request.status = WAITING
        request.draft_token_ids = ()
        request.num_preemptions += 1
        self._close_row(request)
        self.waiting.push(request)
        step.preempted.append(request)

    def _schedule_waiting(self, step: Step) -> None:
        config = self.config
        while step.budget > 0 and len(self.running) < config.max_num_seqs:
            request = self.waiting.peek()
            if request is None or request.num_pending_samples:  # preempted, and its last token is still on its way
                return
            if not self._try_admit(request, step):
                return  # nobody overtakes: the next in line must not starve

    def _try_admit(self, request: Request, step: Step) -> bool:
        config, kv = self.config, self.kv
        source = self._fork_source(request, step)
        hits = kv.match_prefix(request)
        num_shared = request.num_prompt_tokens - 1
        if source is not None and num_shared > len(hits) * config.block_size and request.status is WAITING:
            hits, computed = source.block_ids[: num_shared // config.block_size], num_shared
        else:
            source = None
            computed = len(hits) * config.block_size
        if request.status is SWAPPED:
            computed = request.num_computed_tokens
            hits = hits[: computed // config.block_size]
        missing = request.num_tokens - computed
        count = self._chunk(missing, step.budget)
        if count < missing:
            if not config.enable_chunked_prefill:
                return False
            if config.max_num_partial_prefills and step.num_partial >= config.max_num_partial_prefills:
                return False
        if not self._fits(request, hits, computed + count):
            return False

        self.waiting.pop()
        if request.status is SWAPPED:
            step.swap_in += kv.swap_in(request, hits)
            event = "swapped_in"
        else:
            event = "resumed" if request.num_preemptions else "admitted"
            if source is None:
                kv.attach(request, hits)
            elif copy := kv.fork(source, request, computed):
                step.copies.append(copy)
            request.num_computed_tokens = computed
            step.cached_tokens += computed
            if event == "admitted":
                request.num_cached_tokens = computed
        request.status = RUNNING
        request.has_row = True
        self._event(request, event, step.scheduled_at, computed, step.step_id)
        insort(self.running, request, key=_by_urgency)
        step.admitted.append(AdmittedRequest(request.request_id, tuple(request.token_ids), request.num_prompt_tokens, request.params))
        self._compute(request, count, missing, step, new=True)
        return True

    def _fits(self, request: Request, hits: list[int], num_tokens: int) -> bool:
        """The admission gate: blocks that must be free, after the hits are held, for the request to enter."""
        kv, gate = self.kv, self.config.admission
        free = kv.num_free_after(hits)
        if not self.running:
            return kv.blocks_for(num_tokens) - len(hits) <= free
        if gate == "prompt":
            num_tokens = max(num_tokens, request.num_tokens)
        elif gate == "request":
            num_tokens = request.max_total_tokens - 1
            free -= sum(max(0, kv.blocks_for(r.max_total_tokens - 1) - len(r.block_ids)) for r in self.running)
        return kv.blocks_for(num_tokens) - len(hits) <= free - self._watermark_blocks

    def _fork_source(self, request: Request, step: Step) -> Request | None:
        """A member of its group whose prompt KV is written by the plans before this one."""
        group = self._groups.get(request.group_id) if request.group_id is not None else None
        source = group.fork_source(request) if group else None
        if source is None or any(admitted.request_id == source.request_id for admitted in step.admitted):
            return None
        start = next((s.start for s in step.scheduled if s.request_id == source.request_id), source.num_computed_tokens)
        return source if start >= request.num_prompt_tokens - 1 else None

    def _compute(self, request: Request, count: int, missing: int, step: Step, *, new: bool = False) -> None:
        """Put `count` of the request's `missing` tokens into the step."""
        start = request.num_computed_tokens
        end = start + count
        num_blocks = 0 if new else len(request.block_ids)
        new_blocks = self.kv.extend(request, end)
        known = len(request.token_ids)
        drafts = request.draft_token_ids
        num_drafts = max(0, end - known) if drafts else 0
        tokens = tuple(request.token_ids[start:end])
        if num_drafts:
            tokens += drafts[:num_drafts]
        elif end > known:
            tokens += (PLACEHOLDER,) * (end - known)
        samples = count >= missing - len(drafts)
        if new:
            new_blocks = tuple(request.block_ids)
        step.scheduled.append(ScheduledRequest(request.request_id, start, tokens, samples, num_blocks, new_blocks, num_drafts))
        step.requests.append(request)
        step.epochs.append(request.epoch)
        step.budget -= count
        request.num_computed_tokens = end
        request.draft_token_ids = ()
        if samples:
            request.num_pending_samples += 1
        else:
            step.num_partial += 1
        if count - num_drafts == 1 and start >= request.num_prompt_tokens:
            step.decode_tokens += 1
        else:
            step.prefill_tokens += count - num_drafts
        step.draft_tokens += num_drafts
        self.waiting.charge(request.tenant, count)

    # -- apply ---------------------------------------------------------------------------------------------------------------

    def apply(self, plan: StepPlan, output: StepOutput) -> list[RequestUpdate]:
        """Take in what a step produced, in the order in which the plans were issued. The updates of requests that got tokens."""
        if not self._in_flight or self._in_flight[0][0] is not plan or output.step_id != plan.step_id:
            raise EngineError(f"the output of step {output.step_id} was applied to plan {plan.step_id}, which is not the oldest in flight")
        self._check_output(plan, output)
        _, step = self._in_flight.popleft()
        now = self._clock()
        updates = []
        accepted = 0
        for scheduled, request, epoch in zip(plan.scheduled, step.requests, step.epochs, strict=True):
            if scheduled.samples:
                request.num_pending_samples -= 1
            if request.status is FINISHED:
                continue  # aborted, or stopped by an earlier output, while this step was on its way
            new_tokens = output.token_ids[scheduled.request_id] if scheduled.samples else ()
            rejected = scheduled.num_drafts + 1 - len(new_tokens) if scheduled.num_drafts else 0
            accepted += scheduled.num_drafts - rejected
            reason, kept = self._append(request, new_tokens, now)
            if epoch == request.epoch:
                request.num_computed_tokens -= rejected
                if request.status is RUNNING:
                    final = scheduled.start + len(scheduled.token_ids) - rejected
                    self.kv.file(request, min(final, len(request.token_ids)))
            if request.group_id is not None:
                self._release_siblings(request)
            if reason:
                self._finish(request, reason)
            if kept:
                updates.append(RequestUpdate(request.request_id, kept, reason))
        self._record(step, now, accepted, sum(update.finish_reason is not None for update in updates))
        return updates

    def _check_output(self, plan: StepPlan, output: StepOutput) -> None:
        for scheduled in plan.scheduled:
            if scheduled.samples:
                tokens = output.token_ids.get(scheduled.request_id)
                if not tokens or len(tokens) > scheduled.num_drafts + 1:
                    raise EngineError(
                        f"step {plan.step_id}: the executor returned {tokens} for request {scheduled.request_id!r};"
                        f" 1 to {scheduled.num_drafts + 1} tokens were due"
                    )

    def _append(self, request: Request, new_tokens: tuple[int, ...], now: float) -> tuple[str | None, tuple[int, ...]]:
        """Append up to the token that ends the request: why it ended, and the tokens that count."""
        count, reason = 0, None
        while count < len(new_tokens) and reason is None:
            request.token_ids.append(new_tokens[count])
            request.timeline.token_times.append(now)
            reason = finish_reason(request)
            count += 1
        if count and request.status is not RUNNING:
            self.waiting.grew(count)
        return reason, new_tokens[:count]

    def _release_siblings(self, request: Request) -> None:
        group = self._groups.get(request.group_id or "")
        if group and group.held and request is group.leader and request.num_computed_tokens >= request.num_prompt_tokens:
            for sibling in group.release_held():
                self._enqueue(sibling)

    def _finish(self, request: Request, reason: str) -> RequestUpdate:
        """Take a request out of wherever it is; its blocks are free at once, since plans run in the order they are issued."""
        status = request.status
        request.status = FINISHED
        request.finish_reason = reason
        request.draft_token_ids = ()
        if status is RUNNING:
            self.running.remove(request)
        elif status is HELD:
            self._num_held -= 1
        else:
            self.waiting.remove(request)
        self.kv.release(request)
        self._close_row(request)
        del self.requests[request.request_id]
        self._event(request, "finished", self._clock(), request.num_tokens)
        group = self._groups.get(request.group_id) if request.group_id is not None else None
        if group:
            if heir := group.remove(request):
                self._enqueue(heir)
            if not group.members:
                del self._groups[group.group_id]
        return RequestUpdate(request.request_id, (), reason)

    def _close_row(self, request: Request) -> None:
        if request.has_row:
            self._released.append(request.request_id)
            request.has_row = False

    def _event(self, request: Request, name: str, now: float, tokens: int, step_id: int = -1) -> None:
        request.timeline.events.append(TimelineEvent(now, name, step_id, tokens))

    def _record(self, step: Step, now: float, accepted: int, finished: int) -> None:
        self.step_records.append(
            StepRecord(
                step_id=step.step_id,
                scheduled_at=step.scheduled_at,
                applied_at=now,
                token_budget=step.token_budget,
                prefill_tokens=step.prefill_tokens,
                decode_tokens=step.decode_tokens,
                draft_tokens=step.draft_tokens,
                accepted_draft_tokens=accepted,
                cached_tokens=step.cached_tokens,
                batch_size=len(step.scheduled),
                num_admitted=len(step.admitted),
                num_preempted=len(step.preempted),
                num_swapped_out=step.num_swapped_out,
                num_finished=finished,
                num_running=len(self.running),
                num_waiting=self.num_waiting,
                used_blocks=self.kv.pool.num_used,
                total_blocks=self.kv.pool.num_usable,
            )
        )

    def check_invariants(self) -> None:
        self.waiting.check_invariants()
        self.kv.check_invariants(self.requests.values())
        assert self.running == sorted(self.running, key=_by_urgency) and len(self.running) <= self.config.max_num_seqs
        queued = {request.request_id for request in self.waiting}
        for request in self.requests.values():
            assert (request.status is RUNNING) == (request in self.running) == request.has_row, f"{request}"
            assert (request.status in (WAITING, SWAPPED)) == (request.request_id in queued), f"{request}"
            assert (request.status is SWAPPED) == bool(request.host_block_ids), f"{request}"
            if request.status in (WAITING, HELD):
                assert not request.block_ids and not request.num_computed_tokens, f"{request} waits and holds blocks"
            assert 0 <= request.num_computed_tokens <= request.num_tokens + 8, f"{request}"
        assert sum(r.status is HELD for r in self.requests.values()) == self._num_held
        assert self._num_held == sum(len(group.held) for group in self._groups.values())
