"""What the core can do and `LLM` does not offer yet, on the real model: siblings that share a prompt, and plans issued ahead of outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from agreement import near_ties

from infer_lab import LLM, SamplingParams
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler

pytestmark = pytest.mark.model

Reference = dict[str, dict[str, Any]]


def _request(name: str, prompt: list[int], num_tokens: int) -> Request:
    return Request(name, prompt, num_tokens, params=SamplingParams(max_tokens=num_tokens, ignore_eos=True))


@pytest.mark.parametrize("caching", [True, False])
def test_siblings_that_fork_one_prompt_give_its_continuation(engine_of: Callable[..., LLM], reference: Reference, caching: bool) -> None:
    llm = engine_of(kv_cache_memory=2**26, block_size=4, enable_prefix_caching=caching)
    prompt = reference["python"]["prompt"]
    children = [_request(f"g#{i}", prompt, 12) for i in range(3)]
    llm.engine.scheduler.add_group("g", children)
    while llm.engine.scheduler.has_unfinished():
        llm.engine.step()
    assert [child.num_cached_tokens for child in children] == [0, len(prompt) - 1, len(prompt) - 1]
    assert len(near_ties([("python", child.output_token_ids) for child in children], reference)) <= 1


def test_plans_issued_before_the_last_output_is_known_give_the_same_tokens(engine_of: Callable[..., LLM], reference: Reference) -> None:
    llm = engine_of(kv_cache_memory=2**26, block_size=4, max_num_batched_tokens=32, max_num_seqs=8)
    scheduler = Scheduler(replace(llm.engine.scheduler.config, async_scheduling=True))
    requests = {name: _request(name, reference[name]["prompt"], 12) for name in ("sky", "python", "chinese", "one-token")}
    for request in requests.values():
        scheduler.add(request)
    in_flight: deque = deque()
    while scheduler.has_unfinished():
        while len(in_flight) < 2:
            plan = scheduler.schedule()
            in_flight.append((plan, llm.engine.executor.execute(plan)))
        scheduler.apply(*in_flight.popleft())
    outputs = [(name, request.output_token_ids) for name, request in requests.items()]
    assert all(len(tokens) == 12 for _, tokens in outputs)
    assert len(near_ties(outputs, reference)) <= 1
