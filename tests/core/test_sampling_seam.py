"""What the core does for sampling: it hands on log-probabilities unopened, waits for min_tokens, and computes prompts whole when asked."""

from __future__ import annotations

import pytest

from infer_lab.core.group import make_children
from infer_lab.core.plan import StepOutput, StepPlan, TokenLogprobs
from infer_lab.core.request import Request, RequestUpdate
from infer_lab.core.scheduler import Scheduler
from infer_lab.errors import InvalidRequestError

from .test_casebook import B, config, prompt_of

END = 49


def _entry(position: int) -> TokenLogprobs:
    """What a worker says of the token at a position, told apart by it."""
    return TokenLogprobs(position, -float(position), 1)


def _execute(plan: StepPlan, requests: dict[str, Request], say: dict[str, list[int]]) -> StepOutput:
    """Each request gets the tokens of its list, one a step (with drafts: one more than them), and log-probabilities by position."""
    tokens, logprobs, prompt_logprobs = {}, {}, {}
    for scheduled in plan.scheduled:
        name, request = scheduled.request_id, requests[scheduled.request_id]
        end = scheduled.start + scheduled.num_tokens
        if request.skip_reading_prefix_cache and scheduled.start + 1 < request.num_prompt_tokens:
            prompt_logprobs[name] = tuple(_entry(p) for p in range(scheduled.start + 1, min(end + 1, request.num_prompt_tokens)))
        if scheduled.samples:
            first = end - scheduled.num_drafts
            new = say[name][first - request.num_prompt_tokens :][: scheduled.num_drafts + 1]
            tokens[name] = tuple(new)
            logprobs[name] = tuple(_entry(first + i) for i in range(len(new)))
    return StepOutput(plan.step_id, tokens, logprobs, prompt_logprobs)


def _drain(scheduler: Scheduler, requests: list[Request], say: dict[str, list[int]]) -> list[RequestUpdate]:
    by_name, updates = {request.request_id: request for request in requests}, []
    while scheduler.has_unfinished():
        plan = scheduler.schedule()
        updates += scheduler.apply(plan, _execute(plan, by_name, say))
        scheduler.check_invariants()
    return updates


@pytest.mark.parametrize(("min_tokens", "length", "reason"), [(0, 3, "stop"), (3, 3, "stop"), (4, 6, "stop"), (7, 8, "length")])
def test_a_stop_token_before_min_tokens_does_not_end_a_request(min_tokens: int, length: int, reason: str) -> None:
    scheduler = Scheduler(config())
    request = Request("r", prompt_of(5), 8, min_tokens=min_tokens, stop_token_ids=[END])
    scheduler.add(request)
    _drain(scheduler, [request], {"r": [1, 2, END, 4, 5, END, 7, 8]})
    assert (request.num_output_tokens, request.finish_reason) == (length, reason)


def test_a_context_that_is_full_ends_a_request_before_min_tokens() -> None:
    scheduler = Scheduler(config(max_model_len=10))
    request = Request("r", prompt_of(7), 9, min_tokens=9)
    scheduler.add(request)
    _drain(scheduler, [request], {"r": [1] * 9})
    assert (request.num_output_tokens, request.finish_reason) == (3, "length")


@pytest.mark.parametrize("min_tokens", [-1, 9, 1.5, None])
def test_min_tokens_beyond_max_tokens_are_refused_with_the_figures(min_tokens: object) -> None:
    with pytest.raises(InvalidRequestError, match="min_tokens must be a whole number of at most max_tokens = 8"):
        Request("r", [1], 8, min_tokens=min_tokens)  # type: ignore[arg-type]


def test_a_worker_is_told_the_tokens_that_end_a_request() -> None:
    scheduler = Scheduler(config())
    scheduler.add(Request("r", [1], 8, eos_token_ids=[3, 4], stop_token_ids=[5]))
    scheduler.add(Request("q", [1], 8, eos_token_ids=[3, 4], stop_token_ids=[5], ignore_eos=True))
    told = {admitted.request_id: admitted.stop_token_ids for admitted in scheduler.schedule().admitted}
    assert told == {"r": {3, 4, 5}, "q": {5}}


def test_each_new_token_comes_with_its_log_probabilities_and_none_come_beyond_a_stop() -> None:
    scheduler = Scheduler(config())
    request = Request("r", prompt_of(5), 20, stop_token_ids=[END])
    scheduler.add(request)
    say, updates = [1, 2, 3, 4, END, 6, 7, 8], []
    while scheduler.has_unfinished():
        plan = scheduler.schedule()
        updates += scheduler.apply(plan, _execute(plan, {"r": request}, {"r": say}))
        scheduler.propose("r", say[request.num_output_tokens : request.num_output_tokens + 4])
    assert [entry.token_id for entry in request.logprobs] == [5, 6, 7, 8, 9], "positions of the five tokens"
    assert len(request.logprobs) == request.num_output_tokens
    for update in updates:
        assert len(update.logprobs) == len(update.new_token_ids)
    assert [entry for update in updates for entry in update.logprobs] == request.logprobs
    assert request.draft_counts.num_accepted_tokens > 0


@pytest.mark.parametrize("budget", [3, 7, 64])
@pytest.mark.parametrize("length", [1, 2, B, 3 * B, 3 * B + 1])
def test_log_probabilities_of_a_prompt_are_complete_and_in_order_after_cache_hits_and_chunks(length: int, budget: int) -> None:
    scheduler = Scheduler(config(max_num_batched_tokens=budget, max_num_seqs=2))
    plain = Request("plain", prompt_of(length), 2)
    scheduler.add(plain)
    _drain(scheduler, [plain], {"plain": [1, 2]})
    asking = Request("asking", prompt_of(length), 2, skip_reading_prefix_cache=True)
    scheduler.add(asking)
    _drain(scheduler, [asking], {"asking": [1, 2]})
    assert asking.prompt_logprobs == [_entry(p) for p in range(1, length)] and asking.num_cached_tokens == 0
    later = Request("later", prompt_of(length), 2)
    scheduler.add(later)
    _drain(scheduler, [later], {"later": [1, 2]})
    assert later.num_cached_tokens == (length - 1) // B * B, "what it computed is there for others"


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_a_resumed_request_does_not_score_its_prompt_twice(preemption: str) -> None:
    scheduler = Scheduler(
        config(num_blocks=1 + 8, num_host_blocks=8, preemption=preemption, admission="chunk", max_num_batched_tokens=6, max_num_seqs=2)
    )
    requests = [Request(name, prompt_of(13, i), 12, skip_reading_prefix_cache=True) for i, name in enumerate(("old", "young"))]
    for request in requests:
        scheduler.add(request)
    _drain(scheduler, requests, {name: list(range(12)) for name in ("old", "young")})
    assert requests[1].num_preemptions > 0
    for request in requests:
        assert request.prompt_logprobs == [_entry(p) for p in range(1, 13)]
        assert [entry.token_id for entry in request.logprobs] == list(range(13, 25))


def test_a_sibling_that_scores_the_prompt_itself_does_not_fork_it() -> None:
    scheduler = Scheduler(config())
    children = make_children("g", 3, lambda name, i: Request(name, prompt_of(9), 2, skip_reading_prefix_cache=i != 1))
    scheduler.add_group("g", children)
    _drain(scheduler, children, {child.request_id: [1, 2] for child in children})
    assert [len(child.prompt_logprobs) for child in children] == [8, 0, 8]
    assert [child.num_cached_tokens for child in children] == [0, 8, 0]
