"""A fast engine gives the tokens of a slow one: twice the same, and those of a dense forward pass wherever the margin allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from infer_lab import LLM, SamplingParams
from infer_lab.bench.engine_work import Job, mixed
from infer_lab.models.smollm2_file import smollm2_file
from tests.gpu.dense_reference import DenseReference

SLOW: dict[str, Any] = {"kernels": False, "cuda_graphs": False, "async_scheduling": False, "enable_chunked_prefill": False}
# Deviations of a row of logits. In bf16 each is off by one or two hundredths, so a choice so near to the largest may fall either way.
MARGIN = 0.2


@pytest.fixture(scope="module")
def job() -> Job:
    """The 256 requests, with outputs of a quarter of their length."""
    whole = mixed(151_936)
    return Job(whole.prompts, tuple(n // 4 for n in whole.outputs))


@pytest.fixture(scope="module")
def llm(job: Job) -> Iterator[LLM]:
    with LLM("dummy:qwen3-0.6b", device="cuda", max_num_seqs=256, max_num_batched_tokens=16_384, max_model_len=2048, seed=0) as llm:
        yield llm


def tokens(llm: LLM, job: Job, temperature: float = 0.0) -> list[tuple[int, ...]]:
    llm.engine.scheduler.reset_prefix_cache()
    params = [SamplingParams(temperature=temperature, max_tokens=n, ignore_eos=True, seed=i) for i, n in enumerate(job.outputs)]
    return [output.token_ids for output in llm.generate(job.prompts, params, progress=False)]


def agreed(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """Tokens before the first difference."""
    return next((i for i, (one, other) in enumerate(zip(a, b, strict=True)) if one != other), len(a))


@pytest.fixture(scope="module")
def reference(device: torch.device, llm: LLM) -> DenseReference:
    return DenseReference(llm.model_config, llm.loaded.model.slots())


def shortfall(reference: DenseReference, prompt: tuple[int, ...], output: tuple[int, ...]) -> Tensor:
    """By how much each token's logit is below the largest one of the dense pass, in deviations of the logits there."""
    logits = reference.logits([*prompt, *output[:-1]], len(prompt) - 1)
    chosen = logits.gather(1, torch.tensor(output, device=logits.device)[:, None])[:, 0]
    return (logits.amax(1) - chosen) / logits.std(1)


@pytest.mark.parametrize("temperature", [0.0, 0.6])
def test_256_requests_get_the_same_tokens_twice(llm: LLM, job: Job, temperature: float) -> None:
    first, second = tokens(llm, job, temperature), tokens(llm, job, temperature)
    different = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if a != b]
    assert different == []


def test_256_requests_get_what_a_dense_forward_pass_chooses(llm: LLM, job: Job, reference: DenseReference) -> None:
    found = tokens(llm, job)
    short = torch.cat([shortfall(reference, job.prompts[i], found[i]) for i in range(0, len(found), 8)])
    equal, worst = float((short == 0).float().mean()), float(short.max())
    print(f"\n{equal:.1%} of {len(short)} tokens are the dense pass's own; the others fall short by at most {worst:.3f} deviations")
    assert worst < MARGIN and equal > 0.8


def test_requests_differ_from_the_slow_mode_only_where_the_margin_is_small(llm: LLM, job: Job, reference: DenseReference) -> None:
    """Slow: plain torch, no graphs, no chunks, one step after the other."""
    few = Job(job.prompts[::8], job.outputs[::8])
    fast = tokens(llm, few)
    with LLM(llm.config.model, device="cuda", max_num_seqs=32, max_model_len=2048, max_num_batched_tokens=16_384, seed=0,
             num_kv_blocks=32 * 128 + 1, **SLOW) as slow_llm:  # fmt: skip
        slow = tokens(slow_llm, few)
    places = [agreed(a, b) for a, b in zip(fast, slow, strict=True)]
    whole = sum(place == len(a) for place, a in zip(places, fast, strict=True))
    print(f"\n{whole} of {len(places)} requests equal the slow mode's; the others agree for {sorted(places)[: len(places) - whole]} tokens")
    for prompt, a, b, place in zip(few.prompts, fast, slow, places, strict=True):
        if place < len(a):
            worst = max(float(shortfall(reference, prompt, output[: place + 1])[-1]) for output in (a, b))
            assert worst < MARGIN, f"token {place} is {a[place]} or {b[place]}, {worst:.3f} deviations below the largest"


TEXTS = [
    "The sky is blue because",
    "Two plus two is",
    "Once upon a time there was",
    "A KV cache stores",
    "The capital of France is",
    "def add(",
]


@pytest.fixture(scope="module")
def on_cpu() -> list[tuple[int, ...]]:
    """SmolLM2's own tokens, in float32 on the CPU."""
    smollm2_file()
    return smollm2("cpu", "float32")


def smollm2(device: str, dtype: str) -> list[tuple[int, ...]]:
    with LLM("smollm2", device=device, dtype=dtype, max_num_seqs=8, max_model_len=256) as llm:
        return [output.token_ids for output in llm.generate(TEXTS, SamplingParams(max_tokens=32), progress=False)]


@pytest.mark.model
def test_smollm2_in_float32_gives_the_cpus_tokens(device: torch.device, on_cpu: list[tuple[int, ...]]) -> None:
    assert smollm2("cuda", "float32") == on_cpu


@pytest.mark.model
def test_smollm2_in_bf16_leaves_the_cpus_tokens_only_where_two_are_close(on_cpu: list[tuple[int, ...]]) -> None:
    """How far they agree is reported; that they part is no fault, if float32 itself found the other token nearly as good there."""
    found = smollm2("cuda", "bfloat16")
    same = [agreed(a[: len(b)] + (-1,) * (len(b) - len(a)), b) for a, b in zip(found, on_cpu, strict=True)]
    print(f"\nbf16 on the GPU, float32 on the CPU: equal tokens before the first difference: {same} of {[len(b) for b in on_cpu]}")
    with LLM("smollm2", device="cpu", dtype="float32", max_num_seqs=8, max_model_len=256) as llm:
        tokenizer = llm.tokenizer
        for text, ours, theirs, first in zip(TEXTS, found, on_cpu, same, strict=True):
            if first == len(theirs) or first == len(ours):
                continue
            prompt = [*tokenizer.encode(text), *theirs[:first]]
            (output,) = llm.generate([prompt], SamplingParams(max_tokens=1, logprobs=20), progress=False)
            assert output.logprobs is not None
            at = {token: found.logprob for token, found in output.logprobs[0].items()}
            assert at[theirs[first]] - at.get(ours[first], float("-inf")) < 0.5, f"{text!r}, token {first}: {ours[first]} is far off"
