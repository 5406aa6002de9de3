"""The path of a request: the map of the course, in one place.

The home page draws it, lessons and cards show where on it they are, *Learn* lists lessons by it, and each stage is a set of
questions. A written lesson says itself which stages it is about; `planned` says it for lessons of the content map that nobody has
written yet.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """`id` as in a lesson's front matter; `short` fits under a dot; `does` is one clause, `zh` the whole in Chinese."""

    id: str
    name: str
    short: str
    does: str
    zh: str
    planned: tuple[str, ...]


STAGES: tuple[Stage, ...] = (
    Stage(
        "arrive",
        "Arrive",
        "arrive",
        "HTTP, chat template",
        "到达：HTTP 与 chat template",
        ("request-path", "openai-serving", "routing-and-scaling"),
    ),
    Stage("tokenize", "Tokenize", "tokenize", "text to token ids", "分词：文本变成 token id", ("tokenizers",)),
    Stage(
        "schedule",
        "Schedule",
        "schedule",
        "who runs in this step",
        "调度：这一步谁来跑",
        ("continuous-batching", "block-manager", "scheduler", "preemption", "prefill-chunking", "prefix-cache"),
    ),
    Stage(
        "prefill",
        "Prefill",
        "prefill",
        "the prompt, at once",
        "Prefill：整个 prompt 一次算完",
        ("prefill-and-decode", "prefill-chunking", "flashattention"),
    ),
    Stage(
        "attention-kv",
        "Attention & KV",
        "attn + KV",
        "read the past, add one",
        "注意力与 KV：读历史，添一条",
        ("attention-variants", "attention-by-hand", "paged-attention", "quantized-kv-cache", "long-context"),
    ),
    Stage(
        "ffn-moe",
        "FFN / MoE",
        "FFN/MoE",
        "most of the weights",
        "FFN 与 MoE：权重的大头",
        ("ffn-and-moe", "weight-only-gemm", "quantization-methods", "expert-parallelism"),
    ),
    Stage(
        "decode",
        "Decode",
        "decode",
        "one token per step",
        "Decode：一步一个 token",
        ("prefill-and-decode", "memory-budget", "cuda-graphs", "speculative-decoding", "disaggregation"),
    ),
    Stage(
        "sample",
        "Sample",
        "sample",
        "logits to the next id",
        "采样：从 logits 到下一个 id",
        ("logits-to-text", "constrained-decoding", "batch-invariance"),
    ),
    Stage(
        "stream",
        "Stream",
        "stream",
        "text, piece by piece",
        "流式返回：文本一段一段地出",
        ("logits-to-text", "latency-metrics", "openai-serving"),
    ),
)

BY_ID = {stage.id: stage for stage in STAGES}
