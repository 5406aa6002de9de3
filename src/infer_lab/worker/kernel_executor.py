"""Runs a StepPlan with our kernels: the Executor of a CUDA device.

Why `launch` apart from the result: a launched step only stands in the device's queue, so the engine can decide and launch the next one
while this one runs. What the next one must know of it, the sampled tokens and the block tables, stays on the device.

    host                                        device (one stream)
    rows, positions, slots, … ── pinned ring ─► fields ─► [ block table, tokens → model → logits → sampling ] ─► last token of each row
    tokens of the step        ◄── pinned, event ──────────────────────────────────────────────────────────┘

A step in which every request has one token works on fixed buffers and can be replayed as a CUDA graph; a step with prompt chunks is
launched kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from infer_lab.core.plan import PLACEHOLDER, StepOutput, StepPlan
from infer_lab.errors import EngineError
from infer_lab.kernels.mixed_attention import AttentionBatch
from infer_lab.models.fused import FusedLlama
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.decode_graphs import DecodeGraphs, Graph, bucket_sizes
from infer_lab.worker.device_sampler import DeviceSampler, SampleBatch
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.row_table import RowTable
from infer_lab.worker.staging import Event, Fields, StagingRing, new_event

_FEW_REQUESTS = 16  # batches with chunks are padded to so many requests, or to the most: kernels are compiled for two sizes then

Pending = Callable[[], StepOutput]


class KernelExecutor:
    """table_width: the most blocks that one request can have. make_graph: None launches every step kernel by kernel."""

    def __init__(
        self,
        model: LlamaModel,
        cache: KVCache,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        max_model_len: int,
        table_width: int,
        block_size: int,
        make_graph: Callable[[], Graph] | None = None,
    ) -> None:
        self.model, self.cache = model, cache
        self._device = device = model.embedding.device
        self._max_num_seqs, self._max_tokens, self._max_model_len = max_num_seqs, max_num_batched_tokens, max_model_len
        self.rows = RowTable(max_num_seqs, table_width, block_size)
        self.sampler = DeviceSampler(max_num_seqs, model.config.vocab_size, device)
        self._fused = FusedLlama(model, cache.layers, max_num_seqs=max_num_seqs, max_model_len=max_model_len)
        i64, i32, n = torch.int64, torch.int32, max_num_seqs
        self._fields = Fields(
            {
                "rows": (i64, [n]), "tokens": (i64, [n]), "positions": (i64, [n]), "slots": (i64, [n]), "places": (i64, [n]),
                "next_positions": (i64, [n]), "seeds": (i64, [n]), "blocks": (i32, [n]), "seq_lens": (i32, [n]), "limits": (i32, [n, 2]),
                "params": (torch.float32, [n, 8]),
            },
            device,
        )  # fmt: skip
        f = self._fields.on_device
        self._batch = SampleBatch(f["params"], f["limits"], f["seeds"], f["next_positions"])
        self._chunk_ring = StagingRing(device, 8 * (4 * max_num_batched_tokens + 8 * n))
        self._table = torch.zeros((n + 1, table_width), dtype=i32, device=device)  # by row
        self._batch_table = torch.zeros((n, table_width), dtype=i32, device=device)  # by place in the batch
        self._last_tokens = torch.zeros(n + 1, dtype=i64, device=device)  # by row
        self._tokens = torch.zeros(n, dtype=i64, device=device)
        self._logits = torch.empty((n, model.config.vocab_size), dtype=model.embedding.dtype, device=device)
        self._each_one = torch.arange(n + 1, dtype=i32, device=device)  # cu_seqlens of requests with one token
        self._spare: list[tuple[Tensor, Event]] = []  # host memory for sampled tokens, with its event
        self.graphs = None if make_graph is None else DecodeGraphs(bucket_sizes(n), self._decode, make_graph)

    # -- the seam -------------------------------------------------------------------------------------------------------------

    def execute(self, plan: StepPlan) -> StepOutput:
        return self.launch(plan)()

    @torch.inference_mode()
    def launch(self, plan: StepPlan) -> Pending:
        """Put the step into the device's queue. The result waits for it."""
        for request_id in plan.released:
            self.rows.release(request_id)
            self.sampler.release(request_id)
        self.cache.swap_out(plan.swap_out)
        self.cache.swap_in(plan.swap_in)
        self.cache.copy(plan.copies)
        for admitted in plan.admitted:
            if self.rows.admit(admitted):
                self.sampler.admit(admitted)
        if not plan.scheduled:
            return lambda: StepOutput(plan.step_id)
        names, starts, tokens, samples, _, _, num_drafts = zip(*plan.scheduled, strict=True)
        assert not any(num_drafts), "drafts are verified by the torch executor"
        index = self.rows.index
        row_list = [index[name] for name in names]
        rows, start = np.array(row_list), np.array(starts)
        places, blocks = self.rows.take_blocks(row_list, plan.scheduled)
        counts = np.fromiter(map(len, tokens), np.int64, len(tokens))
        if len(places) <= len(names) == counts.sum() and not self.rows.wants_prompt[rows].any():
            order = np.argsort(-start, kind="stable")  # the longest first: what is left at the end of a kernel is short
            flat = np.array([token[0] for token in tokens])
            self._launch_decode(rows[order], start[order], flat[order], places, blocks)
            order = order.tolist()
            sampled = [(place, names[i]) for place, i in enumerate(order) if samples[i]]
            return self._finish(plan, sampled, rows[order], starts=start[order] + 1)
        return self._launch_chunks(plan, rows, start, counts, tokens, places, blocks)

    def reset(self) -> None:
        """Forget every row, after a step that failed half way."""
        self.rows.clear()
        self.sampler.special.clear()

    # -- every request has one token ----------------------------------------------------------------------------------------

    def _launch_decode(self, rows: np.ndarray, start: np.ndarray, tokens: np.ndarray, places: list[int], blocks: list[int]) -> None:
        count = len(rows)
        size = count if self.graphs is None else self.graphs.size_for(count)
        f = self._fields.acquire()
        self._pad(f, count, size)
        f["tokens"][:count] = tokens
        f["positions"][:count] = start
        f["slots"][:count] = self.rows.slots(rows, start)
        f["seq_lens"][:count] = start + 1
        f["places"][: len(places)] = places
        f["places"][len(places) : size] = self.rows.padding_row * self.rows.tables.shape[1]
        f["blocks"][: len(places)] = blocks
        f["blocks"][len(places) : size] = 0
        self._fill_sampling(f, rows, start + 1)
        self._fields.send()
        if self.graphs is None:
            self._decode(size)
        else:
            self.graphs.replay(size)

    def _pad(self, f: dict[str, np.ndarray], count: int, size: int) -> None:
        """Rows that nobody asked for: they write into no block, and their tokens go nowhere."""
        padding = slice(count, size)
        for name in ("tokens", "positions", "seq_lens", "next_positions", "seeds"):
            f[name][padding] = 0
        f["rows"][padding] = self.rows.padding_row
        f["slots"][padding] = -1
        f["params"][padding] = self.rows.params[self.rows.padding_row]
        f["limits"][padding] = self.rows.limits[self.rows.padding_row]

    def _fill_sampling(self, f: dict[str, np.ndarray], rows: np.ndarray, next_positions: np.ndarray) -> None:
        count = len(rows)
        f["rows"][:count] = rows
        f["next_positions"][:count] = next_positions
        f["params"][:count] = self.rows.params[rows]
        f["limits"][:count] = self.rows.limits[rows]
        f["seeds"][:count] = self.rows.seeds[rows]

    def _decode(self, size: int) -> None:
        """The device's part, on fixed buffers: what a graph captures."""
        f = {name: tensor[:size] for name, tensor in self._fields.on_device.items()}
        self._table.view(-1).index_copy_(0, f["places"], f["blocks"])
        table = torch.index_select(self._table, 0, f["rows"], out=self._batch_table[:size])
        tokens = torch.where(f["tokens"] == PLACEHOLDER, self._last_tokens[f["rows"]], f["tokens"])
        attention = AttentionBatch(self._each_one[: size + 1], f["seq_lens"], table, 1, 1, self._max_model_len)
        residual, added = self._fused.forward(tokens.clamp_(min=0), f["positions"], f["slots"], attention)
        self._fused.logits(residual, added, self._logits[:size])
        self._draw(size, self._logits[:size])

    def _draw(self, size: int, logits: Tensor, **filters: bool) -> None:
        self.sampler.draw(logits, self._batch.first(size), self._tokens[:size], **filters)
        self._last_tokens.index_copy_(0, self._fields.on_device["rows"][:size], self._tokens[:size])

    # -- some have more -----------------------------------------------------------------------------------------------------

    def _launch_chunks(
        self, plan: StepPlan, rows: np.ndarray, start: np.ndarray, counts: np.ndarray, tokens: tuple[tuple[int, ...], ...],
        places: list[int], blocks: list[int],
    ) -> Pending:  # fmt: skip
        ends = np.cumsum(counts)
        total, requests = int(ends[-1]), len(rows)
        most = _FEW_REQUESTS if requests <= _FEW_REQUESTS < self._max_num_seqs else self._max_num_seqs
        flat = np.fromiter(chain.from_iterable(tokens), np.int64, total)
        positions = np.repeat(start - (ends - counts), counts) + np.arange(total)
        row_of = np.repeat(rows, counts)
        unknown = np.flatnonzero(flat == PLACEHOLDER)
        samples = np.array([request.samples for request in plan.scheduled])
        parts = {
            "tokens": flat,
            "positions": positions,
            "slots": self.rows.slots(row_of, positions),
            "cu_seqlens": np.concatenate(([0], ends, np.full(most - requests, total))),
            "seq_lens": np.concatenate((start + counts, np.zeros(most - requests, np.int64))),
            "rows": np.concatenate((rows, np.full(most - requests, self.rows.padding_row))),
            "sampled": ends[samples] - 1,
            "places": places,
            "blocks": blocks,
            "unknown": unknown,
            "unknown_rows": row_of[unknown],
        }
        d = self._send_parts(parts)
        self._table.view(-1).index_copy_(0, d["places"], d["blocks"].int())
        token_ids = d["tokens"].index_copy_(0, d["unknown"], self._last_tokens[d["unknown_rows"]]).clamp_(min=0)
        shortest, longest = int(counts.min()), int(counts.max())
        attention = AttentionBatch(
            d["cu_seqlens"].int(), d["seq_lens"].int(), self._table[d["rows"]], shortest, longest, self._max_model_len
        )  # fmt: skip
        residual, added = self._fused.forward(token_ids, d["positions"], d["slots"], attention)
        prompt_logprobs = {}
        if self.rows.wants_prompt[rows].any():
            prompt_logprobs = self.sampler.prompt_logprobs(plan.scheduled, residual + added, self.model.logits)
        sampled_rows, count = rows[samples], int(samples.sum())
        if count:
            f = self._fields.acquire()
            self._fill_sampling(f, sampled_rows, (start + counts)[samples])
            self._fields.send()
            self._fused.logits(residual[d["sampled"]], added[d["sampled"]], self._logits[:count])
            self._draw(count, self._logits[:count])
        sampled = [(place, request.request_id) for place, request in enumerate(r for r in plan.scheduled if r.samples)]
        return self._finish(plan, sampled, sampled_rows, (start + counts)[samples], prompt_logprobs)

    def _send_parts(self, parts: dict[str, np.ndarray | list[int]]) -> dict[str, Tensor]:
        """Arrays of 64-bit numbers in one copy."""
        lengths = [len(part) for part in parts.values()]
        host = self._chunk_ring.acquire(8 * sum(lengths)).view(np.int64)
        at = 0
        for part, length in zip(parts.values(), lengths, strict=True):
            host[at : at + length] = part
            at += length
        self._chunk_ring.send(8 * at)
        return dict(zip(parts, self._chunk_ring.device[: 8 * at].view(torch.int64).split(lengths), strict=True))

    # -- and the tokens -------------------------------------------------------------------------------------------------------

    def _finish(
        self, plan: StepPlan, sampled: list[tuple[int, str]], rows: np.ndarray, starts: np.ndarray, prompt_logprobs: dict | None = None
    ) -> Pending:
        """sampled: (row of the logits, request) for those that get a token. rows, starts: of all rows of the logits."""
        if not sampled:
            return lambda: StepOutput(plan.step_id, prompt_logprobs=prompt_logprobs or {})
        count = len(rows)
        top_k, top_p = bool(self.rows.top_k[rows].any()), bool(self.rows.top_p[rows].any())
        special = {place: name for place, name in sampled if self.rows.special[rows[place]]} if self.rows.special[rows].any() else {}
        logits = self._logits[:count]
        if special:
            logits = self.sampler.process(logits, special, {place: int(starts[place]) for place in special})
        if special or top_k or top_p:
            self._draw(count, logits, top_k=top_k, top_p=top_p)
        if special:
            self.sampler.note(special, self._tokens)
        logprobs = self.sampler.logprobs_later(self._logits, special) if special else None
        spare = host, event = self._spare.pop() if self._spare else self._new_spare()
        host[:count].copy_(self._tokens[:count], non_blocking=True)
        event.record()

        def result() -> StepOutput:
            event.synchronize()
            tokens = host[:count].tolist()
            self._spare.append(spare)
            if min(tokens[place] for place, _ in sampled) < 0:
                raise EngineError("the model gave no number as the logit of any token that could be drawn (NaN weights or activations)")
            found = {name: (tokens[place],) for place, name in sampled}
            return StepOutput(plan.step_id, found, logprobs(tokens) if logprobs else {}, prompt_logprobs or {})

        return result

    def _new_spare(self) -> tuple[Tensor, Event]:
        pin = self._device.type == "cuda"
        return torch.zeros(self._max_num_seqs, dtype=torch.int64, pin_memory=pin), new_event(self._device)

    # -- before the first request -----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def warm_up(self, steps: Callable[[Iterable[int]], Iterable[int]] = iter) -> None:
        """Compile every kernel that a step may need, and capture the graphs; no block is written. steps: shows progress."""
        for total in steps(self._warm_up_sizes()):
            self.run_padding(total)
        f = self._fields.acquire()
        self._pad(f, 0, self._max_num_seqs)
        f["places"][:] = self.rows.padding_row * self.rows.tables.shape[1]
        f["limits"][:] = (0, 2)  # draws, from two
        f["params"][:, 1] = 0.9
        self._fields.send()
        for logits in (self._logits, self._logits.float()):
            for top_k, top_p in ((False, False), (True, False), (False, True), (True, True)):
                self._draw(self._max_num_seqs, logits, top_k=top_k, top_p=top_p)
        if self.graphs is None:
            self._decode(self._max_num_seqs)
        else:
            self.graphs.capture(steps)

    def _warm_up_sizes(self) -> list[int]:
        """Tokens of steps with chunks: kernels differ by the number of tokens, and by whether it is a multiple of 16."""
        sizes = {2, 15, 16, 33, 64, 127, 128, 250, 256, 1000, 1024, 4096, self._max_tokens - 1, self._max_tokens}
        return sorted((size for size in sizes if 2 <= size <= self._max_tokens), reverse=True)

    def run_padding(self, num_tokens: int) -> None:
        """A step of chunks with so many tokens that writes nothing."""
        rows = torch.arange(self._max_num_seqs, device=self._device)
        for most in {min(_FEW_REQUESTS, self._max_num_seqs), self._max_num_seqs}:
            chunk = min(num_tokens, self._max_model_len)
            total = min(num_tokens, most * chunk)
            cu_seqlens = (torch.arange(most + 1, dtype=torch.int32, device=self._device) * chunk).clamp_(max=total)
            zeros = torch.zeros(total, dtype=torch.int64, device=self._device)
            table = self._table[rows[:most] * 0 + self.rows.padding_row]
            batch = AttentionBatch(cu_seqlens, cu_seqlens.diff(), table, 1, chunk, self._max_model_len)
            residual, added = self._fused.forward(zeros, zeros, zeros - 1, batch)
            self._fused.logits(residual[rows * 0], added[rows * 0], self._logits)
