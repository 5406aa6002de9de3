"""What the engine benchmarks run, and the shortest time in which any engine could: plain numbers, no torch.

The 256-request workload is the one that small engines publish (nano-vLLM's `bench.py`): seed 0, prompt and output lengths uniform in
100 to 1024, prompts of random token ids up to 10,000, temperature 0.6, end tokens ignored; 133,966 output tokens.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from infer_lab.calculator import decode_flops, decode_weight_bytes, parameters, prefill_flops
from infer_lab.config import ModelConfig
from infer_lab.errors import UserError


@dataclass(frozen=True, slots=True)
class Job:
    """Requests that arrive together: a prompt, and how many tokens follow it."""

    prompts: tuple[tuple[int, ...], ...]
    outputs: tuple[int, ...]
    temperature: float = 0.0

    @property
    def num_output_tokens(self) -> int:
        return sum(self.outputs)

    @property
    def num_prompt_tokens(self) -> int:
        return sum(map(len, self.prompts))

    @property
    def longest(self) -> int:
        return max(len(prompt) + output for prompt, output in zip(self.prompts, self.outputs, strict=True))


def mixed(vocab_size: int, requests: int = 256, shortest: int = 100, longest: int = 1024) -> Job:
    """The 256-request workload, or a smaller one of its kind. The draws are made in the order of the original."""
    draw = random.Random(0)
    prompts = []
    for _ in range(requests):
        length = draw.randint(shortest, longest)
        prompts.append(tuple(draw.randint(0, min(10_000, vocab_size - 1)) for _ in range(length)))
    return Job(tuple(prompts), tuple(draw.randint(shortest, longest) for _ in range(requests)), temperature=0.6)


def uniform(vocab_size: int, batch: int, prompt: int, output: int, seed: int = 0) -> Job:
    """`batch` requests of one size, greedy, no two prompts alike."""
    draw = random.Random(seed)
    prompts = tuple(tuple(draw.randrange(vocab_size) for _ in range(prompt)) for _ in range(batch))
    return Job(prompts, (output,) * batch)


@dataclass(frozen=True, slots=True)
class Case:
    """A point of the latency table: so many requests decode together, each `output` tokens after a prompt of so many."""

    batch: int
    prompt: int
    output: int

    @classmethod
    def parse(cls, text: str, output: int) -> Case:
        """ "32x2048", or "32x2048x128" with an output of its own; UserError for anything else."""
        words = text.lower().split("x")
        if len(words) not in (2, 3) or not all(word.isdecimal() and int(word) for word in words):
            raise UserError(f"a case is <batch>x<prompt tokens>, such as 32x2048, or <batch>x<prompt>x<output>; got {text!r}")
        return cls(int(words[0]), int(words[1]), int(words[2]) if len(words) == 3 else output)

    @property
    def name(self) -> str:
        return f"b{self.batch}-p{self.prompt}"


@dataclass(frozen=True, slots=True)
class Work:
    """The fewest bytes and operations that something needs."""

    nbytes: float
    flops: float

    def __add__(self, other: Work) -> Work:
        return Work(self.nbytes + other.nbytes, self.flops + other.flops)


@dataclass(frozen=True, slots=True)
class Floor:
    """What the machine must do at least. bandwidth (B/s), peak (FLOP/s): measured limits. weights: bytes that a step reads of them.
    kv: bytes that a token has in the cache."""

    model: ModelConfig
    bandwidth: float
    peak: float
    weights: float
    kv: float

    @classmethod
    def of(cls, model: ModelConfig, itemsize: int, kv: float, bandwidth: float, peak: float, packed: float | None, doubled: bool) -> Floor:
        """packed: bytes of the whole model if its weights are quantized. doubled: activations have 8 bits, and units twice the peak."""
        weights = float(decode_weight_bytes(model, itemsize).base)
        if packed is not None:
            weights -= float(parameters(model).base) * itemsize - packed
        return cls(model, bandwidth, peak * (2 if doubled else 1), weights, kv)

    def decode(self, contexts: Sequence[int]) -> Work:
        """One step that reads so many cached tokens for each of its requests."""
        flops = sum(float(decode_flops(self.model, 1, context).base) for context in contexts)
        return Work(self.weights + sum(contexts) * self.kv, flops)

    def prefill(self, tokens: int) -> Work:
        """One prompt."""
        return Work(self.weights + tokens * self.kv, float(prefill_flops(self.model, tokens).base))

    def decode_all(self, job: Job) -> Work:
        """All that decoding reads, with every request in the batch from the first step on: the weights as often as the longest output has
        tokens, and each cached token whenever its request attends to it. (Its operations are dust beside that.)"""
        reads = sum(len(prompt) * n + n * (n - 1) // 2 for prompt, n in zip(job.prompts, job.outputs, strict=True))
        return Work(self.weights * max(job.outputs) + self.kv * reads, 0.0)

    def prefill_all(self, job: Job) -> Work:
        """What the prompts compute; their bytes are shared by as many as fit a step."""
        return Work(0.0, sum(float(prefill_flops(self.model, len(prompt)).base) for prompt in job.prompts))

    def seconds(self, work: Work) -> float:
        return max(work.nbytes / self.bandwidth, work.flops / self.peak)
