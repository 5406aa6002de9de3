"""CASEBOOK 23: output with speculation equals output without it, whatever else happens in the engine."""

from __future__ import annotations

import random

import pytest
from speculating import VOCAB, engine, looping_prompts, params, tokens

from infer_lab import LLM, SamplingParams
from infer_lab.spec.config import SpeculativeConfig

NGRAM = SpeculativeConfig("ngram", num_draft_tokens=5, ngram_min=1, ngram_max=3, adaptive=False)
PRESSED = {
    "roomy": {},
    "chunks of seven": {"max_num_batched_tokens": 7, "max_num_seqs": 2, "block_size": 4},
    "chunks beside decodes": {"long_prefill_token_threshold": 3, "max_num_batched_tokens": 16, "max_num_seqs": 4},
    "recompute": {"num_kv_blocks": 27, "block_size": 4, "watermark": 0.0, "admission": "chunk"},
    "swap": {"num_kv_blocks": 27, "block_size": 4, "watermark": 0.0, "admission": "chunk", "preemption": "swap", "num_host_kv_blocks": 60},
    "no prefix cache": {"enable_prefix_caching": False, "block_size": 2},
    "priority": {"policy": "priority", "max_num_seqs": 2, "max_num_batched_tokens": 8, "block_size": 1, "num_kv_blocks": 200},
}


def drawn(r: random.Random, temperature: float) -> SamplingParams:
    return params(max_tokens=r.choice([2, 20, 30, 30, 30]), temperature=temperature, seed=r.randrange(99), top_k=r.choice([0, 3]))


@pytest.mark.parametrize("temperature", [0.0, 0.5])
@pytest.mark.parametrize("pressure", PRESSED)
def test_ngram_drafts_change_no_token_greedy_or_seeded(loopy: LLM, pressure: str, temperature: float) -> None:
    r = random.Random(3)
    prompts = looping_prompts(r, 8)
    each = [drawn(r, temperature) for _ in prompts]
    plain = tokens(loopy.generate(prompts, each))
    with engine(loopy, NGRAM, **PRESSED[pressure]) as llm:
        outputs = llm.generate(prompts, each)
        assert tokens(outputs) == plain
        counts = llm.engine.scheduler.draft_counts
        assert 0 < counts.num_accepted_tokens < counts.num_draft_tokens, "some were taken, some were not"
        if pressure in ("recompute", "swap"):
            assert sum(output.metrics.num_preemptions for output in outputs) > 0


def test_drafts_are_taken_where_the_text_repeats(loopy: LLM) -> None:
    with engine(loopy, NGRAM) as llm:
        (output,) = llm.generate([[5, 6] * 10], params(max_tokens=60, temperature=0.0))
        records = [record for record in llm.engine.scheduler.step_records if record.num_tokens]
        accepted = sum(record.accepted_draft_tokens for record in records)
        assert len(output.token_ids) == 60 == accepted + len(records)
        assert accepted >= 20


@pytest.mark.parametrize("prompt_length", range(5, 10))
@pytest.mark.parametrize("max_tokens", range(1, 8))
def test_drafts_end_where_the_request_must(loopy: LLM, prompt_length: int, max_tokens: int) -> None:
    prompt = [7] * prompt_length
    plain = tokens(loopy.generate([prompt], params(max_tokens=max_tokens)))
    with engine(loopy, SpeculativeConfig("ngram", num_draft_tokens=16, ngram_min=1, adaptive=False), block_size=4) as llm:
        assert tokens(llm.generate([prompt], params(max_tokens=max_tokens))) == plain
        drafted = sum(record.draft_tokens for record in llm.engine.scheduler.step_records)
        assert drafted <= max(0, max_tokens - 2) * 16


def test_drafts_end_at_the_models_context(loopy: LLM) -> None:
    prompt = [3, 4] * 59
    plain = tokens(loopy.generate([prompt], params(max_tokens=99)))
    assert plain[0][1] == "length" and len(plain[0][0]) == 10
    with engine(loopy, NGRAM) as llm:
        assert tokens(llm.generate([prompt], params(max_tokens=99))) == plain


def test_a_stop_token_inside_accepted_drafts_ends_the_output_there(loopy: LLM) -> None:
    with engine(loopy, NGRAM) as llm:
        for prompt in looping_prompts(random.Random(4), 4):
            (free,) = loopy.generate([prompt], params(max_tokens=40))
            for stop in list(dict.fromkeys(free.token_ids))[:5]:
                p = params(max_tokens=40, stop_token_ids=(stop,))
                (stopped,) = llm.generate([prompt], p)
                assert stopped.token_ids == free.token_ids[: free.token_ids.index(stop) + 1] and stopped.finish_reason == "stop"


def test_a_stream_with_drafts_gives_the_same_text_and_tokens(loopy: LLM) -> None:
    (plain,) = loopy.generate(["ababababab"], params(max_tokens=40))
    with engine(loopy, NGRAM) as llm:
        updates = list(llm.stream("ababababab", params(max_tokens=40)))
        assert [t for update in updates for t in update.token_ids] == list(plain.token_ids)
        assert "".join(update.text for update in updates) == plain.text
        assert max(len(update.token_ids) for update in updates) > 1


def test_each_output_says_what_became_of_its_drafts(loopy: LLM) -> None:
    with engine(loopy, NGRAM) as llm:
        outputs = llm.generate(looping_prompts(random.Random(3), 5), params(max_tokens=30))
        drafts = [output.metrics.drafts for output in outputs if output.metrics.drafts is not None]
        totals, metrics = llm.engine.scheduler.draft_counts, llm.metrics.to_dict()
        assert sum(d.num_draft_tokens for d in drafts) == totals.num_draft_tokens == metrics["vllm:spec_decode_num_draft_tokens_total"] > 0
        assert sum(d.num_accepted_tokens for d in drafts) == totals.num_accepted_tokens
        per_pos = metrics["vllm:spec_decode_num_accepted_tokens_per_pos_total"]
        assert list(per_pos.values()) == totals.num_accepted_tokens_per_pos and list(per_pos) == [str(i) for i in range(5)]
        for output in outputs:
            if (d := output.metrics.drafts) is not None:
                assert sum(d.num_accepted_tokens_per_pos) == d.num_accepted_tokens <= len(output.token_ids)
                assert output.to_dict()["drafts"]["num_draft_tokens"] == d.num_draft_tokens
    assert loopy.generate([[1, 2]], params())[0].metrics.drafts is None


def test_a_stop_string_inside_accepted_drafts_ends_text_and_tokens_there(loopy: LLM) -> None:
    (free,) = loopy.generate(["ababababab"], params(max_tokens=40))
    with engine(loopy, NGRAM) as llm:
        for start in range(0, min(12, len(free.text) - 2), 3):
            p = params(max_tokens=40, stop=free.text[start : start + 2])
            (plain,), (drafted,) = loopy.generate(["ababababab"], p), llm.generate(["ababababab"], p)
            assert (drafted.text, drafted.token_ids, drafted.finish_reason) == (plain.text, plain.token_ids, "stop")


def test_n_sequences_of_one_prompt_are_those_of_the_plain_engine(loopy: LLM) -> None:
    p = params(n=3, temperature=0.5, seed=4, max_tokens=20)
    (plain,) = loopy.generate([[9, 8, 7] * 5], p)
    with engine(loopy, NGRAM, block_size=4) as llm:
        (drafted,) = llm.generate([[9, 8, 7] * 5], p)
        assert [o.token_ids for o in drafted.outputs] == [o.token_ids for o in plain.outputs]


def test_a_prefix_computed_by_a_speculating_request_serves_the_next(loopy: LLM) -> None:
    """What rejected drafts wrote is in no cached block."""
    with engine(loopy, NGRAM, block_size=4) as llm:
        (first,) = llm.generate([[9, 8] * 8], params(max_tokens=30))
        follow = [*[9, 8] * 8, *first.token_ids, 1]
        (second,) = llm.generate([follow], params(max_tokens=10))
        assert second.num_cached_tokens >= 40
        assert tokens([second]) == tokens(loopy.generate([follow], params(max_tokens=10)))


def test_with_nearly_no_budget_left_nobody_is_stopped_by_drafts(loopy: LLM) -> None:
    prompts = [[i, i + 1] * 6 for i in range(4)]
    with engine(loopy, NGRAM, max_num_batched_tokens=6, max_num_seqs=4, block_size=4) as llm:
        ids = [str(i) for i in range(4)]
        plain = tokens(loopy.generate(prompts, params(max_tokens=20)))
        assert tokens(llm.generate(prompts, params(max_tokens=20))) == plain
        for record in llm.engine.scheduler.step_records:
            if record.decode_tokens == len(ids):
                assert record.draft_tokens <= 2


def test_drafts_preempt_nobody(loopy: LLM) -> None:
    """In a pool where all fit without drafts, all fit with them."""
    prompts = [[i, i + 1] * 4 for i in range(4)]
    options = {"num_kv_blocks": 1 + 4 * 5, "block_size": 4, "watermark": 0.0}
    for speculative in (None, NGRAM):
        with engine(loopy, speculative, **options) as llm:
            outputs = llm.generate(prompts, params(max_tokens=12))
            assert [output.metrics.num_preemptions for output in outputs] == [0] * 4


def test_a_failed_step_loses_its_requests_and_not_the_drafter(loopy: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine(loopy, NGRAM) as llm:
        plain = tokens(llm.generate([[1, 2] * 5], params()))
        before = llm.metrics.to_dict()["vllm:spec_decode_num_draft_tokens_total"]
        with monkeypatch.context() as patch:
            patch.setattr(llm.engine.executor, "execute", lambda plan: 1 / 0)
            with pytest.raises(Exception, match="a step failed"):
                llm.generate([[1, 2] * 5], params())
        assert tokens(llm.generate([[1, 2] * 5], params())) == plain
        assert llm.metrics.to_dict()["vllm:spec_decode_num_draft_tokens_total"] > before > 0, "totals never go back"


@pytest.mark.parametrize("seed", range(12))
def test_random_workloads_with_ngram_drafts_give_the_tokens_of_the_plain_engine(loopy: LLM, seed: int) -> None:
    r = random.Random(seed)
    prompts = looping_prompts(r, r.randint(1, 9))
    each = [drawn(r, r.choice([0.0, 0.0, 0.3, 2.0])) for _ in prompts]
    block_size = r.choice([1, 2, 4, 16])
    budget = r.choice([4, 9, 33, 2048])
    options = {
        "block_size": block_size,
        "num_kv_blocks": 2 + int(r.choice([1.0, 1.5, 6.0]) * (80 / block_size)),
        "max_num_batched_tokens": budget,
        "max_num_seqs": min(budget, r.choice([1, 3, 8])),
        "admission": r.choice(["chunk", "prompt", "request"]),
        "watermark": 0.0,
        "num_host_kv_blocks": 200,
        "preemption": r.choice(["swap", "recompute"]),
        "enable_prefix_caching": r.random() < 0.7,
    }
    speculative = SpeculativeConfig("ngram", r.randint(1, 9), ngram_min=r.randint(1, 2), adaptive=r.random() < 0.5)
    plain = tokens(loopy.generate(prompts, each))
    with engine(loopy, speculative, **options) as llm:
        assert tokens(llm.generate(prompts, each)) == plain
    assert max(max(ids, default=0) for ids, _ in plain) < VOCAB
