"""Runs a StepPlan on the real model: the Executor for devices `cpu` and `cuda` in plain torch."""

from __future__ import annotations

import torch

from infer_lab.core.plan import ScheduledRequest, StepOutput, StepPlan
from infer_lab.models.llama import LlamaModel
from infer_lab.sample.sampler import Sampler, sample
from infer_lab.worker.input_batch import InputBatch, StepInputs
from infer_lab.worker.kv_cache import KVCache


class ModelExecutor:
    """Owns nothing but the rows, and what the sampler knows of them: model and cache are given to it. `execute` is one step; see StepPlan
    for the order of its parts."""

    def __init__(self, model: LlamaModel, cache: KVCache, batch: InputBatch) -> None:
        self.model, self.cache, self.batch = model, cache, batch
        self.sampler = Sampler(model.config.vocab_size, model.embedding.device)

    @torch.inference_mode()
    def execute(self, plan: StepPlan) -> StepOutput:
        for request_id in plan.released:
            self.batch.release(request_id)
            self.sampler.release(request_id)
        self.cache.swap_out(plan.swap_out)
        self.cache.swap_in(plan.swap_in)
        self.cache.copy(plan.copies)
        for admitted in plan.admitted:
            self.batch.admit(admitted)
            self.sampler.admit(admitted)
        if not plan.scheduled:
            return StepOutput(plan.step_id)
        inputs = self.batch.prepare(plan.scheduled)
        hidden = self.model(inputs.token_ids, inputs.positions, self.cache.layers, inputs.attention)
        prompt_logprobs = self.sampler.prompt_logprobs(inputs.scheduled, hidden, self.model.logits)
        if not inputs.sampled:
            return StepOutput(plan.step_id, prompt_logprobs=prompt_logprobs)
        logits = self.model.logits(hidden.index_select(0, inputs.sample_tokens))
        tokens = self._sample(logits, inputs)
        self.sampler.append(tokens)
        return StepOutput(plan.step_id, tokens, self.sampler.logprobs(logits, inputs.sampled, tokens), prompt_logprobs)

    def reset(self) -> None:
        """Forget every row, after a step that failed half way."""
        self.batch.clear()
        self.sampler.clear()

    def _sample(self, logits: torch.Tensor, inputs: StepInputs) -> dict[str, tuple[int, ...]]:
        """Draw a token for each row of logits; where drafts were computed, keep those that equal what would have been drawn."""
        drawn = sample(logits, self.sampler.rows(inputs.sampled)).tolist()
        output: dict[str, tuple[int, ...]] = {}
        at = 0
        for request in inputs.sampled:
            count = request.num_drafts + 1
            tokens = _accepted(request, drawn[at : at + count])
            self.batch.rows[request.request_id].last_token = tokens[-1]
            output[request.request_id] = tokens
            at += count
        return output


def _accepted(request: ScheduledRequest, drawn: list[int]) -> tuple[int, ...]:
    """drawn[i] is the model's own token where draft i stands, so the output is what it would be without drafts; the first differing
    one ends it."""
    drafts = request.token_ids[len(request.token_ids) - request.num_drafts :]
    kept = 0
    while kept < len(drafts) and drafts[kept] == drawn[kept]:
        kept += 1
    return tuple(drawn[: kept + 1])
