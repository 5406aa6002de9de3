"""One sequence on its way through the engine, and what is known of it.

Why one class and no phases: a request has tokens, and `num_computed_tokens` says how many of them have KV. Everything that
an engine does with a request (prefill, chunked prefill, a prefix hit, decoding, verifying drafts, resuming after it was
preempted) is that number chasing the number of tokens. (The idea is vLLM V1's.)

    token_ids   [ prompt ............... | outputs ........ ] drafts
    KV          [ computed .................... ]
                0                               num_computed_tokens

Only the scheduler (and the KV manager on its behalf) changes a request; everyone else reads.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from infer_lab.core.block_hash import BlockKey, ExtraKeys
from infer_lab.core.plan import TokenLogprobs
from infer_lab.core.record import DraftCounts, Timeline
from infer_lab.errors import EmptyPromptError, InvalidRequestError


class RequestStatus(Enum):
    """Where a request is. See the state diagram in this folder's README."""

    NEW = "new"  # made by the caller, not given to a scheduler yet
    HELD = "held"  # a sibling that waits for its group's prompt to be computed once
    WAITING = "waiting"  # in the queue, holds no block (never started, or preempted by recompute)
    SWAPPED = "swapped"  # in the queue, its KV lies in host blocks
    RUNNING = "running"
    FINISHED = "finished"


class RequestUpdate(NamedTuple):
    """What one step (or an abort) changed for one request. `finish_reason` is None while it goes on, else "stop" (end or stop
    token), "length" (max_tokens or the model's context is reached), "abort", or what `Scheduler.finish` was given.
    logprobs: one for each new token, if the request asked for them."""

    request_id: str
    new_token_ids: tuple[int, ...]
    finish_reason: str | None = None
    logprobs: tuple[TokenLogprobs, ...] = ()


class Request:
    """One sequence to be continued.

    What is not of the right kind is refused here, at once: in the queue it would break a step, and with it everybody's requests.

    prompt_token_ids: at least one id, all in [0, 2^63).
    max_tokens: how many tokens to generate at most, >= 1. min_tokens: no end or stop token ends it before so many.
    eos_token_ids: the model's end tokens (not looked at with `ignore_eos`); stop_token_ids: the caller's own.
    priority: a whole number of at most 2^31 either way; smaller is more urgent (as in vLLM); used by the "priority" policy only.
    tenant: whose share of the engine this request is charged to.
    cache_keys: tagged (name, value) pairs, besides the tokens, that change the KV or must not be shared: ("adapter", "fr"), ("salt", "…").
    params: the sampling parameters, handed on to the worker unopened.
    skip_reading_prefix_cache: compute the whole prompt, since something is wanted that KV does not hold (the logits of prompt tokens).

    logprobs, prompt_logprobs fill up if the worker sends any: the first has one for each output token, the second one for each prompt
    token but the first.
    """

    __slots__ = (
        "arrival",
        "block_ids",
        "block_keys",
        "cache_keys",
        "draft_counts",
        "draft_token_ids",
        "finish_reason",
        "group_id",
        "has_row",
        "host_block_ids",
        "logprobs",
        "max_tokens",
        "max_total_tokens",
        "min_tokens",
        "num_cached_tokens",
        "num_computed_tokens",
        "num_filed_blocks",
        "num_pending_samples",
        "num_preemptions",
        "num_prompt_tokens",
        "params",
        "priority",
        "prompt_logprobs",
        "request_id",
        "skip_reading_prefix_cache",
        "status",
        "stop_token_ids",
        "tenant",
        "timeline",
        "token_ids",
        "urgency",
    )

    def __init__(
        self,
        request_id: str,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        *,
        min_tokens: int = 0,
        eos_token_ids: Iterable[int] = (),
        stop_token_ids: Iterable[int] = (),
        ignore_eos: bool = False,
        priority: int = 0,
        tenant: str = "",
        cache_keys: ExtraKeys = (),
        params: object = None,
        skip_reading_prefix_cache: bool = False,
    ) -> None:
        def require(ok: bool, message: str) -> None:
            if not ok:
                raise InvalidRequestError(f"request {request_id!r}: {message}")

        require(isinstance(request_id, str), "request_id must be text")
        require(isinstance(tenant, str), f"tenant must be text, got {tenant!r}")
        require(isinstance(max_tokens, int) and max_tokens >= 1, f"max_tokens must be a whole number of at least 1, got {max_tokens!r}")
        ok = isinstance(min_tokens, int) and 0 <= min_tokens <= max_tokens
        require(ok, f"min_tokens must be a whole number of at most max_tokens = {max_tokens}, got {min_tokens!r}")
        require(isinstance(priority, int) and abs(priority) <= 2**31, f"priority must be a whole number within 2^31, got {priority!r}")
        token_ids = _ids(prompt_token_ids)
        require(token_ids is not None, "the prompt must be token ids, whole numbers in [0, 2^63)")
        assert token_ids is not None
        if not token_ids:
            raise EmptyPromptError(f"request {request_id!r}: the prompt holds no token; give at least one")
        require(min(token_ids) >= 0, f"token ids must be >= 0, got {min(token_ids)}")
        stops, ends = _ids(stop_token_ids), _ids(eos_token_ids)
        require(stops is not None and ends is not None, "stop_token_ids and eos_token_ids must be whole numbers below 2^63")
        require(_are_keys(cache_keys), f"cache_keys must be pairs of texts such as (('salt', 'x'),), got {cache_keys!r}")
        self.request_id = request_id
        self.token_ids: list[int] = token_ids
        self.num_prompt_tokens = len(self.token_ids)
        self.max_tokens = max_tokens
        self.min_tokens = min_tokens
        self.max_total_tokens = self.num_prompt_tokens + max_tokens  # the scheduler lowers it to the model's context
        self.stop_token_ids = frozenset(stops or ()) | (frozenset() if ignore_eos else frozenset(ends or ()))
        self.priority = priority
        self.tenant = tenant
        self.cache_keys: ExtraKeys = tuple(cache_keys)
        self.params = params
        self.skip_reading_prefix_cache = skip_reading_prefix_cache

        self.status = RequestStatus.NEW
        self.finish_reason: str | None = None
        self.arrival = -1  # running number given by the scheduler
        self.urgency: tuple[float, int] = (0.0, -1)  # smaller goes first; fixed when the request is added
        self.group_id: str | None = None
        self.timeline = Timeline()
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs] = []

        self.num_computed_tokens = 0  # KV written, or to be written by the plans that have been issued
        self.draft_token_ids: tuple[int, ...] = ()  # guesses after the last token, to be verified in the next step
        self.draft_counts = DraftCounts()
        self.num_pending_samples = 0  # issued plans that will sample for this request and are not applied yet
        self.num_cached_tokens = 0  # tokens of the first admission that were not computed, since their KV was there
        self.num_preemptions = 0
        self.has_row = False  # the worker keeps a row for it

        self.block_ids: list[int] = []  # block_ids[p // block_size] holds position p
        self.host_block_ids: list[int] = []  # the same for a swapped request
        self.block_keys: list[BlockKey] = []  # keys of the full blocks of token_ids, extended as tokens come
        self.num_filed_blocks = 0  # leading blocks that were offered to the prefix cache

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def num_output_tokens(self) -> int:
        return len(self.token_ids) - self.num_prompt_tokens

    @property
    def prompt_token_ids(self) -> list[int]:
        return self.token_ids[: self.num_prompt_tokens]

    @property
    def output_token_ids(self) -> list[int]:
        return self.token_ids[self.num_prompt_tokens :]

    @property
    def is_finished(self) -> bool:
        return self.status is RequestStatus.FINISHED

    def __repr__(self) -> str:
        return (
            f"Request({self.request_id!r}, {self.status.value}, computed {self.num_computed_tokens}/{self.num_tokens}"
            f" (prompt {self.num_prompt_tokens}), blocks {len(self.block_ids)})"
        )


def _ids(values: Iterable[int]) -> list[int] | None:
    """Plain ints out of anything that holds whole numbers (numpy's too); None if it holds something else, or one beyond 64 bits."""
    try:
        return None if isinstance(values, (str, bytes, bytearray)) else array("q", values).tolist()
    except (TypeError, ValueError, OverflowError):
        return None


def _are_keys(cache_keys: ExtraKeys) -> bool:
    try:
        return all(isinstance(name.encode() + value.encode(), bytes) for name, value in cache_keys)
    except (TypeError, ValueError, AttributeError):  # UnicodeEncodeError is a ValueError
        return False
