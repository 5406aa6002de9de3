"""What a request must produce, by the slow and obvious way: for each token the whole sequence is computed anew, alone, and the options are
applied in plain Python."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from slow_sampling import slow_distribution, slow_logits

from infer_lab import LLM, SamplingParams
from infer_lab.core.plan import AdmittedRequest, ScheduledRequest, StepPlan, TokenLogprobs
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine.admission import make_request
from infer_lab.sample.philox import uniforms


@dataclass
class Expected:
    """logits: of every position of the final sequence but the last; row p is what token p + 1 was drawn from."""

    token_ids: list[int] = field(default_factory=list)
    finish_reason: str = "length"
    logits: torch.Tensor | None = None


def all_logits(llm: LLM, tokens: Sequence[int]) -> torch.Tensor:
    """[tokens, vocab]: one pass over the whole sequence in an empty cache."""
    model, executor = llm.loaded.model, llm.engine.executor
    seen: list[torch.Tensor] = []
    with pytest.MonkeyPatch.context() as patch:
        sound = type(model).forward
        patch.setattr(type(model), "forward", lambda self, *args: seen.append(sound(self, *args)) or seen[-1])
        blocks = tuple(range(1, 1 + -(-len(tokens) // llm.config.block_size)))
        executor.reset()
        admitted = AdmittedRequest("slow", tuple(tokens), len(tokens), SamplingParams())
        executor.execute(StepPlan(0, (ScheduledRequest("slow", 0, tuple(tokens), True, 0, blocks),), (admitted,)))
        executor.reset()
    with torch.inference_mode():
        return model.logits(seen[0]).clone()


def slow_generate(llm: LLM, prompt: Sequence[int], params: SamplingParams, eos: Sequence[int] = ()) -> Expected:
    stops = set(params.stop_token_ids) | (set() if params.ignore_eos else set(eos))
    expected, output = Expected(), []
    while len(output) < params.max_tokens and expected.finish_reason != "stop":
        expected.logits = all_logits(llm, [*prompt, *output])
        logits = slow_logits(expected.logits[-1].tolist(), params, prompt, output, stops)
        probabilities, _ = slow_distribution(logits, params)
        output.append(_race(probabilities, params, len(prompt) + len(output)))
        if output[-1] in stops and len(output) >= params.min_tokens:
            expected.finish_reason = "stop"
    expected.token_ids = output
    return expected


def _race(probabilities: list[float], params: SamplingParams, position: int) -> int:
    if params.temperature == 0:
        return probabilities.index(1.0)
    assert params.seed is not None
    u = uniforms(torch.tensor([params.seed]), torch.tensor([position]), len(probabilities))[0].double().tolist()
    times = [-math.log1p(-x) / p if p > 0 else math.inf for x, p in zip(u, probabilities, strict=True)]
    return times.index(min(times))


@dataclass
class Ask:
    """A request, and what must come of it."""

    prompt: list[int]
    params: SamplingParams
    expected: Expected | None = None


def fresh(llm: LLM, **changes: object) -> Scheduler:
    """An empty engine and cache, with other settings."""
    llm.engine.reset(Scheduler(replace(llm.engine.scheduler.config, **changes)))  # type: ignore[arg-type]
    return llm.engine.scheduler


def request_of(llm: LLM, name: str, ask: Ask) -> Request:
    return make_request(
        name, ask.prompt, ask.params, vocab_size=llm.model_config.vocab_size, eos_token_ids=llm.loaded.checkpoint.eos_token_ids
    )


def check(ask: Ask, request: Request) -> None:
    expected = ask.expected
    assert expected is not None and expected.logits is not None
    assert (request.output_token_ids, request.finish_reason) == (expected.token_ids, expected.finish_reason), f"{ask.params}"
    logprobs = expected.logits.log_softmax(-1)
    first = len(ask.prompt)
    _check_logprobs(request.logprobs, ask.params.logprobs, request.output_token_ids, logprobs[first - 1 :])
    _check_logprobs(request.prompt_logprobs, ask.params.prompt_logprobs, ask.prompt[1:], logprobs[: first - 1])


def _check_logprobs(entries: Sequence[TokenLogprobs], k: int | None, tokens: Sequence[int], logprobs: torch.Tensor) -> None:
    if k is None:
        assert not entries
        return
    assert [entry.token_id for entry in entries] == list(tokens)
    for entry, row in zip(entries, logprobs, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=1e-4)
        logprob = row[entry.token_id]
        assert (row > logprob + 1e-4).sum() <= entry.rank - 1 <= (row > logprob - 1e-4).sum()
        assert [value for _, value in entry.top] == pytest.approx(row.topk(k).values.tolist(), abs=1e-4)
        assert [value for _, value in entry.top] == pytest.approx([float(row[token]) for token, _ in entry.top], abs=1e-4)
        assert len({token for token, _ in entry.top}) == k


def run(llm: LLM, scheduler: Scheduler, arrivals: dict[int, list[Request]], ahead: int, seen: Counter[str]) -> None:
    """Until all are finished. arrivals: by the number of the step before which they come. ahead: plans issued before their outputs."""
    executor, in_flight, step = llm.engine.executor, deque(), 0
    while arrivals or in_flight or scheduler.has_unfinished():
        for request in arrivals.pop(step, ()):
            scheduler.add(request)
        plan = scheduler.schedule()
        in_flight.append((plan, executor.execute(plan)))
        executor.sampler.check_invariants()
        seen["placeholders"] += any(-1 in s.token_ids for s in plan.scheduled)
        seen["chunks"] += any(not s.samples for s in plan.scheduled)
        while len(in_flight) > (ahead if scheduler.has_unfinished() else 0):
            scheduler.apply(*in_flight.popleft())
        step += 1
    scheduler.check_invariants()


def same_answer(llm: LLM, ask: Ask) -> None:
    """In the engine as it is now, the prefix cache included."""
    request = request_of(llm, "x", ask)
    llm.engine.scheduler.add(request)
    while not request.is_finished:
        llm.engine.step()
    check(ask, request)


def expect(llm: LLM, prompt: list[int], **options: Any) -> Ask:
    """Ten tokens unless said otherwise, and an empty engine."""
    ask = Ask(prompt, SamplingParams(**{"max_tokens": 10, "ignore_eos": True} | options))
    ask.expected = slow_generate(llm, prompt, ask.params)
    fresh(llm)
    return ask
