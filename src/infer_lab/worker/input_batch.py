"""From a StepPlan's scheduled requests to the tensors of one forward pass; keeps one row per request between steps.

Why rows: a plan says only what is new (tokens of this step, blocks added), so its size follows the step and not the contexts. The
block table of each request is kept here. Order of a step: requests with one token first, shortest context first, so that attention
can take neighbours together; then chunks. The order never matters to the scheduler, since results carry request ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from infer_lab.core.plan import PLACEHOLDER, AdmittedRequest, ScheduledRequest
from infer_lab.layers.attention import AttentionBatch, DecodeGroup, PrefillChunk

# Contexts computed together may differ by a factor of two (padding costs reads), but small ones always go together (calls cost more).
_ALWAYS_TOGETHER = 256


@dataclass(slots=True)
class Row:
    """index: row of the block table. last_token: the newest sampled token, for plans issued ahead of it."""

    index: int
    last_token: int


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What one forward pass takes. token_ids, positions [tokens]; sample_tokens [rows that sample]: which tokens' logits are wanted.

    scheduled: every request of the step, in the order of its tokens.
    sampled: the scheduled requests behind sample_tokens, in order; one with drafts owns num_drafts + 1 consecutive entries.
    """

    token_ids: Tensor
    positions: Tensor
    attention: AttentionBatch
    sample_tokens: Tensor
    scheduled: tuple[ScheduledRequest, ...]
    sampled: tuple[ScheduledRequest, ...]


class InputBatch:
    """table_width: the most blocks that one request can have."""

    def __init__(self, max_num_seqs: int, table_width: int, block_size: int, device: torch.device, dtype: torch.dtype) -> None:
        self._block_size = block_size
        self._device, self._dtype = device, dtype
        self._tables = np.zeros((max_num_seqs, table_width), dtype=np.int64)
        self._free = list(range(max_num_seqs - 1, -1, -1))
        self.rows: dict[str, Row] = {}

    def admit(self, request: AdmittedRequest) -> None:
        assert request.request_id not in self.rows and self._free, f"no row for {request.request_id!r}"
        self.rows[request.request_id] = Row(self._free.pop(), request.token_ids[-1])

    def release(self, request_id: str) -> None:
        """Nothing happens if there is no such row: after a failed step the scheduler closes all that may have been opened."""
        row = self.rows.pop(request_id, None)
        if row is not None:
            self._free.append(row.index)

    def clear(self) -> None:
        """Forget every row, also one that an interrupt left half opened."""
        self.rows.clear()
        self._free = list(range(len(self._tables) - 1, -1, -1))

    def prepare(self, scheduled: Sequence[ScheduledRequest]) -> StepInputs:
        for request in scheduled:
            if request.new_block_ids:
                first = request.first_new_block
                self._tables[self.rows[request.request_id].index, first : first + len(request.new_block_ids)] = request.new_block_ids
        decodes = sorted((r for r in scheduled if len(r.token_ids) == 1), key=lambda r: r.start)
        chunks = [r for r in scheduled if len(r.token_ids) > 1]
        ordered = [*decodes, *chunks]
        counts = np.array([len(r.token_ids) for r in ordered])
        starts = np.array([r.start for r in ordered])
        rows = np.array([self.rows[r.request_id].index for r in ordered])
        ends = np.cumsum(counts)
        # position of token t = start of its request + its rank within the request
        positions = np.repeat(starts - (ends - counts), counts) + np.arange(ends[-1])
        slots = self._slots(np.repeat(rows, counts), positions)
        attention = AttentionBatch(
            slot_mapping=self._to_device(slots),
            decodes=tuple(self._decode_groups(rows[: len(decodes)], starts[: len(decodes)] + 1)),
            prefills=tuple(
                self._chunk(row, start, end - count, end)
                for row, start, count, end in zip(rows, starts, counts, ends, strict=True)
                if count > 1
            ),
        )
        sampled = [(r, end) for r, end in zip(ordered, ends.tolist(), strict=True) if r.samples]
        return StepInputs(
            token_ids=self._to_device(np.array([self._token(r, t) for r in ordered for t in r.token_ids])),
            positions=self._to_device(positions),
            attention=attention,
            sample_tokens=self._to_device(np.array([i for r, end in sampled for i in range(end - 1 - r.num_drafts, end)], dtype=np.int64)),
            scheduled=tuple(ordered),
            sampled=tuple(r for r, _ in sampled),
        )

    def _token(self, request: ScheduledRequest, token_id: int) -> int:
        return self.rows[request.request_id].last_token if token_id == PLACEHOLDER else token_id

    def _slots(self, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
        blocks = self._tables[rows, positions // self._block_size]
        return blocks * self._block_size + positions % self._block_size

    def _decode_groups(self, rows: np.ndarray, lengths: np.ndarray) -> list[DecodeGroup]:
        groups = []
        start = 0
        while start < len(rows):
            limit = max(2 * lengths[start], _ALWAYS_TOGETHER)
            end = int(np.searchsorted(lengths, limit, side="right"))
            own = lengths[start:end]
            length = int(own[-1])
            positions = np.minimum(np.arange(length), own[:, None] - 1)
            mask = None
            if own[0] != length:
                hidden = torch.from_numpy(np.arange(length) >= own[:, None])
                mask = torch.zeros(hidden.shape, dtype=self._dtype).masked_fill_(hidden, float("-inf")).to(self._device)[:, None, None, :]
            slots = self._to_device(self._slots(rows[start:end, None], positions).reshape(-1))
            groups.append(DecodeGroup(start, end, length, slots, mask))
            start = end
        return groups

    def _chunk(self, row: int, context: int, start: int, end: int) -> PrefillChunk:
        queries = int(end - start)
        length = int(context) + queries
        slots = self._to_device(self._slots(np.full(length, row), np.arange(length)))
        mask = None
        if context > 0:
            hidden = torch.ones((queries, length), dtype=torch.bool, device=self._device).triu_(diagonal=int(context) + 1)
            mask = torch.zeros(hidden.shape, dtype=self._dtype, device=self._device).masked_fill_(hidden, float("-inf"))
        return PrefillChunk(int(start), int(end), slots, mask)

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)
