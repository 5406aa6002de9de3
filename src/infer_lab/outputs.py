"""What a finished request gives back, and what a streaming one gives on the way. Times are seconds."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """queue_s: arrival to first admission. ttft_s: arrival to first token. tpot_s: mean time per token after the first (None with
    one token).

    e2e_s: arrival to finish. itl_s: the gaps between successive tokens, one fewer than the tokens.
    """

    queue_s: float
    ttft_s: float
    tpot_s: float | None
    e2e_s: float
    itl_s: tuple[float, ...]
    num_preemptions: int


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """token_ids: everything generated, the end token included. text: the same decoded, special tokens left out ("" without a tokenizer).

    finish_reason: "stop" (the model's end token or one of stop_token_ids), "length" (max_tokens or the context is full), "abort".
    num_cached_tokens: prompt tokens whose KV came from the prefix cache.
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    text: str
    finish_reason: str
    num_cached_tokens: int
    metrics: RequestMetrics

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the fields of `metrics` (without the list of gaps) stand beside the others."""
        data = asdict(self)
        metrics = data.pop("metrics")
        metrics.pop("itl_s")
        return data | {"num_prompt_tokens": len(self.prompt_token_ids), "num_tokens": len(self.token_ids)} | metrics


@dataclass(frozen=True, slots=True)
class StreamUpdate:
    """New text and tokens since the last update (text may be "" while a character is incomplete); output comes with the last one."""

    text: str
    token_ids: tuple[int, ...]
    output: RequestOutput | None = None
