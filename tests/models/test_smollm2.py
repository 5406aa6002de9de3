"""The default model tells the truth: greedy tokens and logits equal transformers on the same weights, however the work is scheduled.

The same stored truth serves every test here, so "the same alone, batched, chunked, cached, preempted" needs no second opinion. How
a near-tie is told from a bug: see agreement.py.
"""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from agreement import NEAR_TIE, near_ties
from forward import all_logits
from oracle import greedy, smollm2_oracle
from prompts import REFERENCE_PROMPTS

from infer_lab import LLM, RequestOutput, SamplingParams
from infer_lab.core.request import Request
from infer_lab.models.smollm2_file import SHA256, smollm2_file

pytestmark = pytest.mark.model

Reference = dict[str, dict[str, Any]]
EngineOf = Callable[..., LLM]

# Short ones of every kind, for the tests that run many configurations
SOME = ("one-token", "sky", "arithmetic", "python", "json", "chinese", "arabic", "emoji", "chat-cache", "chat-special", "long-300")


def _generate(llm: LLM, reference: Reference, names: Sequence[str], num_tokens: int) -> list[tuple[str, RequestOutput]]:
    params = SamplingParams(max_tokens=num_tokens, ignore_eos=True)
    return list(zip(names, llm.generate([reference[name]["prompt"] for name in names], params), strict=True))


def _check(outputs: Sequence[tuple[str, RequestOutput]], reference: Reference, allowed: int = 1) -> None:
    ties = near_ties([(name, output.token_ids) for name, output in outputs], reference)
    if ties:
        warnings.warn(f"{len(ties)} of {len(outputs)} continuations end in a near-tie: {', '.join(ties)}", stacklevel=2)
    assert len(ties) <= allowed


# -- the truth ---------------------------------------------------------------------------------------------------------------


def test_the_reference_covers_every_prompt_and_was_made_with_this_file(smollm2: LLM, reference: Reference) -> None:
    made_with = json.loads((Path(__file__).parent / "reference" / "smollm2_greedy.json").read_text(encoding="utf-8"))["made_with"]
    assert made_with["model_sha256"] == SHA256
    assert len(REFERENCE_PROMPTS) >= 40 and [p.name for p in REFERENCE_PROMPTS] == list(reference)
    for prompt in REFERENCE_PROMPTS:
        message = [{"role": "user", "content": prompt.text}]
        ids = smollm2.tokenizer.encode_chat(message) if prompt.chat else smollm2.tokenizer.encode(prompt.text)
        assert ids == reference[prompt.name]["prompt"], prompt.name
        assert len(reference[prompt.name]["tokens"]) == len(reference[prompt.name]["margins"]) == 64


def test_all_prompts_batched_in_one_engine_equal_transformers(smollm2: LLM, reference: Reference) -> None:
    _check(_generate(smollm2, reference, list(reference), 64), reference, allowed=2)


def test_a_dozen_prompts_alone_equal_transformers(smollm2: LLM, reference: Reference) -> None:
    _check([pair for name in SOME for pair in _generate(smollm2, reference, [name], 32)], reference)


@pytest.mark.full
def test_every_prompt_alone_equals_transformers(smollm2: LLM, reference: Reference) -> None:
    _check([pair for name in reference for pair in _generate(smollm2, reference, [name], 64)], reference, allowed=2)


@pytest.fixture(scope="module")
def oracle() -> torch.nn.Module:
    return smollm2_oracle(smollm2_file())


def test_five_prompts_derived_again_give_the_stored_reference(oracle: torch.nn.Module, reference: Reference) -> None:
    for name in ("one-token", "python", "chinese", "emoji", "chat-cache"):
        _check_reference(oracle, reference, name)


@pytest.mark.full
@pytest.mark.parametrize("name", [prompt.name for prompt in REFERENCE_PROMPTS])
def test_every_prompt_derived_again_gives_the_stored_reference(oracle: torch.nn.Module, reference: Reference, name: str) -> None:
    _check_reference(oracle, reference, name)


def _check_reference(oracle: torch.nn.Module, reference: Reference, name: str) -> None:
    """transformers itself, on another machine or version, may flip a near-tie; nothing else."""
    tokens, margins = greedy(oracle, reference[name]["prompt"], 64)
    assert len(near_ties([(name, tokens)], reference)) <= 1
    if tokens == reference[name]["tokens"]:
        assert torch.allclose(torch.tensor(margins), torch.tensor(reference[name]["margins"]), atol=5e-3, rtol=5e-3)


@pytest.mark.parametrize("name", ["python", "chat-chinese", "long-300"])
def test_logits_of_every_position_equal_transformers(smollm2: LLM, oracle: torch.nn.Module, reference: Reference, name: str) -> None:
    prompt = reference[name]["prompt"]
    with torch.inference_mode():
        expected = oracle(torch.tensor([prompt])).logits[0]
    for chunk in (None, 50):
        error = (all_logits(smollm2.loaded, prompt, chunk) - expected).abs().amax(-1) / expected.abs().amax(-1)
        assert float(error.max()) < 1e-3, f"chunks of {chunk}: largest relative error {float(error.max()):.2g}"


# -- the same, however it is scheduled ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [11, 37, 128])
def test_any_chunk_size_gives_the_same_tokens(engine_of: EngineOf, reference: Reference, budget: int) -> None:
    llm = engine_of(max_num_batched_tokens=budget, kv_cache_memory=2**27)
    outputs = _generate(llm, reference, SOME, 12)
    _check(outputs, reference)
    assert max(record.num_tokens for record in llm.engine.scheduler.step_records) <= budget


def test_any_order_and_company_gives_the_same_tokens(engine_of: EngineOf, reference: Reference) -> None:
    llm = engine_of(max_num_seqs=4, kv_cache_memory=2**27)
    names = list(SOME)
    random.Random(4).shuffle(names)
    _check(_generate(llm, reference, names, 16), reference)


def test_prefix_cache_on_or_off_gives_the_same_tokens(engine_of: EngineOf, reference: Reference) -> None:
    with_cache = engine_of(kv_cache_memory=2**27)
    first, second = (_generate(with_cache, reference, SOME, 12) for _ in range(2))
    without = _generate(engine_of(kv_cache_memory=2**27, enable_prefix_caching=False), reference, SOME, 12)
    for outputs in (first, second, without):
        _check(outputs, reference)
    for name, output in second:
        # whole blocks only, and never the whole prompt: its last token must be computed to sample from it
        assert output.num_cached_tokens == (len(reference[name]["prompt"]) - 1) // 16 * 16
    assert all(output.num_cached_tokens == 0 for _, output in without)


@pytest.mark.parametrize("block_size", [1, 16, 64])
def test_any_block_size_gives_the_same_tokens(engine_of: EngineOf, reference: Reference, block_size: int) -> None:
    _check(_generate(engine_of(block_size=block_size, kv_cache_memory=2**27), reference, SOME[:6], 10), reference)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_preemption_gives_the_same_tokens(engine_of: EngineOf, reference: Reference, preemption: str) -> None:
    names = ("sky", "arithmetic", "python", "chinese", "emoji", "json")
    longest = max(len(reference[name]["prompt"]) for name in names) + 24
    llm = engine_of(
        block_size=4,
        num_kv_blocks=1 + -(-longest // 4) + 12,
        preemption=preemption,
        num_host_kv_blocks=64 if preemption == "swap" else 0,
    )
    outputs = _generate(llm, reference, names, 24)
    _check(outputs, reference)
    assert sum(output.metrics.num_preemptions for _, output in outputs) > 0, "the pool was meant to be too small"
    if preemption == "swap":
        assert sum(record.num_swapped_out for record in llm.engine.scheduler.step_records) > 0
    llm.engine.scheduler.check_invariants()


def test_drafts_right_or_wrong_do_not_change_the_tokens(engine_of: EngineOf, reference: Reference) -> None:
    llm = engine_of(kv_cache_memory=2**26)
    expected = reference["chat-cache"]["tokens"][:24]
    request, steps = Request("r", reference["chat-cache"]["prompt"], 24, params=SamplingParams(max_tokens=24, ignore_eos=True)), 0
    llm.engine.scheduler.add(request)
    while not request.is_finished:
        known = request.num_output_tokens
        if known:
            draft = expected[known : known + 3]
            if steps % 3 == 2:
                draft = [*draft[:1], 7, 7]  # right, then wrong
            llm.engine.scheduler.propose(request.request_id, draft)
        llm.engine.step()
        steps += 1
    assert request.output_token_ids == expected and steps < 16


@pytest.mark.parametrize("temperature", [0.7, 1.3])
def test_a_seeded_request_draws_the_same_tokens_alone_batched_chunked_and_preempted(
    engine_of: EngineOf, reference: Reference, temperature: float
) -> None:
    names = ("sky", "python", "chinese", "emoji")
    prompts = [reference[name]["prompt"] for name in names]
    params = [SamplingParams(max_tokens=16, temperature=temperature, top_k=40, top_p=0.95, seed=i, ignore_eos=True) for i in range(4)]
    batched = engine_of(kv_cache_memory=2**26).generate(prompts, params)
    alone = engine_of(kv_cache_memory=2**26)
    chunked = engine_of(kv_cache_memory=2**26, max_num_batched_tokens=5, enable_prefix_caching=False)
    tiny = engine_of(block_size=4, num_kv_blocks=20)
    for others in ([alone.generate([p], s)[0] for p, s in zip(prompts, params, strict=True)], chunked.generate(prompts, params)):
        assert [o.token_ids for o in others] == [o.token_ids for o in batched]
    preempted = tiny.generate(prompts, params)
    assert [o.token_ids for o in preempted] == [o.token_ids for o in batched]
    assert sum(o.metrics.num_preemptions for o in preempted) > 0
    assert len({o.token_ids for o in batched}) == 4


def test_every_margin_of_the_reference_is_known_and_few_are_near_ties(reference: Reference) -> None:
    margins = [margin for row in reference.values() for margin in row["margins"]]
    assert all(margin >= 0 for margin in margins) and sum(margin < NEAR_TIE for margin in margins) < len(margins) / 200
