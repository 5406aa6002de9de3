"""Sampling inside the engine: whatever the batch mates, their order, chunks, cache hits, preemptions, forks and drafts, a request gets the
tokens that it gets alone, computed anew for each token in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from slow_engine import Ask, check, fresh, request_of, run, slow_generate

from infer_lab import LLM, SamplingParams
from infer_lab.core.request import Request

BLOCK = 4
PREFIX = [5, 9, 5, 17, 200, 31, 9, 64, 3]


@pytest.fixture(scope="module")
def llm(tiny_folder: Path) -> Iterator[LLM]:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=120, block_size=BLOCK, num_host_kv_blocks=60, preemption="swap") as llm:
        yield llm


def _ask(rng: random.Random, vocab: int) -> Ask:
    """Any mixture of options; narrow enough for tokens to repeat, so that penalties have something to do."""

    def maybe(share: float, value: Any, otherwise: Any) -> Any:
        return value if rng.random() < share else otherwise

    pool = rng.sample(range(vocab), 40)
    prompt = maybe(0.6, PREFIX[: rng.randint(1, len(PREFIX))], []) + [rng.choice(pool) for _ in range(rng.randint(1, 24))]
    max_tokens = rng.randint(1, 12)
    return Ask(
        prompt,
        SamplingParams(
            max_tokens=max_tokens,
            temperature=rng.choice([0.0, 0.0, 1e-6, 0.7, 1.0, 2.0]),
            seed=rng.getrandbits(63),
            top_k=maybe(0.4, rng.randint(1, 30), 0),
            top_p=maybe(0.4, rng.uniform(0.3, 0.99), 1.0),
            min_p=maybe(0.3, rng.uniform(0.001, 0.3), 0.0),
            repetition_penalty=maybe(0.4, rng.choice([0.8, 1.3, 2.0]), 1.0),
            frequency_penalty=maybe(0.4, rng.choice([-0.5, 0.5, 1.5]), 0.0),
            presence_penalty=maybe(0.4, rng.choice([-0.5, 0.8]), 0.0),
            logit_bias=maybe(0.4, {token: rng.uniform(-3, 5) for token in pool[:5]}, {}),
            allowed_token_ids=maybe(0.4, pool[:25], None),
            banned_token_ids=maybe(0.3, pool[20:], ()),
            stop_token_ids=maybe(0.5, pool[:6], ()),
            min_tokens=maybe(0.4, rng.randint(0, max_tokens), 0),
            logprobs=maybe(0.5, rng.choice([0, 1, 5]), None),
            prompt_logprobs=maybe(0.3, rng.choice([0, 3]), None),
        ),
    )


SETTINGS: dict[str, dict[str, Any]] = {
    "roomy": {},
    "small chunks": {"max_num_batched_tokens": 7, "max_num_seqs": 5},
    "small pool, recompute": {"num_blocks": 22, "preemption": "recompute", "admission": "chunk"},
    "small pool, swap": {"num_blocks": 22, "preemption": "swap", "admission": "chunk"},
    "small pool, small chunks, no cache": {
        "num_blocks": 22, "max_num_batched_tokens": 9, "max_num_seqs": 6, "admission": "chunk", "enable_prefix_caching": False
    },
    "issued ahead": {"async_scheduling": True, "max_num_batched_tokens": 16, "max_num_seqs": 6},
    "issued ahead, small pool": {
        "async_scheduling": True, "num_blocks": 22, "preemption": "recompute", "admission": "chunk", "max_num_seqs": 8
    },
}  # fmt: skip


@pytest.mark.parametrize("seed", range(6))
def test_every_mixture_of_options_gives_the_same_tokens_alone_and_in_any_engine(llm: LLM, seed: int) -> None:
    rng, seen = random.Random(seed), Counter()
    asks = [_ask(rng, llm.model_config.vocab_size) for _ in range(14)]
    for ask in asks:
        ask.expected = slow_generate(llm, ask.prompt, ask.params, llm.loaded.checkpoint.eos_token_ids)
    for options in SETTINGS.values():
        scheduler = fresh(llm, **{"num_blocks": 120, "async_scheduling": False, "max_num_seqs": 8, "max_num_batched_tokens": 64} | options)
        order = rng.sample(range(len(asks)), len(asks))
        requests = {i: request_of(llm, str(i), asks[i]) for i in order}
        arrivals: dict[int, list[Request]] = {}
        for i in order:
            arrivals.setdefault(rng.choice([0, 0, 1, 4]), []).append(requests[i])
        run(llm, scheduler, arrivals, rng.choice([1, 2]) if options.get("async_scheduling") else 0, seen)
        for i, request in requests.items():
            check(asks[i], request)
            seen["preemptions"] += request.num_preemptions
            seen["hits"] += request.num_cached_tokens
        fresh(llm, num_blocks=120, async_scheduling=False, preemption="swap", admission="prompt", enable_prefix_caching=True)
    assert min(seen[what] for what in ("placeholders", "chunks", "preemptions", "hits")) > 0, f"{seen}: something was not tried"
