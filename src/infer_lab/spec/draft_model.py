"""A model that guesses: cheaper than the one it guesses for, run a few tokens ahead before each verifying step.

Two kinds, one loop:

- **The first layers of the model itself**, with its own final norm and head ("self-draft", early exit). Keys and values of layer i depend
  on layers up to i alone, so what the model wrote there for earlier tokens is what the draft needs: it *shares* the model's cache and
  block tables. No memory, no prompt to compute, and prefix hits, forks, swaps and preemption need no thought. What the draft writes (the
  newest token, and its own guesses) goes into slots that the same step's verification writes again, with the same values.
- **Another model** with the same vocabulary has a cache of its own with *the same block ids*: a block that the scheduler gives a request is
  that request's in both caches, is filed, forked, swapped and evicted in both. After each step it follows: it computes the step's tokens,
  so that its cache holds what the model's does.

Whatever it guesses, a guess is only a bet: nothing here can make an output wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infer_lab.core.plan import PLACEHOLDER, ScheduledRequest
from infer_lab.layers.kv_layer import KVLayer
from infer_lab.models.llama import LlamaModel
from infer_lab.sample.row_state import SampleRows
from infer_lab.sample.sampler import Sampler, draw, sample, target_distribution
from infer_lab.spec.rejection import DRAFT_STREAM
from infer_lab.worker.input_batch import InputBatch, StepInputs
from infer_lab.worker.kv_cache import KVCache


class DraftModel:
    """caches: of the layers that it runs; fewer than the model has: its first ones. own_cache: whose layers they are, if not the verifying
    model's. exact: draw with the numbers that the verifying model will draw with (see SpeculativeConfig.acceptance)."""

    def __init__(self, model: LlamaModel, caches: list[KVLayer], *, own_cache: KVCache | None = None, exact: bool = False) -> None:
        self.model, self.caches, self.own_cache, self.exact = model, caches, own_cache, exact

    def fill(
        self, scheduled: Sequence[ScheduledRequest], batch: InputBatch, sampler: Sampler
    ) -> tuple[tuple[ScheduledRequest, ...], dict[str, Tensor]]:
        """The requests with tokens in place of PLACEHOLDER drafts, and log q float32 [drafts, vocab] for those whose drafts were drawn from
        a distribution. (Others' were certain: greedy, or drawn with the verifying model's own numbers.)"""
        drafting = [request for request in scheduled if request.num_drafts and request.token_ids[-1] == PLACEHOLDER]
        drafts: dict[str, tuple[int, ...]] = {request.request_id: () for request in drafting}
        log_q: dict[str, list[Tensor]] = {}
        for ahead in range(max((request.num_drafts for request in drafting), default=0)):
            inputs = batch.prepare([_one_token(r, ahead, drafts[r.request_id]) for r in drafting if r.num_drafts > ahead])
            hidden = self.model(inputs.token_ids, inputs.positions, self.caches, inputs.attention)
            logits = self.model.logits(hidden.index_select(0, inputs.sample_tokens))
            names = [request.request_id for request in inputs.sampled]
            states = [sampler.states[name] for name in names]
            positions = [request.start + 1 for request in inputs.sampled]
            rows = SampleRows(states, [drafts[name] for name in names], positions, sampler.counts)
            tokens = sample(logits, rows)
            random = [] if self.exact else [i for i, state in enumerate(states) if not state.params.is_greedy]
            if random:
                index = torch.tensor(random, device=logits.device)
                log_probs = target_distribution(logits[index], rows.select(random))
                tokens[random] = _draw(log_probs, rows.select(random)).cpu()
                for i, row in zip(random, log_probs, strict=True):
                    log_q.setdefault(names[i], []).append(row)
            for name, token in zip(names, tokens.tolist(), strict=True):
                drafts[name] += (token,)
        filled = tuple(_with_drafts(request, drafts.get(request.request_id, ())) for request in scheduled)
        return filled, {name: torch.stack(rows) for name, rows in log_q.items()}

    def follow(self, inputs: StepInputs) -> None:
        """After the verifying model computed a step: keys and values of the same tokens, if they are not in the same cache."""
        if self.own_cache is not None:
            self.model(inputs.token_ids, inputs.positions, self.caches, inputs.attention)


def _one_token(request: ScheduledRequest, ahead: int, drafts: tuple[int, ...]) -> ScheduledRequest:
    """The request's newest token (ahead = 0), or its newest draft, as a step of its own. Its new blocks come with the first."""
    if ahead:
        return ScheduledRequest(request.request_id, request.start + ahead, drafts[-1:], True)
    assert len(request.token_ids) - request.num_drafts == 1, "drafts follow a request's newest token"
    return request._replace(token_ids=request.token_ids[:1], num_drafts=0)


def _with_drafts(request: ScheduledRequest, drafts: tuple[int, ...]) -> ScheduledRequest:
    return request._replace(token_ids=(*request.token_ids[: -len(drafts)], *drafts)) if drafts else request


def _draw(log_probs: Tensor, rows: SampleRows) -> Tensor:
    device = log_probs.device
    seeds = torch.tensor([state.params.seed for state in rows.states], device=device)
    return draw(log_probs, seeds, torch.tensor(list(rows.positions), device=device), stream=DRAFT_STREAM)
