"""What a finished request gives back, and what a streaming one gives on the way. Shaped like vLLM's; times are seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from infer_lab.core.record import DraftCounts


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """queue_s: arrival to first admission. ttft_s: arrival to first token. tpot_s: mean time per token after the first (None with
    one token).

    e2e_s: arrival to finish. itl_s: the gaps between successive tokens, one fewer than the tokens.
    drafts: what became of this sequence's drafts; None if it had none.
    """

    queue_s: float
    ttft_s: float
    tpot_s: float | None
    e2e_s: float
    itl_s: tuple[float, ...]
    num_preemptions: int
    drafts: DraftCounts | None = None


class Logprob(NamedTuple):
    """How likely a token was to the model, by its logits before any option. rank: 1 for the likeliest. decoded_token: its text alone."""

    logprob: float
    rank: int
    decoded_token: str = ""


Logprobs = Mapping[int, Logprob]
"""At one place: the token that stands there, and the k likeliest, by token id."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request is charged for. prompt_tokens count once for all n sequences; cached_tokens are those of them whose KV was there."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


@dataclass(frozen=True, slots=True)
class CompletionOutput:
    """One sequence. token_ids: everything generated, the end token included.

    text: the same decoded, without special tokens, stop tokens and what stands from a stop string on ("" without a tokenizer).
    finish_reason: "stop" (the model's end token, a stop token, a stop string), "length" (max_tokens, or the context is full), "abort",
    "error" (a step failed). stop_reason: the stop string, or the id of the caller's stop token; None for the model's own end.
    logprobs: one for each token, where they were asked for; cumulative_logprob: the sum over the tokens.
    """

    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: str
    metrics: RequestMetrics
    stop_reason: str | int | None = None
    logprobs: tuple[Logprobs, ...] | None = None

    @property
    def cumulative_logprob(self) -> float | None:
        if self.logprobs is None:
            return None
        return sum(at[token].logprob for at, token in zip(self.logprobs, self.token_ids, strict=True))


@dataclass(frozen=True, slots=True)
class RequestOutput:
    """outputs: the n sequences, in order. What one of them has (text, token_ids, finish_reason …) can be read here as well: the first's.

    num_cached_tokens: prompt tokens whose KV came from the prefix cache. prompt_logprobs: one for each prompt token, None for the first.
    error: why there is no answer, if there is none (`generate(…, return_errors=True)`).
    """

    request_id: str
    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[CompletionOutput, ...]
    num_cached_tokens: int = 0
    prompt_logprobs: tuple[Logprobs | None, ...] | None = None
    error: str | None = None

    @property
    def text(self) -> str:
        return self.outputs[0].text

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.outputs[0].token_ids

    @property
    def finish_reason(self) -> str:
        return self.outputs[0].finish_reason

    @property
    def stop_reason(self) -> str | int | None:
        return self.outputs[0].stop_reason

    @property
    def logprobs(self) -> tuple[Logprobs, ...] | None:
        return self.outputs[0].logprobs

    @property
    def metrics(self) -> RequestMetrics:
        return self.outputs[0].metrics

    @property
    def usage(self) -> Usage:
        generated = sum(len(output.token_ids) for output in self.outputs)
        return Usage(len(self.prompt_token_ids), generated, self.num_cached_tokens)

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON: the first sequence's fields stand beside the request's, and all sequences in `outputs` when n > 1."""
        usage = asdict(self.usage) | {"total_tokens": self.usage.total_tokens}
        data = {"request_id": self.request_id, "prompt": self.prompt, "prompt_token_ids": list(self.prompt_token_ids)}
        data |= _completion_dict(self.outputs[0])
        data |= {"num_prompt_tokens": len(self.prompt_token_ids), "num_cached_tokens": self.num_cached_tokens, "usage": usage}
        if self.prompt_logprobs is not None:
            data["prompt_logprobs"] = [None if at is None else _logprobs_dict(at) for at in self.prompt_logprobs]
        if len(self.outputs) > 1:
            data["outputs"] = [{"index": output.index} | _completion_dict(output) for output in self.outputs]
        return data | ({} if self.error is None else {"error": self.error})


def _completion_dict(output: CompletionOutput) -> dict[str, Any]:
    """The fields of `metrics` (without the list of gaps) stand beside the others."""
    metrics = asdict(output.metrics)
    del metrics["itl_s"]
    data = {"text": output.text, "token_ids": list(output.token_ids), "num_tokens": len(output.token_ids)}
    data |= {"finish_reason": output.finish_reason, "stop_reason": output.stop_reason} | metrics
    if output.logprobs is not None:
        data["logprobs"] = [_logprobs_dict(at) for at in output.logprobs]
        data["cumulative_logprob"] = output.cumulative_logprob
    return data


def _logprobs_dict(at: Logprobs) -> dict[str, Any]:
    return {str(token): logprob._asdict() for token, logprob in at.items()}


@dataclass(frozen=True, slots=True)
class StreamUpdate:
    """New text and tokens of one sequence since its last update; text may be "" while a character is incomplete or a stop string may come.

    index: which of the n sequences. finish_reason: set in a sequence's last update. output comes with the last update of all.
    """

    text: str
    token_ids: tuple[int, ...]
    output: RequestOutput | None = None
    index: int = 0
    finish_reason: str | None = None
    logprobs: tuple[Logprobs, ...] = ()
