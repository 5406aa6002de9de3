"""Sampling on the default model's 49,152 tokens: options beside transformers' own processors, log-probabilities beside its own logits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from oracle import smollm2_oracle
from transformers.generation.logits_process import (
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from infer_lab import LLM, SamplingParams
from infer_lab.core.plan import AdmittedRequest, ScheduledRequest
from infer_lab.engine.admission import make_request
from infer_lab.models.smollm2_file import smollm2_file
from infer_lab.sample.sampler import Sampler, sample, target_distribution

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def prompt(reference: dict[str, dict[str, Any]]) -> list[int]:
    return reference["long-300"]["prompt"][:120]


@pytest.fixture(scope="module")
def logits(prompt: list[int]) -> torch.Tensor:
    """transformers' own, [tokens, vocab]."""
    with torch.inference_mode():
        return smollm2_oracle(smollm2_file())(torch.tensor([prompt])).logits[0]


CASES: dict[str, tuple[dict[str, float], list[LogitsProcessor]]] = {
    "temperature": ({}, []),
    "top_k 50": ({"top_k": 50}, [TopKLogitsWarper(50)]),
    "top_k 2000": ({"top_k": 2000}, [TopKLogitsWarper(2000)]),
    "top_p 0.9": ({"top_p": 0.9}, [TopPLogitsWarper(0.9)]),
    "top_p 0.99": ({"top_p": 0.99}, [TopPLogitsWarper(0.99)]),
    "min_p": ({"min_p": 0.02}, [MinPLogitsWarper(0.02)]),
    "all filters": ({"min_p": 0.001, "top_k": 90, "top_p": 0.8}, [MinPLogitsWarper(0.001), TopKLogitsWarper(90), TopPLogitsWarper(0.8)]),
}


@pytest.mark.parametrize("temperature", [0.7, 1.5])
@pytest.mark.parametrize("repetition_penalty", [1.0, 1.3])
@pytest.mark.parametrize("name", CASES)
def test_options_leave_the_distribution_that_transformers_leaves(
    prompt: list[int], logits: torch.Tensor, name: str, repetition_penalty: float, temperature: float
) -> None:
    options, warpers = CASES[name]
    params = SamplingParams(temperature=temperature, repetition_penalty=repetition_penalty, seed=1, **options)  # type: ignore[arg-type]
    sampler = Sampler(logits.shape[-1], logits.device)
    # half of it as output: the repetition penalty makes no difference between them and the prompt
    sampler.admit(AdmittedRequest("r", tuple(prompt), 60, params))
    rows = sampler.rows([ScheduledRequest("r", len(prompt) - 1, (prompt[-1],), True)])
    found = target_distribution(logits[-1:], rows)
    processors = LogitsProcessorList([RepetitionPenaltyLogitsProcessor(repetition_penalty), TemperatureLogitsWarper(temperature), *warpers])
    expected = processors(torch.tensor([prompt]), logits[-1:].clone()).log_softmax(-1)  # type: ignore[arg-type]
    # transformers adds small probabilities up from the other end, and keeps what equals the k-th
    assert int((found > float("-inf")).sum()) == pytest.approx(int((expected > float("-inf")).sum()), rel=1e-3)
    assert float((found.exp() - expected.exp()).abs().sum()) < 5e-4
    assert float(found[0, int(sample(logits[-1:], rows))]) > float("-inf")


def test_log_probabilities_of_the_prompt_are_those_of_transformers_in_chunks_and_after_a_hit(
    smollm2: LLM, prompt: list[int], logits: torch.Tensor
) -> None:
    expected = logits.log_softmax(-1)
    llm = LLM("smollm2", loaded=smollm2.loaded, device="cpu", dtype="float32", max_num_batched_tokens=47, kv_cache_memory=2**27)
    params = SamplingParams(max_tokens=1, prompt_logprobs=3, logprobs=3)
    llm.generate([prompt], SamplingParams(max_tokens=1))
    request = make_request("r", prompt, params, vocab_size=49152)
    llm.engine.scheduler.add(request)
    while not request.is_finished:
        llm.engine.step()
    entries = [*request.prompt_logprobs, *request.logprobs]
    tokens = [*prompt[1:], *request.output_token_ids]
    assert [entry.token_id for entry in entries] == tokens
    for row, entry in zip(expected, entries, strict=True):
        assert entry.logprob == pytest.approx(float(row[entry.token_id]), abs=5e-3)
        assert [logprob for _, logprob in entry.top] == pytest.approx(row.topk(3).values.tolist(), abs=5e-3)
        assert entry.rank == pytest.approx(1 + int((row > row[entry.token_id]).sum()), rel=0.05, abs=2)
    llm.close()
