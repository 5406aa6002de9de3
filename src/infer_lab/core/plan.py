"""The two messages between the scheduler and whatever runs a step, and the seam itself.

Why: if the scheduler only *says* what to run, and the worker only *says* what came out, either side can be replaced:
a CPU, a GPU, a simulator's cost model, later a group of tensor-parallel ranks. Both messages are immutable; only the
scheduler changes a request. (The split follows vLLM V1's SchedulerOutput and ModelRunnerOutput.)

The worker keeps one row per running request: its tokens, its block table and its parameters. `admitted` opens a row,
`released` closes it, and each `ScheduledRequest` extends the row's block table, so a plan's size follows the tokens of
the step and never the length of the contexts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

PLACEHOLDER = -1
"""A token that the worker will know: in a plan issued ahead of the outputs before it, the one that the request's previous step samples;
among drafts, one that the worker's draft model guesses."""


@dataclass(frozen=True, slots=True)
class AdmittedRequest:
    """A request that the worker must open a row for: new, or resumed after it was preempted.

    token_ids: every token known now, i.e. the prompt and, when resumed, the outputs so far.
    params: the sampling parameters as the caller gave them; the core never looks inside.
    stop_token_ids: the tokens that end the request, which are not to be sampled while min_tokens has not been reached.
    """

    request_id: str
    token_ids: tuple[int, ...]
    num_prompt_tokens: int
    params: object = None
    stop_token_ids: frozenset[int] = frozenset()


class ScheduledRequest(NamedTuple):
    """What one request computes in this step.

    The step writes KV for positions [start, start + len(token_ids)) and reads KV of [0, start).
    The last `num_drafts` of `token_ids` are unverified guesses of a drafter: token ids, or each a PLACEHOLDER, which the worker's own
    draft model puts a token in place of.
    `samples` says whether the request gets a new token from this step: true when, after it, KV holds every known token.
    `new_block_ids` go to the row's block table from index `first_new_block` on (0 with a new or resumed request).
    Position p lives in slot block_table[p // block_size] * block_size + p % block_size.
    """

    request_id: str
    start: int
    token_ids: tuple[int, ...]
    samples: bool
    first_new_block: int = 0
    new_block_ids: tuple[int, ...] = ()
    num_drafts: int = 0

    @property
    def num_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def draft_token_ids(self) -> tuple[int, ...]:
        return self.token_ids[len(self.token_ids) - self.num_drafts :]


@dataclass(frozen=True, slots=True)
class BlockCopy:
    """Copy one whole KV block, all layers: from `source` to `destination`."""

    source: int
    destination: int


@dataclass(frozen=True, slots=True)
class StepPlan:
    """One step. The worker carries it out in this order:

    released → swap_out (device → host blocks) → swap_in (host → device) → copies (device → device) → admitted → scheduled.

    The copies of one list are independent of each other: no block is written twice, none is both read and written.
    """

    step_id: int
    scheduled: tuple[ScheduledRequest, ...] = ()
    admitted: tuple[AdmittedRequest, ...] = ()
    released: tuple[str, ...] = ()
    swap_out: tuple[BlockCopy, ...] = ()
    swap_in: tuple[BlockCopy, ...] = ()
    copies: tuple[BlockCopy, ...] = ()

    @property
    def num_tokens(self) -> int:
        return sum(len(s.token_ids) for s in self.scheduled)

    @property
    def is_empty(self) -> bool:
        """Nothing to run and nothing to tell the worker. (Still to be applied, with an empty output.)"""
        return not (self.scheduled or self.admitted or self.released or self.swap_out or self.swap_in or self.copies)


class TokenLogprobs(NamedTuple):
    """How likely one token was to the model, by its logits before any option. The core hands these on unopened.

    logprob: natural logarithm. rank: 1 for the likeliest. top: (token id, logprob) of the k likeliest tokens there, best first.
    """

    token_id: int
    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class StepOutput:
    """What came out: for each scheduled request with `samples`, its new tokens.

    One token normally; with drafts, the accepted ones followed by the model's own next token (1 to num_drafts + 1).
    logprobs: one for each of those tokens, for the requests that asked. prompt_logprobs: of a request that asked, those of the prompt
    tokens at positions start + 1 onwards (a token's are known when the one before it has been computed, so position 0 has none).
    """

    step_id: int
    token_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    logprobs: Mapping[str, tuple[TokenLogprobs, ...]] = field(default_factory=dict)
    prompt_logprobs: Mapping[str, tuple[TokenLogprobs, ...]] = field(default_factory=dict)


class Executor(Protocol):
    """Runs a step. The seam behind which CPU, GPU, simulator and tensor-parallel groups fit."""

    def execute(self, plan: StepPlan) -> StepOutput: ...
