"""Sampling where the logits are: the kernels for every row, and before them, for the few that ask for it, what only torch can do.

A request always takes the same way, whoever is in the batch with it, so its tokens do not depend on its batch mates. Nothing here waits for
the device, but for log-probabilities of a prompt, which are rare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_lab.core.plan import AdmittedRequest, ScheduledRequest, TokenLogprobs
from infer_lab.kernels.sampling import SamplingBatch, SamplingWorkspace
from infer_lab.kernels.sampling import sample as sample_rows
from infer_lab.sample.logits import process_logits
from infer_lab.sample.logprobs import token_logprobs
from infer_lab.sample.row_state import SampleRows
from infer_lab.sample.sampler import Sampler


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """The rows of the logits, on the device: params, limits and seeds as in SamplingBatch; positions of the new tokens."""

    params: Tensor
    limits: Tensor
    seeds: Tensor
    positions: Tensor

    def first(self, count: int) -> SampleBatch:
        return SampleBatch(self.params[:count], self.limits[:count], self.seeds[:count], self.positions[:count])


class DeviceSampler:
    """special: the requests that torch looks at too, by id."""

    def __init__(self, max_num_seqs: int, vocab_size: int, device: torch.device) -> None:
        self.special = Sampler(vocab_size, device)
        self._workspace = SamplingWorkspace.allocate(max_num_seqs, vocab_size, device)

    def draw(self, logits: Tensor, batch: SampleBatch, out: Tensor, *, top_k: bool = False, top_p: bool = False) -> None:
        """A token for each row. top_k, top_p: whether any row has such a filter."""
        rows = SamplingBatch(batch.params, batch.limits, batch.seeds, True, top_k, top_p, False)
        sample_rows(logits, rows, batch.positions, out=out, workspace=self._workspace)

    def process(self, logits: Tensor, rows: Mapping[int, str], positions: Mapping[int, int]) -> Tensor:
        """float32 logits after masks, bias and penalties of the special rows (row → request id)."""
        logits = logits.float()
        at = list(rows)
        index = torch.tensor(at, device=logits.device)
        states = [self.special.states[name] for name in rows.values()]
        chosen = SampleRows(states, [()] * len(at), [positions[row] for row in at], self.special.counts)
        own = process_logits(logits[index], chosen)
        for i, state in enumerate(states):
            params = state.params
            if params.min_p > 0 and params.top_p < 1 and not params.is_greedy:
                floor = own[i].amax() + math.log(params.min_p) * params.temperature
                own[i] = own[i].masked_fill(own[i] < floor, float("-inf"))
        return logits.index_copy(0, index, own)

    def note(self, rows: Mapping[int, str], tokens: Tensor) -> None:
        """The special rows got these tokens, which only the device knows yet."""
        counted = []
        for row, name in rows.items():
            state = self.special.states[name]
            state.num_output += 1
            if state.slot >= 0:
                counted.append((state.slot, row))
        if counted:
            slots, at = torch.tensor(counted, device=tokens.device).unbind(1)
            self.special.counts.add_tokens(slots, tokens[at])

    def logprobs_later(self, logits: Tensor, rows: Mapping[int, str]) -> Callable[[Sequence[int]], dict[str, tuple[TokenLogprobs, ...]]]:
        """Keeps the logits of the rows that want log-probabilities; the result tells them once the tokens are known."""
        wanted = {row: k for row, name in rows.items() if (k := self.special.states[name].params.logprobs) is not None}
        if not wanted:
            return lambda tokens: {}
        kept = logits[torch.tensor(list(wanted), device=logits.device)].float()

        def tell(tokens: Sequence[int]) -> dict[str, tuple[TokenLogprobs, ...]]:
            found = token_logprobs(kept, [tokens[row] for row in wanted], list(wanted.values()))
            return {rows[row]: (entry,) for row, entry in zip(wanted, found, strict=True)}

        return tell

    def prompt_logprobs(
        self, scheduled: Sequence[ScheduledRequest], hidden: Tensor, logits_of: Callable[[Tensor], Tensor]
    ) -> dict[str, tuple[TokenLogprobs, ...]]:
        return self.special.prompt_logprobs(scheduled, hidden, logits_of)

    def admit(self, request: AdmittedRequest) -> None:
        self.special.admit(request)

    def release(self, request_id: str) -> None:
        self.special.release(request_id)
