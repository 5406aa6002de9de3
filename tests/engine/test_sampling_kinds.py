"""Kinds of failure from the casebook (15, 16, 19) as they concern sampling, and log-probabilities, on the tiny model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from slow_engine import Ask, all_logits, check, expect, fresh, request_of, run, same_answer, slow_generate
from slow_sampling import slow_distribution, slow_logits

from infer_lab import LLM, SamplingParams
from infer_lab.core.group import make_children
from infer_lab.engine.admission import make_request

BLOCK = 4
PREFIX = [5, 9, 5, 17, 200, 31, 9, 64, 3]


@pytest.fixture(scope="module")
def llm(tiny_folder: Path) -> Iterator[LLM]:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=120, block_size=BLOCK) as llm:
        yield llm


# Casebook, kind 15


@pytest.mark.parametrize("temperature", [0.0, 5e-324, 1e-30, 1e-6])
def test_temperatures_at_and_near_zero_are_greedy_alone_and_beside_random_rows(llm: LLM, temperature: float) -> None:
    prompts = [PREFIX, [7, 8], [100, 3, 100]]
    greedy = [expect(llm, prompt) for prompt in prompts]
    extremes = [expect(llm, prompt, temperature=hot, seed=3) for prompt in prompts for hot in (0.8, 1e30)]
    cold = [replace(ask, params=replace(ask.params, temperature=temperature, seed=4)) for ask in greedy]
    for ask in cold:
        same_answer(llm, ask)
    together = [*cold, *extremes, *greedy]
    requests = [request_of(llm, str(i), ask) for i, ask in enumerate(together)]
    run(llm, fresh(llm), {0: requests}, 0, Counter())
    for ask, request in zip(together, requests, strict=True):
        check(ask, request)


# Casebook, kind 16

PENALTIES = {
    "repetition": {"repetition_penalty": 1.7},
    "frequency": {"frequency_penalty": 1.9},
    "presence": {"presence_penalty": 1.9},
    "all": {"repetition_penalty": 1.2, "frequency_penalty": 0.8, "presence_penalty": 0.8},
}


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_are_not_forgotten_after_a_cache_hit(llm: LLM, name: str) -> None:
    prompt = [*PREFIX, *PREFIX, 7, 7, 7]
    ask = expect(llm, prompt, **PENALTIES[name])
    for num_cached in (0, 20):
        request = request_of(llm, "x", ask)
        run(llm, llm.engine.scheduler, {0: [request]}, 0, Counter())
        assert request.num_cached_tokens == num_cached
        check(ask, request)


@pytest.mark.parametrize("name", PENALTIES)
def test_penalties_do_not_follow_a_row_to_its_nextrequest_of(llm: LLM, name: str) -> None:
    asks = [expect(llm, prompt, **PENALTIES[name]) for prompt in ([1, 2, 3], [4, 5, 6, 7, 8, 9])]
    fresh(llm, max_num_seqs=1)
    for ask in [*asks, *reversed(asks)]:
        same_answer(llm, ask)
    fresh(llm, max_num_seqs=8)


@pytest.mark.parametrize("name", ["frequency", "presence"])
def test_a_prompt_is_not_output_for_frequency_and_presence(llm: LLM, name: str) -> None:
    first = expect(llm, PREFIX, max_tokens=1)
    assert first.expected is not None
    (best,) = first.expected.token_ids
    prompt = [best] * 6
    plain, penalized = expect(llm, prompt, max_tokens=1), expect(llm, prompt, max_tokens=1, **PENALTIES[name])
    assert plain.expected is not None and penalized.expected is not None
    assert plain.expected.token_ids == penalized.expected.token_ids
    same_answer(llm, penalized)


@pytest.mark.parametrize("name", PENALTIES)
def test_sequences_that_share_a_prompt_count_their_own_tokens(llm: LLM, name: str) -> None:
    params = SamplingParams(max_tokens=12, temperature=1.0, seed=9, n=4, prompt_logprobs=2, logprobs=1, ignore_eos=True, **PENALTIES[name])
    asks = [Ask([*PREFIX, 1, 2], params.for_child(i)) for i in range(4)]
    for ask in asks:
        ask.expected = slow_generate(llm, ask.prompt, ask.params)
    scheduler = fresh(llm)
    children = make_children("g", 4, lambda child, i: request_of(llm, child, asks[i]))
    scheduler.add_group("g", children)
    while scheduler.has_unfinished():
        llm.engine.step()
    for ask, child in zip(asks, children, strict=True):
        check(ask, child)
    assert sum(record.cached_tokens for record in scheduler.step_records) == 3 * 10, "three came in by forking"


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("num_right", [0, 1, 3])
def test_drafts_before_a_row_count_as_output(llm: LLM, name: str, num_right: int) -> None:
    ask = expect(llm, PREFIX, logprobs=2, min_tokens=4, stop_token_ids=[5, 9, 17], **PENALTIES[name])
    assert ask.expected is not None
    scheduler, request = llm.engine.scheduler, request_of(llm, "x", ask)
    scheduler.add(request)
    while not request.is_finished:
        coming = ask.expected.token_ids[request.num_output_tokens :][:3]
        scheduler.propose("x", [token if i < num_right else (token + 1) % 257 for i, token in enumerate(coming)])
        llm.engine.step()
        llm.engine.executor.sampler.check_invariants()
    check(ask, request)
    assert (scheduler.draft_counts.num_accepted_tokens > 0) == (num_right > 0)


# Casebook, kind 19

CHANGES: dict[str, dict[str, Any]] = {
    "temperature": {"temperature": 1.5},
    "seed": {"temperature": 1.5, "seed": 12},
    "top_k": {"temperature": 1.5, "top_k": 1},
    "top_p": {"temperature": 1.5, "top_p": 0.01},
    "min_p": {"temperature": 1.5, "min_p": 0.9},
    "repetition_penalty": {"repetition_penalty": 3.0},
    "frequency_penalty": {"frequency_penalty": 2.0},
    "presence_penalty": {"presence_penalty": 2.0},
    "logit_bias": {"logit_bias": {50: 90.0}},
    "allowed_token_ids": {"allowed_token_ids": [40, 41, 42]},
    "max_tokens": {"max_tokens": 3},
}


@pytest.mark.parametrize("option", CHANGES)
def test_no_option_is_accepted_and_ignored(llm: LLM, option: str) -> None:
    plain = expect(llm, PREFIX, seed=11, temperature=CHANGES[option].get("temperature", 0.0))
    changed = expect(llm, PREFIX, **{"seed": 11} | CHANGES[option])
    assert plain.expected is not None and changed.expected is not None
    if option != "temperature":
        assert plain.expected.token_ids != changed.expected.token_ids
    same_answer(llm, changed)


def test_banned_tokens_never_come_and_the_answer_goes_another_way(llm: LLM) -> None:
    plain = expect(llm, PREFIX)
    assert plain.expected is not None
    banned = expect(llm, PREFIX, banned_token_ids=plain.expected.token_ids)
    assert banned.expected is not None and not set(banned.expected.token_ids) & set(plain.expected.token_ids)
    same_answer(llm, banned)


@pytest.mark.parametrize("as_eos", [True, False])
def test_no_end_and_no_stop_token_ends_a_request_before_min_tokens(llm: LLM, as_eos: bool) -> None:
    plain = expect(llm, PREFIX, repetition_penalty=50.0)  # no token twice
    assert plain.expected is not None
    stops = plain.expected.token_ids[2:4]  # the third token would end it
    for min_tokens, length in ((0, 3), (2, 3), (3, None), (5, None)):
        params = SamplingParams(max_tokens=10, min_tokens=min_tokens, stop_token_ids=() if as_eos else stops, repetition_penalty=50.0)
        eos = stops if as_eos else ()
        ask = Ask(PREFIX, params, slow_generate(llm, PREFIX, params, eos))
        fresh(llm)
        request = make_request("x", PREFIX, params, vocab_size=257, eos_token_ids=eos)
        run(llm, llm.engine.scheduler, {0: [request]}, 0, Counter())
        check(ask, request)
        assert request.num_output_tokens >= min_tokens
        if length is not None:
            assert (request.num_output_tokens, request.finish_reason) == (length, "stop")
        else:
            assert not set(request.output_token_ids[:min_tokens]) & set(stops), "masked, and not just overlooked"


def test_any_of_several_end_tokens_ends_a_request_unless_they_are_ignored(llm: LLM) -> None:
    plain = expect(llm, PREFIX, repetition_penalty=50.0)
    assert plain.expected is not None
    tokens = plain.expected.token_ids
    for ignore_eos, reason, length in ((False, "stop", 2), (True, "length", 10)):
        params = SamplingParams(max_tokens=10, ignore_eos=ignore_eos, repetition_penalty=50.0)
        request = make_request("x", PREFIX, params, vocab_size=257, eos_token_ids=[tokens[5], tokens[1], 256])
        run(llm, fresh(llm), {0: [request]}, 0, Counter())
        assert (request.finish_reason, request.num_output_tokens) == (reason, length)


# Log-probabilities of the prompt


def test_prompt_logprobs_are_complete_after_a_cache_hit_and_leave_the_cache_to_others(llm: LLM) -> None:
    prompt = list(range(60, 60 + 5 * BLOCK))
    plain, asks = expect(llm, prompt), expect(llm, prompt, prompt_logprobs=4, logprobs=0)
    same_answer(llm, plain)
    request = request_of(llm, "p", asks)
    run(llm, llm.engine.scheduler, {0: [request]}, 0, Counter())
    assert request.num_cached_tokens == 0 and len(request.prompt_logprobs) == len(prompt) - 1
    check(asks, request)
    again = request_of(llm, "again", plain)
    run(llm, llm.engine.scheduler, {0: [again]}, 0, Counter())
    assert again.num_cached_tokens == 4 * BLOCK
    llm.engine.scheduler.check_invariants()


@pytest.mark.parametrize("length", [1, 2, 3, BLOCK, BLOCK + 1, 65, 80])
def test_prompt_logprobs_have_one_entry_for_each_prompt_token_but_the_first(llm: LLM, length: int) -> None:
    for budget in (64, 3):
        ask = expect(llm, [(7 * i) % 250 for i in range(length)], max_tokens=2, prompt_logprobs=1)
        request = request_of(llm, "p", ask)
        run(llm, fresh(llm, max_num_batched_tokens=budget, max_num_seqs=3), {0: [request]}, 0, Counter())
        assert len(request.prompt_logprobs) == length - 1
        check(ask, request)
    fresh(llm, max_num_batched_tokens=64, max_num_seqs=8)


def test_the_first_draw_of_many_requests_follows_the_analytic_distribution(llm: LLM) -> None:
    """All the way through the engine, 2,000 requests with seeds of their own."""
    params = SamplingParams(
        max_tokens=1, temperature=1.4, top_k=30, top_p=0.95, min_p=0.01, repetition_penalty=1.2, logit_bias={3: 1.0}, banned_token_ids=[9]
    )
    logits = slow_logits(all_logits(llm, PREFIX)[-1].tolist(), params, PREFIX, [])
    probabilities, near = slow_distribution(logits, params)
    assert near > 1e-4
    scheduler = fresh(llm, max_num_seqs=64)
    requests = [request_of(llm, str(i), Ask(PREFIX, replace(params, seed=i))) for i in range(2000)]
    for request in requests:
        scheduler.add(request)
    while scheduler.has_unfinished():
        llm.engine.step()
    counts = Counter(request.output_token_ids[0] for request in requests)
    statistic, cells, rest, rest_counted = 0.0, 0, 0.0, 0
    for token, p in enumerate(probabilities):
        expected = p * len(requests)
        if expected >= 5:
            statistic += (counts[token] - expected) ** 2 / expected
            cells += 1
        else:
            rest, rest_counted = rest + expected, rest_counted + counts[token]
            assert p > 0 or not counts[token]
    statistic += (rest_counted - rest) ** 2 / rest if rest else 0.0
    degrees = torch.tensor((cells - (0 if rest else 1)) / 2)
    assert float(torch.special.gammaincc(degrees, torch.tensor(statistic / 2))) > 1e-3
    fresh(llm, max_num_seqs=8)
