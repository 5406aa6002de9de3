"""The host's side of the rows of a kernel batch: which request has which row, its blocks, and its sampling parameters, as numpy arrays.

Why arrays by row: what a step tells the device is then a few array look-ups for all requests at once, whatever their number.
"""

from __future__ import annotations

import numpy as np

from infer_lab.core.plan import AdmittedRequest, ScheduledRequest
from infer_lab.kernels._common import LOG2_E
from infer_lab.kernels.sampling import GREEDY_BELOW
from infer_lab.sampling_params import SamplingParams


class RowTable:
    """One more row than requests: the last is where padding goes.

    params, limits, seeds: as in `kernels.sampling.SamplingBatch`. top_k, top_p: rows with such a filter. special: rows whose logits need
    more than the kernels do (see needs_torch); wants_prompt: rows that want log-probabilities of their prompt.
    """

    def __init__(self, max_num_seqs: int, table_width: int, block_size: int) -> None:
        self.block_size, self.padding_row = block_size, max_num_seqs
        self.tables = np.zeros((max_num_seqs + 1, table_width), dtype=np.int64)
        self.params = np.zeros((max_num_seqs + 1, 8), dtype=np.float32)
        self.limits = np.zeros((max_num_seqs + 1, 2), dtype=np.int32)
        self.seeds = np.zeros(max_num_seqs + 1, dtype=np.int64)
        self.top_k, self.top_p, self.special, self.wants_prompt = np.zeros((4, max_num_seqs + 1), dtype=np.bool_)
        self.index: dict[str, int] = {}
        self._set(self.padding_row, SamplingParams())
        self.clear()

    def clear(self) -> None:
        self.index.clear()
        self._free = list(range(self.padding_row - 1, -1, -1))

    def admit(self, request: AdmittedRequest) -> bool:
        """Whether its row is special."""
        assert request.request_id not in self.index and self._free, f"no row for {request.request_id!r}"
        row = self.index[request.request_id] = self._free.pop()
        params = request.params if isinstance(request.params, SamplingParams) else SamplingParams()
        self._set(row, params)
        self.special[row] = needs_torch(request, params)
        self.wants_prompt[row] = params.prompt_logprobs is not None
        return bool(self.special[row] or self.wants_prompt[row])

    def release(self, request_id: str) -> None:
        """Nothing happens if there is no such row, as in InputBatch."""
        row = self.index.pop(request_id, None)
        if row is not None:
            self._free.append(row)

    def _set(self, row: int, params: SamplingParams) -> None:
        # of one token alone there is nothing to draw
        greedy = params.temperature < GREEDY_BELOW or params.top_k == 1
        self.params[row] = (LOG2_E if greedy else LOG2_E / params.temperature, params.top_p, params.min_p, 0, 1, 0, 0, 0)
        self.limits[row] = (greedy, max(params.top_k, 0))
        self.seeds[row] = (params.seed or 0) & (2**63 - 1)
        self.top_k[row] = not greedy and params.top_k > 0
        self.top_p[row] = not greedy and params.top_p < 1

    def take_blocks(self, rows: list[int], scheduled: tuple[ScheduledRequest, ...]) -> tuple[list[int], list[int]]:
        """Note the new blocks of these requests. (places in the flat block table, block ids) that the device has to learn."""
        places: list[int] = []
        blocks: list[int] = []
        width = self.tables.shape[1]
        for row, request in zip(rows, scheduled, strict=True):
            new = request.new_block_ids
            if new:
                first = row * width + request.first_new_block
                places += range(first, first + len(new))
                blocks += new
        if places:
            self.tables.reshape(-1)[places] = blocks
        return places, blocks

    def slots(self, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
        return self.tables[rows, positions // self.block_size] * self.block_size + positions % self.block_size


def needs_torch(request: AdmittedRequest, params: SamplingParams) -> bool:
    """Options that change logits before the kernels see them, or that look at them afterwards. (The kernel has penalties of its own, but
    counts tokens elsewhere; its min-p looks at what top-p has left, ours comes first.)"""
    bans_stops = bool(request.stop_token_ids) and len(request.token_ids) - request.num_prompt_tokens < params.min_tokens
    masks = params.allowed_token_ids is not None or params.banned_token_ids or params.logit_bias or bans_stops
    return bool(params.has_penalty or masks or params.logprobs is not None or (params.min_p > 0 and params.top_p < 1))
