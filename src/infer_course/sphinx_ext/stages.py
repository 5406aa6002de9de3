"""The path of a request: the map of the course, in one place.

The home page draws it, lessons and cards show where on it they are, and *Learn* lists lessons by it. A written lesson says itself which
stages it is about; `planned` says it for lessons of the content map that nobody has written yet.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stage:
    """`id` as in a lesson's front matter; `short` fits under a dot; `does` is one clause."""

    id: str
    name: str
    short: str
    does: str
    planned: tuple[str, ...]


STAGES: tuple[Stage, ...] = (
    Stage("arrive", "Arrive", "arrive", "HTTP, chat template", ("request-path", "openai-serving", "routing-and-scaling")),
    Stage("tokenize", "Tokenize", "tokenize", "text to token ids", ("tokenizers",)),
    Stage(
        "schedule",
        "Schedule",
        "schedule",
        "who runs in this step",
        ("continuous-batching", "block-manager", "scheduler", "preemption", "prefill-chunking", "prefix-cache"),
    ),
    Stage("prefill", "Prefill", "prefill", "the prompt, at once", ("prefill-and-decode", "prefill-chunking", "flashattention")),
    Stage(
        "attention-kv",
        "Attention & KV",
        "attn + KV",
        "read the past, add one",
        ("attention-variants", "attention-by-hand", "paged-attention", "quantized-kv-cache", "long-context"),
    ),
    Stage(
        "ffn-moe",
        "FFN / MoE",
        "FFN/MoE",
        "most of the weights",
        ("ffn-and-moe", "weight-only-gemm", "quantization-methods", "expert-parallelism"),
    ),
    Stage(
        "decode",
        "Decode",
        "decode",
        "one token per step",
        ("prefill-and-decode", "memory-budget", "cuda-graphs", "speculative-decoding", "disaggregation"),
    ),
    Stage("sample", "Sample", "sample", "logits to the next id", ("logits-to-text", "constrained-decoding", "batch-invariance")),
    Stage("stream", "Stream", "stream", "text, piece by piece", ("logits-to-text", "latency-metrics", "openai-serving")),
)

BY_ID = {stage.id: stage for stage in STAGES}
