"""The device's part of a step: what it remembers between steps, the fixed buffers that a step reads, and the step itself.

Remembered by row: the block table and the newest token of each request, so that a step can be launched before the host knows either the
tokens of the one before it or that it has ended. Everything else comes from the host in one copy.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from infer_lab.core.plan import PLACEHOLDER
from infer_lab.kernels.mixed_attention import AttentionBatch
from infer_lab.models.fused import FusedLlama
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.device_sampler import DeviceSampler, SampleBatch
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.row_table import RowTable
from infer_lab.worker.staging import Fields
from infer_lab.worker.step_graphs import StepShape


class DeviceStep:
    """fields: what the host fills; see `pad` for what is left. tokens, logits: what came out, by row of the logits."""

    def __init__(
        self, model: LlamaModel, cache: KVCache, rows: RowTable, sampler: DeviceSampler, *, max_tokens: int, max_model_len: int
    ) -> None:
        device, n = model.embedding.device, rows.padding_row
        width = rows.tables.shape[1]
        self._rows, self._sampler, self._max_model_len = rows, sampler, max_model_len
        self.fused = FusedLlama(model, cache.layers, max_num_seqs=n, max_model_len=max_model_len)
        self.max_new_blocks = n + max_tokens // rows.block_size
        i64, i32 = torch.int64, torch.int32
        self.fields = Fields(
            {
                # by request
                "rows": (i64, [n]), "seq_lens": (i32, [n]), "cu_seqlens": (i32, [n + 1]),
                # by row of the logits
                "sampled": (i64, [n]), "sampled_rows": (i64, [n]), "next_positions": (i64, [n]), "seeds": (i64, [n]),
                "limits": (i32, [n, 2]), "params": (torch.float32, [n, 8]),
                # new blocks: where in the table, and which
                "places": (i64, [self.max_new_blocks]), "blocks": (i32, [self.max_new_blocks]),
                # by token, last and row by row, so that no more of them is sent than there are: id, position, slot, row of its request
                "per_token": (i64, [max_tokens, 4]),
            },
            device,
        )  # fmt: skip
        f = self.fields.on_device
        self._sampling = SampleBatch(f["params"], f["limits"], f["seeds"], f["next_positions"])
        self.table = torch.zeros((n + 1, width), dtype=i32, device=device)  # by row
        self._batch_table = torch.zeros((n, width), dtype=i32, device=device)  # by request of the step
        self._last_tokens = torch.zeros(n + 1, dtype=i64, device=device)  # by row
        self.tokens = torch.zeros(n, dtype=i64, device=device)
        self.logits = torch.empty((n, model.config.vocab_size), dtype=model.embedding.dtype, device=device)

    def pad(self, f: dict[str, np.ndarray], filled: StepShape, shape: StepShape, num_new_blocks: int) -> None:
        """Tokens, requests and rows that nobody asked for: they write into no block, and what they sample goes nowhere."""
        requests = slice(filled.requests, shape.requests)
        f["rows"][requests] = self._rows.padding_row
        f["seq_lens"][requests] = 0
        f["cu_seqlens"][filled.requests + 1 : shape.requests + 1] = filled.tokens
        f["per_token"][filled.tokens : shape.tokens] = (0, 0, -1, self._rows.padding_row)
        sampled = slice(filled.sampled, shape.sampled)
        f["sampled"][sampled] = 0
        f["sampled_rows"][sampled] = self._rows.padding_row
        f["next_positions"][sampled] = 0
        f["seeds"][sampled] = 0
        f["limits"][sampled] = self._rows.limits[self._rows.padding_row]
        f["params"][sampled] = self._rows.params[self._rows.padding_row]
        f["places"][num_new_blocks:] = self._rows.padding_row * self._rows.tables.shape[1]
        f["blocks"][num_new_blocks:] = 0

    def run(self, shape: StepShape) -> Callable[[], Tensor]:
        """On fixed buffers, so that a graph can capture it. The result gives the residual stream after the last layer, [tokens, hidden]."""
        f = self.fields.on_device
        self.learn(f["places"], f["blocks"])
        ids, positions, slots, row_of = f["per_token"][: shape.tokens].t().contiguous()
        table = torch.index_select(self.table, 0, f["rows"][: shape.requests], out=self._batch_table[: shape.requests])
        ids = torch.where(ids == PLACEHOLDER, self._last_tokens[row_of], ids).clamp_(min=0)
        longest = min(shape.tokens, self._max_model_len) if shape.chunks else 1
        attention = AttentionBatch(
            f["cu_seqlens"][: shape.requests + 1], f["seq_lens"][: shape.requests], table, 1, longest, self._max_model_len
        )  # fmt: skip
        residual, added = self.fused.forward(ids, positions, slots, attention)
        if shape.sampled:
            rows = f["sampled"][: shape.sampled]
            chosen = (residual[rows], added[rows]) if shape.chunks else (residual, added)
            self.fused.logits(*chosen, self.logits[: shape.sampled])
            self.draw(shape.sampled, self.logits[: shape.sampled])
        return lambda: residual + added if shape.chunks else residual  # of the rows with logits the sum was taken in place

    def learn(self, places: Tensor, blocks: Tensor) -> None:
        self.table.view(-1).index_copy_(0, places, blocks)

    def draw(self, count: int, logits: Tensor, **filters: bool) -> None:
        """Tokens for the first rows, which are their requests' newest then."""
        self._sampler.draw(logits, self._sampling.first(count), self.tokens[:count], **filters)
        self._last_tokens.index_copy_(0, self.fields.on_device["sampled_rows"][:count], self.tokens[:count])
