"""Runs a StepPlan on the real model: the Executor for devices `cpu` and `cuda` in plain torch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from infer_lab.core.plan import ScheduledRequest, StepOutput, StepPlan
from infer_lab.models.llama import LlamaModel
from infer_lab.sample.sampler import Sampler, sample, target_distribution
from infer_lab.spec.draft_model import DraftModel
from infer_lab.spec.rejection import verify
from infer_lab.worker.input_batch import InputBatch, StepInputs
from infer_lab.worker.kv_cache import KVCache


class ModelExecutor:
    """Owns nothing but the rows, and what the sampler knows of them: model and cache are given to it. `execute` is one step; see StepPlan
    for the order of its parts. draft: puts tokens in place of the PLACEHOLDERs among drafts."""

    def __init__(self, model: LlamaModel, cache: KVCache, batch: InputBatch, draft: DraftModel | None = None) -> None:
        self.model, self.cache, self.batch, self.draft = model, cache, batch, draft
        self._caches = [cache] if draft is None or draft.own_cache is None else [cache, draft.own_cache]
        self.sampler = Sampler(model.config.vocab_size, model.embedding.device)

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> StepOutput:
        for request_id in plan.released:
            self.batch.release(request_id)
            self.sampler.release(request_id)
        for cache in self._caches:
            cache.swap_out(plan.swap_out)
            cache.swap_in(plan.swap_in)
            cache.copy(plan.copies)
        for admitted in plan.admitted:
            self.batch.admit(admitted)
            self.sampler.admit(admitted)
        if not plan.scheduled:
            return StepOutput(plan.step_id)
        scheduled, log_q = plan.scheduled, {}
        if self.draft is not None:
            scheduled, log_q = self.draft.fill(plan.scheduled, self.batch, self.sampler)
        inputs = self.batch.prepare(scheduled)
        hidden = self.model(inputs.token_ids, inputs.positions, self.cache.layers, inputs.attention)
        if self.draft is not None:
            self.draft.follow(inputs)
        prompt_logprobs = self.sampler.prompt_logprobs(inputs.scheduled, hidden, self.model.logits)
        if not inputs.sampled:
            return StepOutput(plan.step_id, prompt_logprobs=prompt_logprobs)
        logits = self.model.logits(hidden.index_select(0, inputs.sample_tokens))
        tokens = self._sample(logits, inputs, log_q)
        self.sampler.append(tokens)
        return StepOutput(plan.step_id, tokens, self.sampler.logprobs(logits, inputs.sampled, tokens), prompt_logprobs)

    def reset(self) -> None:
        """Forget every row, after a step that failed half way."""
        self.batch.clear()
        self.sampler.clear()

    def _sample(self, logits: Tensor, inputs: StepInputs, log_q: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
        """The tokens of each request. Drafts that were certain are kept where they equal what the model draws; those drawn from a
        distribution q by the rejection rule."""
        rows = self.sampler.rows(inputs.sampled)
        drawn = sample(logits, rows).tolist()
        output: dict[str, tuple[int, ...]] = {}
        by_rule: list[tuple[ScheduledRequest, int]] = []
        at = 0
        for request in inputs.sampled:
            count = request.num_drafts + 1
            output[request.request_id] = _accepted(request, drawn[at : at + count])
            if request.request_id in log_q:
                by_rule.append((request, at))
            at += count
        if by_rule:
            index = [row for request, first in by_rule for row in range(first, first + request.num_drafts + 1)]
            log_p = target_distribution(logits[torch.tensor(index, device=logits.device)], rows.select(index))
            seeds = [rows.states[first].params.seed for _, first in by_rule]
            verified = verify(
                log_p,
                torch.cat([log_q[request.request_id] for request, _ in by_rule]),
                [request.draft_token_ids for request, _ in by_rule],
                [seed for seed in seeds if seed is not None],
                [rows.positions[first] for _, first in by_rule],
            )
            output |= {request.request_id: tokens for (request, _), tokens in zip(by_rule, verified, strict=True)}
        for request_id, tokens in output.items():
            self.batch.rows[request_id].last_token = tokens[-1]
        return output


def _accepted(request: ScheduledRequest, drawn: list[int]) -> tuple[int, ...]:
    """drawn[i] is the model's own token where draft i stands, so the output is what it would be without drafts; the first differing
    one ends it."""
    drafts = request.token_ids[len(request.token_ids) - request.num_drafts :]
    kept = 0
    while kept < len(drafts) and drafts[kept] == drawn[kept]:
        kept += 1
    return tuple(drawn[: kept + 1])
