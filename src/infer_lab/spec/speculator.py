"""Hands out drafts before each step: who gets how many, and from where. The scheduler then treats them like any tokens.

Why apart from the drafters: how many drafts are fair and worth it is one rule, whoever guesses. Drafts are a bet with what others leave
over: they take no request's token of the step, at most half of what is left while others wait for their prompts, and no block that
a running request may need for its own next token. So a draft never delays or preempts anybody.

n-grams are looked up here. For a draft model PLACEHOLDERs are handed out: the worker, where the model is, puts tokens in their place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from infer_lab.core.plan import PLACEHOLDER
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.spec.adaptive import DraftLength, DraftLengths
from infer_lab.spec.config import SpeculativeConfig
from infer_lab.spec.ngram import NgramIndex


@dataclass(slots=True)
class _Drafting:
    """What is remembered of one request. observed: (drafted, accepted) tokens that `length` has seen."""

    request: Request
    index: NgramIndex | None
    length: DraftLength | None
    observed: tuple[int, int] = (0, 0)


class Speculator:
    """draft_cost: time of one draft, verify_token_cost: of one token more to verify; as shares of the model's own step."""

    def __init__(self, config: SpeculativeConfig, *, draft_cost: float = 0.0, verify_token_cost: float = 0.0) -> None:
        self.config = config
        self._lengths = DraftLengths(config.num_draft_tokens, draft_cost, verify_token_cost) if config.adaptive else None
        self._drafting: dict[str, _Drafting] = {}

    def propose(self, scheduler: Scheduler) -> None:
        """Drafts for every running request that is about to decode."""
        self._forget(scheduler.requests)
        running = scheduler.running
        ready = [request for request in running if _wants_drafts(request)]
        if not ready:
            return
        spare = scheduler.config.max_num_batched_tokens - len(running)
        if scheduler.num_waiting or len(ready) < len(running):
            spare //= 2
        most = min(self.config.num_draft_tokens, spare // len(ready))
        free_blocks = scheduler.kv.pool.num_free - len(running)
        for request in ready:
            count = self._length(request, most)
            own = max(len(request.block_ids), scheduler.kv.blocks_for(request.num_tokens))  # with the block of its next token
            count = min(count, (own + max(free_blocks, 0)) * scheduler.kv.block_size - request.num_tokens)
            drafts = self._draft(request, count) if count > 0 else ()
            if drafts:
                free_blocks -= max(0, scheduler.kv.blocks_for(request.num_tokens + len(drafts)) - own)
                scheduler.propose(request.request_id, drafts)

    def _length(self, request: Request, most: int) -> int:
        state = self._state(request)
        if state.length is None:
            return most
        counts = request.draft_counts
        drafted, accepted = state.observed
        if counts.num_draft_tokens > drafted:
            state.length.observe(counts.num_draft_tokens - drafted, counts.num_accepted_tokens - accepted)
            state.observed = (counts.num_draft_tokens, counts.num_accepted_tokens)
        return min(most, state.length.next())

    def _draft(self, request: Request, count: int) -> tuple[int, ...]:
        index = self._state(request).index
        if index is None:
            return (PLACEHOLDER,) * count
        index.update(request.token_ids)
        return index.draft(request.token_ids, count)

    def _state(self, request: Request) -> _Drafting:
        state = self._drafting.get(request.request_id)
        if state is None or state.request is not request:
            low, high = self.config.ngram_min, self.config.ngram_max
            index = NgramIndex(low, high) if low is not None and high is not None else None
            state = _Drafting(request, index, DraftLength(self._lengths) if self._lengths else None)
            self._drafting[request.request_id] = state
        return state

    def _forget(self, alive: Mapping[str, Request]) -> None:
        for request_id in self._drafting.keys() - alive.keys():
            del self._drafting[request_id]


def _wants_drafts(request: Request) -> bool:
    """It lacks the KV of its newest token alone, and may get two tokens or more."""
    missing = request.num_tokens - request.num_computed_tokens
    return missing == 1 and not request.num_pending_samples and request.max_total_tokens - request.num_tokens > 1
