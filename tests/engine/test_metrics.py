"""Metrics add up: what they count is what was delivered, whatever was preempted, aborted, chunked, cut or lost on the way."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from infer_lab import LLM, SamplingParams
from infer_lab.core.plan import StepOutput, StepPlan
from infer_lab.engine.metrics import Histogram
from infer_lab.outputs import RequestOutput, StreamUpdate

SHORT = SamplingParams(max_tokens=6, ignore_eos=True)
KNOWN = (
    "num_requests_running",
    "num_requests_waiting",
    "kv_cache_usage_perc",
    "prompt_tokens_total",
    "generation_tokens_total",
    "num_preemptions_total",
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "request_success_total",
    "iteration_tokens_total",
    "time_to_first_token_seconds",
    "inter_token_latency_seconds",
    "request_time_per_output_token_seconds",
    "e2e_request_latency_seconds",
    "request_queue_time_seconds",
    "request_inference_time_seconds",
    "request_prefill_time_seconds",
    "request_decode_time_seconds",
    "request_prompt_tokens",
    "request_generation_tokens",
    "spec_decode_num_drafts_total",
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
)


def values(llm: LLM) -> dict[str, Any]:
    return {name.removeprefix("vllm:"): value for name, value in llm.metrics.to_dict().items()}


def test_the_names_are_vllms_and_the_text_is_prometheus_own(tiny: LLM) -> None:
    tiny.generate(["a", "b"], SHORT)
    found = values(tiny)
    assert set(KNOWN) <= set(found)
    samples = {(s.name, s.labels.get("finished_reason")): s for f in text_string_to_metric_families(tiny.metrics.text()) for s in f.samples}
    assert samples["vllm:generation_tokens_total", None].value == found["generation_tokens_total"] == 12
    assert samples["vllm:request_success_total", "length"].value == found["request_success_total"]["length"] == 2
    assert samples["vllm:num_requests_running", None].labels == {"model_name": tiny.config.model, "engine": "0"}
    assert samples["vllm:time_to_first_token_seconds_count", None].value == 2


def test_gauges_show_the_moment(tiny: LLM) -> None:
    stream = tiny.stream("hello there", SamplingParams(max_tokens=50, ignore_eos=True))
    waiting = tiny.stream("and you", SHORT)
    assert (values(tiny)["num_requests_running"], values(tiny)["num_requests_waiting"]) == (0, 2)
    next(stream)
    now = values(tiny)
    assert (now["num_requests_running"], now["num_requests_waiting"]) == (2, 0) and 0 < now["kv_cache_usage_perc"] < 1
    del stream, waiting
    assert (values(tiny)["num_requests_running"], values(tiny)["kv_cache_usage_perc"]) == (0, 0)


def test_a_prompt_is_counted_once_for_n_sequences_and_hits_are_a_share_of_queries(tiny: LLM) -> None:
    prompt = list(range(40))
    tiny.generate([prompt], SHORT)
    tiny.generate([prompt], SamplingParams(max_tokens=3, temperature=1.0, n=3, ignore_eos=True))
    found = values(tiny)
    assert found["prompt_tokens_total"] == found["prefix_cache_queries_total"] == 80 and found["prefix_cache_hits_total"] == 32
    assert found["time_to_first_token_seconds"]["count"] == 4 and found["generation_tokens_total"] == 6 + 9


def test_a_prompt_that_is_computed_whole_for_its_log_probabilities_is_no_query_of_the_prefix_cache(tiny: LLM) -> None:
    prompt = list(range(40))
    tiny.generate([prompt], SHORT)
    for n in (1, 2):
        tiny.generate([prompt], SamplingParams(max_tokens=3, temperature=1.0, n=n, ignore_eos=True, prompt_logprobs=0))
    found = values(tiny)
    assert (found["prompt_tokens_total"], found["prefix_cache_queries_total"], found["prefix_cache_hits_total"]) == (120, 40, 0)


def test_gaps_of_a_sequence_that_still_runs_are_seen_and_not_counted_twice(tiny: LLM) -> None:
    stream = tiny.stream("hello", SamplingParams(max_tokens=20, ignore_eos=True))
    counts = []
    for _ in stream:
        counts.append(values(tiny)["inter_token_latency_seconds"]["count"])
    assert counts == list(range(20)) and values(tiny)["inter_token_latency_seconds"]["count"] == 19


def test_buckets_are_inclusive_and_cumulative() -> None:
    histogram = Histogram((1, 2, 5))
    for value in (0.5, 1, 1.5, 5, 7):
        histogram.observe(value)
    assert list(histogram.cumulative()) == [("1.0", 2), ("2.0", 3), ("5.0", 4), ("+Inf", 5)]
    assert (histogram.count, histogram.total) == (5, 15)
    together = Histogram((1, 2, 5))
    together.observe_all(np.array([0.5, 1, 1.5, 5, 7]))
    together.observe_all(np.array([]))
    assert (together.counts, together.total) == (histogram.counts, histogram.total)


def _never_less(before: dict[str, Any], after: dict[str, Any]) -> None:
    for name, value in before.items():
        if isinstance(value, dict):
            _never_less(value, after[name])
        elif name not in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
            assert after[name] >= value, name


@pytest.mark.parametrize("speculative", [None, "ngram"])
@pytest.mark.parametrize("seed", range(5))
def test_everything_adds_up_after_a_random_workload(
    tiny_folder: Path, seed: int, speculative: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few blocks, small chunks, stop strings, several sequences, callers who leave, steps that fail; somebody looks now and then."""
    rng = random.Random(seed)
    llm = LLM(
        str(tiny_folder),
        device="cpu",
        num_kv_blocks=14,
        block_size=8,
        max_num_seqs=5,
        max_num_batched_tokens=16,
        seed=seed,
        speculative=speculative,
    )
    real = llm.engine.executor.execute

    def execute(plan: StepPlan) -> StepOutput:
        unlucky = rng.choice(["before", "after"]) if rng.random() < 0.01 else ""
        if unlucky != "before":
            output = real(plan)
        if unlucky:
            raise RuntimeError("unlucky")
        return output

    monkeypatch.setattr(llm.engine.executor, "execute", execute)
    streams, delivered, outputs, before = [], 0, list[RequestOutput](), values(llm)
    num_added = 0
    for _ in range(60):
        n = rng.choice([1, 1, 1, 2])
        stop = rng.choice([(), ("a",), ("e", "\x0b")])
        few = None if speculative is None else range(60, 64)  # so that the text repeats itself
        params = SamplingParams(max_tokens=rng.randint(1, 30), temperature=1.5, n=n, stop=stop, allowed_token_ids=few)
        stream = llm.stream([rng.randrange(200) for _ in range(rng.randint(1, 40))], params)
        num_added += n
        streams.append(stream)
        while len(streams) > rng.randint(0, 8):
            stream = streams.pop(rng.randrange(len(streams)))
            updates: list[StreamUpdate] = []
            try:
                for update in stream:
                    updates.append(update)
                    if rng.random() < 0.02:
                        stream.close()  # type: ignore[attr-defined]
                        break
            except Exception as error:
                assert "unlucky" in str(error)
            delivered += sum(len(update.token_ids) for update in updates)
            outputs += [update.output for update in updates if update.output]
        now = values(llm)
        _never_less(before, now)
        before = now
    for stream in streams:
        stream.close()  # type: ignore[attr-defined]
    found = values(llm)
    _never_less(before, found)
    ended = found["request_success_total"]
    assert sum(ended.values()) == num_added and ended["abort"] > 0 and ended["length"] + ended["stop"] > 20
    assert found["generation_tokens_total"] == found["request_generation_tokens"]["sum"] >= delivered
    assert found["prompt_tokens_total"] >= sum(output.usage.prompt_tokens for output in outputs)
    assert found["prefix_cache_hits_total"] <= found["prefix_cache_queries_total"] == found["prompt_tokens_total"]
    for name in ("e2e_request_latency_seconds", "request_prompt_tokens", "request_generation_tokens"):
        assert found[name]["count"] == num_added
    with_tokens = found["time_to_first_token_seconds"]["count"]
    assert found["request_prefill_time_seconds"]["count"] == found["request_decode_time_seconds"]["count"] == with_tokens
    assert with_tokens <= found["request_queue_time_seconds"]["count"] <= num_added
    apart = found["generation_tokens_total"] - with_tokens  # accepted drafts come together with the token before them
    assert apart - found["spec_decode_num_accepted_tokens_total"] <= found["inter_token_latency_seconds"]["count"] <= apart
    assert found["spec_decode_num_accepted_tokens_total"] <= found["spec_decode_num_draft_tokens_total"]
    assert (found["spec_decode_num_draft_tokens_total"] > 0) == (speculative is not None)
    assert found["num_preemptions_total"] > 0 and found["iteration_tokens_total"]["sum"] >= found["generation_tokens_total"] - with_tokens
    assert (found["num_requests_running"], found["num_requests_waiting"], found["kv_cache_usage_perc"]) == (0, 0, 0)
    for name in KNOWN:
        if isinstance(found[name], dict) and "buckets" in found[name]:
            assert found[name]["buckets"]["+Inf"] == found[name]["count"]
    llm.close()
