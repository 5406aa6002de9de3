"""What the sampler remembers of each running request between steps, and the rows of logits that one step asks it about.

Why here and not in the scheduler: penalties need how often each token of the vocabulary stands in a request, on the device, next to
the logits. The history is complete at every admission (prompt and outputs so far come with it), so a prefix hit, a resumed request and a
fork start right; after that it grows by what is sampled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_lab.core.plan import AdmittedRequest
from infer_lab.sampling_params import SamplingParams


class TokenCounts:
    """How often each token stands in a request's output, and whether it stands in prompt or output: a slot for each request with a
    penalty.

    output int32 [slots, vocab_size], known bool [slots, vocab_size]. Grows by doubling, 5 bytes a
    slot and token of the vocabulary; without penalties it takes no memory.
    """

    def __init__(self, vocab_size: int, device: torch.device) -> None:
        self.output = torch.zeros((0, vocab_size), dtype=torch.int32, device=device)
        self.known = torch.zeros((0, vocab_size), dtype=torch.bool, device=device)
        self._free: list[int] = []

    def open(self, prompt: Sequence[int], output: Sequence[int]) -> int:
        if not self._free:
            self._grow()
        slot = self._free.pop()
        self.output[slot] = 0
        self.known[slot] = False
        self.known[slot, torch.tensor(prompt, dtype=torch.int64, device=self.known.device)] = True
        self.add([slot] * len(output), output)
        return slot

    def close(self, slot: int) -> None:
        self._free.append(slot)

    def add(self, slots: Sequence[int], tokens: Sequence[int]) -> None:
        """One more of tokens[i] in slots[i]."""
        if tokens:
            device = self.output.device
            self.add_tokens(torch.tensor(slots, device=device), torch.tensor(tokens, device=device))

    def add_tokens(self, slots: Tensor, tokens: Tensor) -> None:
        """The same where only the device knows them."""
        self.known[slots, tokens] = True
        self.output.index_put_((slots, tokens), torch.ones_like(tokens, dtype=torch.int32), accumulate=True)

    def _grow(self) -> None:
        old = len(self.output)
        more = max(4, old)
        self.output = torch.cat((self.output, self.output.new_zeros((more, self.output.shape[1]))))
        self.known = torch.cat((self.known, self.known.new_zeros((more, self.known.shape[1]))))
        self._free.extend(range(old + more - 1, old - 1, -1))

    @property
    def num_open(self) -> int:
        return len(self.output) - len(self._free)


@dataclass(slots=True, eq=False)
class RowState:
    """One request. num_output: tokens generated and known to the worker. slot: of TokenCounts, -1 without penalties.

    allowed, banned, bias_ids, stops: int64 token ids on the device, None where there are none; bias_values: float32 beside bias_ids.
    prompt: the prompt's tokens, kept for those who want its log-probabilities. is_plain: no option changes its logits.
    """

    params: SamplingParams
    num_output: int
    slot: int
    allowed: Tensor | None
    banned: Tensor | None
    bias_ids: Tensor | None
    bias_values: Tensor | None
    stops: Tensor | None
    prompt: tuple[int, ...]
    is_plain: bool

    @classmethod
    def of(cls, request: AdmittedRequest, counts: TokenCounts) -> RowState:
        params = request.params if isinstance(request.params, SamplingParams) else SamplingParams()
        device = counts.output.device

        def ids(values: Sequence[int] | None) -> Tensor | None:
            return torch.tensor(values, dtype=torch.int64, device=device) if values else None

        prompt, output = request.token_ids[: request.num_prompt_tokens], request.token_ids[request.num_prompt_tokens :]
        stops = sorted(request.stop_token_ids) if len(output) < params.min_tokens else None
        masks = params.allowed_token_ids or params.banned_token_ids or params.logit_bias or stops
        return cls(
            params=params,
            num_output=len(output),
            slot=counts.open(prompt, output) if params.has_penalty else -1,
            allowed=ids(params.allowed_token_ids),
            banned=ids(params.banned_token_ids),
            bias_ids=ids(list(params.logit_bias)),
            bias_values=torch.tensor(list(params.logit_bias.values()), dtype=torch.float32, device=device),
            stops=ids(stops),
            prompt=prompt if params.prompt_logprobs is not None else (),
            is_plain=not (params.has_penalty or masks),
        )


@dataclass(frozen=True, slots=True)
class SampleRows:
    """What is asked about the rows of a logits tensor, one entry a row.

    states: the request behind it; one with d drafts has d + 1 rows in a row. drafts: the tokens that this row takes for granted, after
    those that the request has: they count as output for its penalties and for min_tokens. positions: where the row's token will stand in
    its sequence (its random numbers are drawn by seed and position).
    """

    states: Sequence[RowState]
    drafts: Sequence[tuple[int, ...]]
    positions: Sequence[int]
    counts: TokenCounts

    def select(self, rows: Sequence[int]) -> SampleRows:
        return SampleRows([self.states[i] for i in rows], [self.drafts[i] for i in rows], [self.positions[i] for i in rows], self.counts)
