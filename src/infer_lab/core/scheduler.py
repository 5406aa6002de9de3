"""The heart of the engine: it says what to run, hears what came out, and is the only one to change a request.

    scheduler.add(request)
    while scheduler.has_unfinished():
        plan = scheduler.schedule()              # decide: numbers of computed tokens move now
        output = executor.execute(plan)          # run
        updates = scheduler.apply(plan, output)  # learn: new tokens, finished requests, full blocks filed

Why there are no phases: every request has tokens and a number of them that has KV. A step hands out a budget of tokens, running requests
first, then waiting ones, each as many of its missing tokens as budget and blocks allow. Chunked prefill, prefix hits, drafts and
resuming are all the same thing. (After vLLM V1's scheduler.)

Why a plan may be issued before the last one is applied: a worker carries plans out in order, so KV that an issued plan writes counts
as written for the plans after it; but blocks are filed in the prefix cache only when the plan that filled them is applied. A
request whose next token is not known yet sits out such a step; with `async_scheduling` it goes on with a PLACEHOLDER.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.kv_manager import KVCacheManager
from infer_lab.core.lifecycle import Lifecycle
from infer_lab.core.plan import PLACEHOLDER, ScheduledRequest, StepOutput, StepPlan, TokenLogprobs
from infer_lab.core.planner import Planner
from infer_lab.core.record import DraftCounts, StepRecord
from infer_lab.core.request import Request, RequestStatus, RequestUpdate
from infer_lab.core.step import Step
from infer_lab.core.stop import finish_reason
from infer_lab.errors import EngineError, InvalidRequestError, UnsupportedOptionError

_RUNNING, _FINISHED = RequestStatus.RUNNING, RequestStatus.FINISHED


class Scheduler:
    """clock: seconds, for timelines, records and aging."""

    def __init__(self, config: SchedulerConfig, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.config = config
        self.kv = KVCacheManager(
            config.num_blocks,
            config.block_size,
            num_host_blocks=config.num_host_blocks,
            enable_prefix_caching=config.enable_prefix_caching,
        )
        self.step_records: deque[StepRecord] = deque(maxlen=config.step_records)
        self.draft_counts = DraftCounts()
        self._clock = clock
        self._life = Lifecycle(config, self.kv, clock)
        self._planner = Planner(self._life, self.kv)
        self._in_flight: deque[tuple[StepPlan, Step]] = deque()
        self._next_step_id = 0

    # -- requests come and go --------------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a request. PromptTooLongError, RequestTooLargeError, DuplicateRequestError, QueueFullError: nothing has changed then."""
        self._life.add([request], None)

    def add_group(self, group_id: str, children: Sequence[Request]) -> None:
        """Queue several requests with one prompt, which is computed once. `abort(group_id)` aborts all that are left of them."""
        if not children:
            raise InvalidRequestError(f"group {group_id!r} has no request; n must be at least 1")
        first = children[0]
        if any(
            (child.token_ids, child.cache_keys, child.tenant) != (first.token_ids, first.cache_keys, first.tenant) for child in children
        ):
            raise InvalidRequestError(f"group {group_id!r}: its requests must have the same prompt, cache keys and tenant")
        self._life.add(list(children), group_id)

    def abort(self, request_id: str) -> list[RequestUpdate]:
        """End a request, or all that is left of a group, wherever it is. Unknown and finished ids are no error: the caller may be late."""
        group = self._life.groups.get(request_id)
        members = list(reversed(group.members.values())) if group else [self._life.requests.get(request_id)]
        return [self._life.finish(request, "abort", self._clock()) for request in members if request is not None]

    def finish(self, request_id: str, reason: str = "stop") -> RequestUpdate | None:
        """End a request for a reason that only the engine can see, such as a stop string. None if it is over already."""
        request = self._life.requests.get(request_id)
        return None if request is None else self._life.finish(request, reason, self._clock())

    def propose(self, request_id: str, draft_token_ids: Sequence[int]) -> None:
        """Guesses for the tokens after the last known one, to be verified in the request's next step: just more tokens to compute.

        draft_token_ids: token ids, or only PLACEHOLDERs: then the worker's draft model guesses that many.
        Ignored unless the request is about to decode; cut to what it may still generate."""
        if self.config.async_scheduling:
            raise UnsupportedOptionError("drafts continue a token that must be known, so they do not work with async_scheduling")
        vocab_size = self.config.vocab_size or 2**63
        wrong = next((token for token in draft_token_ids if not 0 <= token < vocab_size), None)
        if wrong is not None and set(draft_token_ids) != {PLACEHOLDER}:
            raise InvalidRequestError(f"request {request_id!r}: {wrong} is no draft; the vocabulary has {vocab_size} tokens, 0 the first")
        request = self._life.requests.get(request_id)
        if request is None or request.status is not RequestStatus.RUNNING or request.num_computed_tokens != request.num_tokens - 1:
            return
        request.draft_token_ids = tuple(draft_token_ids[: request.max_total_tokens - request.num_tokens - 1])

    def reset_prefix_cache(self) -> None:
        """Forget all cached KV (new weights, a fresh measurement). Only while nothing is alive: running requests hold old KV."""
        if self._life.requests or self._in_flight:
            raise InvalidRequestError(f"{len(self._life.requests)} requests are alive; reset the prefix cache when they have finished")
        self.kv.pool.clear_cache()

    # -- schedule → (run) → apply ----------------------------------------------------------------------------------------

    def schedule(self) -> StepPlan:
        """The next step. It must be run, unless `plan.is_empty`, and applied."""
        step = Step(self._next_step_id, self._clock(), self.config.max_num_batched_tokens)
        self._next_step_id += 1
        self._planner.plan_step(step)
        for _, earlier in self._in_flight:
            earlier.forget(step.preempted)
        plan = step.freeze(tuple(self._life.released))
        self._life.released.clear()
        self._in_flight.append((plan, step))
        return plan

    def apply(self, plan: StepPlan, output: StepOutput) -> list[RequestUpdate]:
        """Take in what the oldest plan in flight produced. One update for each request that got tokens."""
        step = self._oldest_in_flight(plan)
        _check_output(plan, output)
        self._in_flight.popleft()
        now, token_ids, block_size = self._clock(), output.token_ids, self.kv.block_size
        has_logprobs = bool(output.logprobs or output.prompt_logprobs)
        updates: list[RequestUpdate] = []
        for scheduled, request in zip(plan.scheduled, step.requests, strict=True):
            request_id, start, computed, samples, _, _, num_drafts = scheduled
            new_tokens, status = (), request.status
            if samples:
                request.num_pending_samples -= 1
                new_tokens = token_ids[request_id]
            if status is _FINISHED:
                continue  # aborted, or ended by an earlier output, while this step was on its way
            num_appended, reason = 0, None
            for token in new_tokens:
                request.token_ids.append(token)
                request.timeline.token_times.append(now)
                num_appended += 1
                reason = finish_reason(request)
                if reason is not None:
                    new_tokens = new_tokens[:num_appended]
                    break
            logprobs = _take_logprobs(scheduled, request, num_appended, output) if has_logprobs else ()
            if num_drafts:
                self._roll_back(scheduled, request, len(token_ids[request_id]), step)
            if status is not _RUNNING:
                self._life.waiting.grew(num_appended)  # preempted while this step was on its way
            elif request.num_computed_tokens >= (request.num_filed_blocks + 1) * block_size and request not in step.moved:
                self.kv.file(request, min(start + len(computed), request.num_computed_tokens, len(request.token_ids)))
            if request.group_id is not None:
                self._life.release_siblings(request)
            if reason is not None:
                self._life.finish(request, reason, now)
            if new_tokens:
                updates.append(RequestUpdate(request_id, new_tokens, reason, logprobs))
        self.step_records.append(step.record(now, len(self._life.running), self.num_waiting, self.kv.pool))
        return updates

    def drop_in_flight(self, reason: str = "error") -> list[RequestUpdate]:
        """A step failed. Whatever the plans in flight were to write cannot be trusted, so the requests in them end; all others go on.

        Which rows the worker opened or closed is not known: the next plan closes them all, and a worker ignores the release of a row
        that it does not have."""
        now, suspect = self._clock(), {}
        for plan, step in self._in_flight:
            self._life.released.extend(plan.released)
            suspect.update(dict.fromkeys([*step.requests, *step.swapped_out]))
        self._in_flight.clear()
        return [self._life.finish(request, reason, now) for request in suspect if request.status is not RequestStatus.FINISHED]

    def _oldest_in_flight(self, plan: StepPlan) -> Step:
        if not self._in_flight or self._in_flight[0][0] is not plan:
            oldest = self._in_flight[0][0].step_id if self._in_flight else None
            raise EngineError(f"plan {plan.step_id} is not the oldest in flight (that is {oldest}); apply plans once, in order")
        return self._in_flight[0][1]

    def _roll_back(self, scheduled: ScheduledRequest, request: Request, num_tokens: int, step: Step) -> None:
        """KV of rejected drafts is void; its slots are written again by the tokens that come instead."""
        num_accepted = num_tokens - 1
        step.accepted_tokens += num_accepted
        for counts in (request.draft_counts, self.draft_counts):
            counts.add(scheduled.num_drafts, num_accepted)
        if request not in step.lost_kv:
            request.num_computed_tokens -= scheduled.num_drafts - num_accepted

    # -- to look at ------------------------------------------------------------------------------------------------------

    def has_unfinished(self) -> bool:
        return bool(self._life.requests)

    @property
    def requests(self) -> dict[str, Request]:
        """Everything alive, by id. To read, not to change."""
        return self._life.requests

    @property
    def running(self) -> list[Request]:
        return self._life.running

    @property
    def num_running(self) -> int:
        return len(self._life.running)

    @property
    def num_waiting(self) -> int:
        return self._life.num_waiting

    @property
    def num_in_flight(self) -> int:
        """Plans issued and not applied yet."""
        return len(self._in_flight)

    def check_invariants(self) -> None:
        self._life.check_invariants()
        pending: dict[Request, int] = {}
        for plan, step in self._in_flight:
            assert len(plan.scheduled) == len(step.requests)
            for scheduled, request in zip(plan.scheduled, step.requests, strict=True):
                pending[request] = pending.get(request, 0) + scheduled.samples
        for request in self._life.requests.values():
            assert request.num_pending_samples == pending.get(request, 0), f"{request}"
            ahead = request.num_computed_tokens - request.num_tokens
            assert ahead < 0 or request in pending, f"{request}: nothing left to compute and nothing on its way"


def _take_logprobs(scheduled: ScheduledRequest, request: Request, num_appended: int, output: StepOutput) -> tuple[TokenLogprobs, ...]:
    """Keep what came for the new tokens, and for the prompt what was not known before: a resumed request computes it again."""
    of_prompt = output.prompt_logprobs.get(scheduled.request_id, ())
    request.prompt_logprobs += of_prompt[len(request.prompt_logprobs) - scheduled.start :]
    logprobs = output.logprobs.get(scheduled.request_id, ())[:num_appended]
    request.logprobs += logprobs
    return logprobs


def _check_output(plan: StepPlan, output: StepOutput) -> None:
    """An executor that breaks the contract is found here, before anything has changed."""
    if output.step_id != plan.step_id:
        raise EngineError(f"the output of step {output.step_id} was given for plan {plan.step_id}")
    token_ids = output.token_ids
    for scheduled in plan.scheduled:
        if scheduled.samples:
            tokens = token_ids.get(scheduled.request_id, ())
            if len(tokens) != 1 or scheduled.num_drafts:
                _check_tokens(scheduled, tokens)


def _check_tokens(scheduled: ScheduledRequest, tokens: tuple[int, ...]) -> None:
    name, drafts, num_accepted = scheduled.request_id, scheduled.draft_token_ids, len(tokens) - 1
    if not 0 <= num_accepted <= len(drafts):
        raise EngineError(f"the executor returned {len(tokens)} tokens for request {name!r}; 1 to {len(drafts) + 1} were due")
    if tuple(tokens[:num_accepted]) != drafts[:num_accepted] and PLACEHOLDER not in drafts:
        raise EngineError(f"the executor accepted {tokens[:num_accepted]} for request {name!r}, whose drafts are {drafts}")
