"""A model that guesses, its own first layers or another one: outputs stay what they are, and its KV is always the right one."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from speculating import engine, looping_prompts, p_value, params, tokens, write_looping_model

from infer_lab import LLM, SamplingParams
from infer_lab.core.plan import AdmittedRequest, ScheduledRequest
from infer_lab.core.request import Request
from infer_lab.errors import UserError
from infer_lab.sample.sampler import target_distribution
from infer_lab.spec.config import SpeculativeConfig

PRESSED = {
    "roomy": {},
    "chunks of seven": {"max_num_batched_tokens": 7, "max_num_seqs": 2, "block_size": 4},
    "recompute": {"num_kv_blocks": 27, "block_size": 4, "watermark": 0.0, "admission": "chunk"},
    "swap": {"num_kv_blocks": 27, "block_size": 4, "watermark": 0.0, "admission": "chunk", "preemption": "swap", "num_host_kv_blocks": 60},
    "no prefix cache": {"enable_prefix_caching": False, "block_size": 2},
    "single slots": {"block_size": 1, "num_kv_blocks": 400},
}


@pytest.fixture(scope="module")
def silent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LLM]:
    """The last of its two layers adds nothing: its first layer alone guesses right, if its KV is right."""
    folder = write_looping_model(tmp_path_factory.mktemp("silent"), noise=0.3, last_layer_is_silent=True)
    with LLM(str(folder), device="cpu", kv_cache_memory=2**20, seed=1) as llm:
        yield llm


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Another model with the same vocabulary, often of the same mind as `loopy`."""
    return str(write_looping_model(tmp_path_factory.mktemp("other"), noise=0.08))


def by_layers(**options) -> SpeculativeConfig:
    return SpeculativeConfig("draft", **({"num_draft_tokens": 4, "draft_layers": 1, "adaptive": False} | options))


def by_model(path: str, **options) -> SpeculativeConfig:
    return SpeculativeConfig("draft", **({"num_draft_tokens": 4, "draft_model": path, "adaptive": False} | options))


@pytest.mark.parametrize("pressure", PRESSED)
@pytest.mark.parametrize("drafter", ["first layer", "other model"])
def test_greedy_output_is_that_without_drafts(loopy: LLM, other: str, drafter: str, pressure: str) -> None:
    prompts = looping_prompts(random.Random(5), 8)
    each = [params(max_tokens=n, temperature=0.0) for n in (30, 2, 20, 30, 30, 25, 30, 30)]
    plain = tokens(loopy.generate(prompts, each))
    with engine(loopy, by_layers() if drafter == "first layer" else by_model(other), **PRESSED[pressure]) as llm:
        outputs = llm.generate(prompts, each)
        assert tokens(outputs) == plain
        counts = llm.engine.scheduler.draft_counts
        assert 0 < counts.num_accepted_tokens < counts.num_draft_tokens, "some were taken, some were not"
        if pressure in ("recompute", "swap"):
            assert sum(output.metrics.num_preemptions for output in outputs) > 0


@pytest.mark.parametrize("pressure", PRESSED)
@pytest.mark.parametrize(("temperature", "acceptance"), [(0.0, "standard"), (1.0, "standard"), (1.0, "exact")])
@pytest.mark.parametrize("drafter", ["first layer", "same model"])
def test_a_drafter_of_the_same_mind_is_always_right(silent: LLM, drafter: str, temperature: float, acceptance: str, pressure: str) -> None:
    """Its guesses are the model's only if it reads the right KV: after prefix hits, chunks, rejections, preemption and swaps."""
    options = {"acceptance": acceptance}
    speculative = by_layers(**options) if drafter == "first layer" else by_model(silent.config.model, **options)
    with engine(silent, speculative, **PRESSED[pressure]) as llm:
        r = random.Random(11)
        for _ in range(2):  # the second time much of it comes from the prefix cache
            prompts = looping_prompts(r, 6)
            llm.generate(prompts * 2, [params(max_tokens=20, temperature=temperature, seed=i) for i in range(12)])
        counts = llm.engine.scheduler.draft_counts
        assert counts.num_draft_tokens > 50
        # p and q come from different shapes of the same product: at a temperature their last bits may decide
        assert counts.num_accepted_tokens >= counts.num_draft_tokens * (1.0 if temperature == 0 else 0.99)


@pytest.mark.parametrize("drafter", ["first layer", "other model"])
def test_exact_acceptance_gives_the_seeded_tokens_of_the_plain_engine(loopy: LLM, other: str, drafter: str) -> None:
    prompts = looping_prompts(random.Random(2), 8)
    each = [params(max_tokens=30, temperature=0.7, seed=i, top_p=0.95) for i in range(8)]
    speculative = by_layers(acceptance="exact") if drafter == "first layer" else by_model(other, acceptance="exact")
    plain = tokens(loopy.generate(prompts, each))
    for pressure in ("chunks of seven", "swap"):
        with engine(loopy, speculative, **PRESSED[pressure]) as llm:
            assert tokens(llm.generate(prompts, each)) == plain
            counts = llm.engine.scheduler.draft_counts
            assert 0 < counts.num_accepted_tokens < counts.num_draft_tokens


ALPHABET = [3, 4, 5]
PENALTIES = {"frequency_penalty": 0.7, "presence_penalty": 0.4, "repetition_penalty": 1.2, "logit_bias": {4: 1.0}}
MIN_TOKENS = {"min_tokens": 2, "stop_token_ids": [5]}


def paths(llm: LLM, prompt: list[int], p: SamplingParams, depth: int) -> dict[tuple[int, ...], float]:
    """The exact probability of every output of `depth` tokens, token by token from the sampler's own distribution without drafts.

    A stop token ends an output."""
    sampler_rows = llm.engine.executor.sampler
    result: dict[tuple[int, ...], float] = {}

    def go(output: tuple[int, ...], chance: float) -> None:
        if len(output) == depth or (output and output[-1] in p.stop_token_ids and len(output) >= p.min_tokens):
            result[output] = chance
            return
        probabilities = next_probabilities(llm, prompt, output, p)
        for token in ALPHABET:
            if probabilities[token] > 0:
                go((*output, token), chance * probabilities[token])

    go((), 1.0)
    assert sampler_rows.states == {}
    return result


def next_probabilities(llm: LLM, prompt: list[int], output: tuple[int, ...], p: SamplingParams) -> list[float]:
    """Of the token after prompt and output, from one forward pass over both."""
    executor, ids = llm.engine.executor, (*prompt, *output)
    admitted = AdmittedRequest("probe", ids, len(prompt), p, frozenset(p.stop_token_ids))
    executor.batch.admit(admitted)
    executor.sampler.admit(admitted)
    blocks = tuple(range(1, 2 + len(ids) // 4))
    with torch.inference_mode():
        inputs = executor.batch.prepare([ScheduledRequest("probe", 0, ids, True, 0, blocks)])
        hidden = executor.model(inputs.token_ids, inputs.positions, executor.cache.layers, inputs.attention)
        logits = executor.model.logits(hidden[-1:])
        found = target_distribution(logits, executor.sampler.rows(inputs.sampled)).exp()[0].tolist()
    executor.batch.release("probe")
    executor.sampler.release("probe")
    return found


@pytest.mark.parametrize(
    ("drafter", "options"),
    [
        ("first layer", {}),
        ("first layer", PENALTIES),
        ("first layer", MIN_TOKENS),
        ("first layer", {"top_k": 2}),
        ("other model", {}),
        ("other model", PENALTIES),
        ("ngram", PENALTIES),
    ],
    ids=["layer", "layer-penalties", "layer-stops", "layer-top_k", "model", "model-penalties", "ngram-penalties"],
)
def test_outputs_are_distributed_as_without_drafts(loopy: LLM, other: str, drafter: str, options: dict) -> None:
    """Chi-square over whole outputs of four tokens, against the exact probabilities: the drafts before a token count for its penalties."""
    prompt, depth, draws = [3, 4, 5, 3, 4], 4, 1500
    wide = {"max_tokens": depth, "temperature": 6.0, "allowed_token_ids": ALPHABET, "ignore_eos": True}
    p = SamplingParams(**(wide | options | {"seed": 0}))
    speculative = {
        "first layer": by_layers(num_draft_tokens=3),
        "other model": by_model(other, num_draft_tokens=3),
        "ngram": SpeculativeConfig("ngram", 3, ngram_min=1, adaptive=False),
    }[drafter]
    with engine(loopy, speculative, block_size=4, num_kv_blocks=2000) as llm:
        expected = paths(llm, prompt, p, depth)
        assert sum(expected.values()) == pytest.approx(1, abs=1e-4)
        llm.engine.scheduler.reset_prefix_cache()
        each = [SamplingParams(**(wide | options | {"seed": seed})) for seed in range(draws)]
        outputs = [output.token_ids for output in llm.generate([prompt] * draws, each)]
        counts = llm.engine.scheduler.draft_counts
    assert 0.1 * counts.num_draft_tokens < counts.num_accepted_tokens < counts.num_draft_tokens
    order = sorted(expected)
    assert set(outputs) <= set(order)
    assert p_value([outputs.count(path) for path in order], [expected[path] for path in order]) > 1e-3


def test_penalties_and_masks_with_drafts_change_no_greedy_token(loopy: LLM, other: str) -> None:
    prompts = looping_prompts(random.Random(8), 5)
    each = [
        params(frequency_penalty=0.8, presence_penalty=0.3),
        params(repetition_penalty=1.3),
        params(logit_bias={7: 9.0, 8: -9.0}, banned_token_ids=[3, 4]),
        params(min_tokens=9, stop_token_ids=list(range(0, 257, 2))),
        params(allowed_token_ids=list(range(40))),
    ]
    plain = tokens(loopy.generate(prompts, each))
    for speculative in (by_layers(), by_model(other), SpeculativeConfig("ngram", 5, ngram_min=1, adaptive=False)):
        with engine(loopy, speculative, block_size=4) as llm:
            assert tokens(llm.generate(prompts, each)) == plain
            assert llm.engine.scheduler.draft_counts.num_accepted_tokens > 0


def test_a_drafter_counts_its_own_drafts_for_penalties_as_the_model_will(silent: LLM) -> None:
    with engine(silent, by_layers()) as llm:
        llm.generate([[5, 6, 7] * 3, [8, 9]], params(max_tokens=40, frequency_penalty=1.5, presence_penalty=1.0))
        counts = llm.engine.scheduler.draft_counts
        assert counts.num_accepted_tokens == counts.num_draft_tokens > 30


def test_logprobs_belong_to_the_tokens_also_to_accepted_drafts(loopy: LLM) -> None:
    def logprobs(llm: LLM) -> list[tuple[int, float]]:
        request = Request("r", [5, 6, 7] * 3, 20, params=params(logprobs=2, max_tokens=20))
        llm.engine.scheduler.add(request)
        while not request.is_finished:
            llm.engine.step()
        assert [entry.token_id for entry in request.logprobs] == request.output_token_ids
        return [(entry.token_id, round(entry.logprob, 3)) for entry in request.logprobs]

    with engine(loopy, None) as plain, engine(loopy, by_layers()) as drafting:
        assert logprobs(drafting) == logprobs(plain)
        assert drafting.engine.scheduler.draft_counts.num_accepted_tokens > 0


def test_several_sequences_of_one_prompt_fork_both_caches(loopy: LLM, other: str, silent: LLM) -> None:
    """Siblings share the prompt's blocks in the cache of the drafter too."""
    for llm_plain, speculative in ((loopy, by_model(other)), (silent, by_model(silent.config.model)), (silent, by_layers())):
        wanted = params(n=3, temperature=0.8, seed=5, max_tokens=15)
        with engine(llm_plain, speculative, block_size=4) as llm:
            children = [Request(f"g#{i}", [9, 8, 7] * 5, 15, params=params(temperature=0.8, seed=5 + i)) for i in range(3)]
            llm.engine.scheduler.add_group("g", children)
            while llm.engine.scheduler.has_unfinished():
                llm.engine.step()
            counts = llm.engine.scheduler.draft_counts
            assert all(child.num_output_tokens == wanted.max_tokens for child in children)
            if llm_plain is silent:
                assert counts.num_accepted_tokens >= 0.99 * counts.num_draft_tokens > 0


def test_a_drafter_that_cannot_work_is_refused_with_the_figures(loopy: LLM, tmp_path: Path) -> None:
    larger = write_looping_model(tmp_path)
    weights = load_file(larger / "model.safetensors")
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = torch.cat((weights[name], weights[name][:3]))
    save_file(weights, larger / "model.safetensors")
    config = json.loads((larger / "config.json").read_text())
    (larger / "config.json").write_text(json.dumps(config | {"vocab_size": 260}))
    for speculative, message in (
        (by_layers(draft_layers=2), r"draft_layers = 2, but .* has 2 layers"),
        (by_model(str(larger)), r"its vocabulary has 260 tokens, the model's 257"),
        (by_model(str(tmp_path / "nothing")), "nothing"),
    ):
        with pytest.raises(UserError, match=message), engine(loopy, speculative):
            pass


@pytest.mark.parametrize("seed", range(10))
def test_random_workloads_give_the_tokens_of_the_plain_engine(loopy: LLM, other: str, seed: int) -> None:
    r = random.Random(seed)
    prompts = looping_prompts(r, r.randint(1, 9))
    each = [
        params(max_tokens=r.choice([1, 2, 20, 30]), temperature=r.choice([0.0, 0.5]), seed=r.randrange(99), top_k=r.choice([0, 5]))
        for _ in prompts
    ]
    block_size, budget = r.choice([1, 2, 4, 16]), r.choice([4, 9, 33, 2048])
    options = {
        "block_size": block_size,
        "num_kv_blocks": 2 + int(r.choice([1.0, 1.5, 6.0]) * (100 / block_size)),
        "max_num_batched_tokens": budget,
        "max_num_seqs": min(budget, r.choice([1, 3, 8])),
        "admission": r.choice(["chunk", "prompt"]),
        "watermark": 0.0,
        "num_host_kv_blocks": 200,
        "preemption": r.choice(["swap", "recompute"]),
        "enable_prefix_caching": r.random() < 0.7,
    }
    common = {"num_draft_tokens": r.randint(1, 7), "adaptive": r.random() < 0.5, "acceptance": "exact"}
    speculative = by_layers(**common) if r.random() < 0.5 else by_model(other, **common)
    plain = tokens(loopy.generate(prompts, each))
    with engine(loopy, speculative, **options) as llm:
        assert tokens(llm.generate(prompts, each)) == plain
