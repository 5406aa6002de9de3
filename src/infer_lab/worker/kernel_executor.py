"""Runs a StepPlan with our kernels: the Executor of a CUDA device.

Why `launch` apart from the result: a launched step only stands in the device's queue, so the engine can decide and launch the next one
while this one runs. What the next one must know of it, the sampled tokens and the block tables, stays on the device.

    host                                        device (one stream)
    rows, positions, slots, … ── pinned ring ─► fields ─► [ block table, tokens → model → logits → sampling ] ─► last token of each row
    tokens of the step        ◄── pinned, event ──────────────────────────────────────────────────────────┘

A step that fits a captured shape is padded to it and replayed as a CUDA graph; another one is launched kernel by kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from infer_lab.core.plan import StepOutput, StepPlan, TokenLogprobs
from infer_lab.errors import EngineError
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.device_sampler import DeviceSampler
from infer_lab.worker.device_step import DeviceStep
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.row_table import RowTable
from infer_lab.worker.staging import Event, new_event
from infer_lab.worker.step_graphs import MOST_CHUNK_REQUESTS, Graph, StepGraphs, StepShape, graph_shapes

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
        self._device = model.embedding.device
        self._max_num_seqs, self._max_tokens, self._max_model_len = max_num_seqs, max_num_batched_tokens, max_model_len
        self.rows = RowTable(max_num_seqs, table_width, block_size)
        self.sampler = DeviceSampler(max_num_seqs, model.config.vocab_size, self._device)
        self.step = DeviceStep(
            model, cache, self.rows, self.sampler, max_tokens=max_num_batched_tokens, max_model_len=max_model_len
        )  # fmt: skip
        self._spare: list[tuple[Tensor, Event]] = []  # host memory for sampled tokens
        shapes = graph_shapes(max_num_seqs, max_num_batched_tokens)
        self.graphs = None if make_graph is None else StepGraphs(shapes, self.step.run, make_graph)

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
        with self._current_device():
            return self._launch(plan)

    def _current_device(self) -> AbstractContextManager[object]:
        """Triton launches on the current device, whatever its tensors say."""
        return torch.cuda.device(self._device) if self._device.type == "cuda" else nullcontext()

    def reset(self) -> None:
        """Forget every row, after a step that failed half way."""
        self.rows.clear()
        self.sampler.special.clear()

    def _launch(self, plan: StepPlan) -> Pending:
        names, starts, tokens, samples, _, _, num_drafts = zip(*plan.scheduled, strict=True)
        assert not any(num_drafts), "drafts are verified by the torch executor"
        row_list = [self.rows.index[name] for name in names]
        rows, start, requests = np.array(row_list), np.array(starts), len(names)
        counts = np.fromiter(map(len, tokens), np.int64, requests)
        flat = np.fromiter(chain.from_iterable(tokens), np.int64)
        places, blocks = self.rows.take_blocks(row_list, plan.scheduled)
        if len(places) > self.step.max_new_blocks:  # long tables of cached blocks at once
            self.step.learn(torch.tensor(places, device=self._device), torch.tensor(blocks, dtype=torch.int32, device=self._device))
            places, blocks = [], []
        wanted = np.array(samples)
        if len(flat) == requests:
            # every token is a request and a row of the logits; the longest first: what is left at the end of a kernel is short
            order = np.argsort(-start, kind="stable")
            rows, start, counts, flat, wanted = rows[order], start[order], counts[order], flat[order], wanted[order]
            names = [names[i] for i in order.tolist()]
            filled = shape = StepShape(requests, requests, requests, False)
            logit_rows = np.arange(requests)
        else:
            logit_rows = np.flatnonzero(wanted)
            padded = MOST_CHUNK_REQUESTS if requests <= MOST_CHUNK_REQUESTS < self._max_num_seqs else self._max_num_seqs
            filled = StepShape(len(flat), requests, len(logit_rows), True)
            shape = filled._replace(requests=padded)  # kernels are compiled for two sizes
        wants_prompt = bool(self.rows.wants_prompt[rows].any())
        captured = self.graphs.shape_for(filled) if self.graphs is not None and not wants_prompt else None
        f = self.step.fields.acquire()
        self._fill(f, rows, start, counts, flat, logit_rows)
        f["places"][: len(places)] = places
        f["blocks"][: len(places)] = blocks
        self.step.pad(f, filled, captured or shape, len(places))
        self.step.fields.send((captured or shape).tokens)
        prompt_logprobs: Mapping[str, tuple[TokenLogprobs, ...]] = {}
        if self.graphs is not None and captured is not None:
            self.graphs.replay(captured)
        else:
            hidden = self.step.run(shape)
            if wants_prompt:
                by_name = {request.request_id: request for request in plan.scheduled}
                prompt_logprobs = self.sampler.prompt_logprobs([by_name[name] for name in names], hidden(), self.model.logits)
        sampled = [(place, names[i]) for place, i in enumerate(logit_rows.tolist()) if wanted[i]]
        if not sampled:
            return lambda: StepOutput(plan.step_id, prompt_logprobs=prompt_logprobs)
        return self._finish(plan.step_id, sampled, rows[logit_rows], (start + counts)[logit_rows], prompt_logprobs)

    def _fill(
        self, f: dict[str, np.ndarray], rows: np.ndarray, start: np.ndarray, counts: np.ndarray, flat: np.ndarray, logit_rows: np.ndarray
    ) -> None:
        """Rows, first positions and numbers of tokens of the requests, their tokens in a row, and which of them need logits."""
        requests, total, sampled = len(rows), len(flat), len(logit_rows)
        ends = np.cumsum(counts)
        f["rows"][:requests] = rows
        f["seq_lens"][:requests] = start + counts
        f["cu_seqlens"][0] = 0
        f["cu_seqlens"][1 : requests + 1] = ends
        per_token = f["per_token"][:total]
        row_of = rows if total == requests else np.repeat(rows, counts)
        positions = start if total == requests else np.repeat(start - (ends - counts), counts) + np.arange(total)
        per_token[:, 0] = flat
        per_token[:, 1] = positions
        per_token[:, 2] = self.rows.slots(row_of, positions)
        per_token[:, 3] = row_of
        own = rows[logit_rows]
        f["sampled"][:sampled] = ends[logit_rows] - 1
        f["sampled_rows"][:sampled] = own
        f["next_positions"][:sampled] = (start + counts)[logit_rows]
        f["params"][:sampled] = self.rows.params[own]
        f["limits"][:sampled] = self.rows.limits[own]
        f["seeds"][:sampled] = self.rows.seeds[own]

    def _finish(
        self, step_id: int, sampled: list[tuple[int, str]], rows: np.ndarray, next_positions: np.ndarray, prompt_logprobs: Any
    ) -> Pending:
        """sampled: (row of the logits, request) for those that get a token. rows, next_positions: of all rows of the logits."""
        count, step = len(rows), self.step
        top_k, top_p = bool(self.rows.top_k[rows].any()), bool(self.rows.top_p[rows].any())
        special = {}
        if self.rows.special[rows].any():
            special = {place: name for place, name in sampled if self.rows.special[rows[place]]}
        logits = step.logits[:count]
        if special:
            logits = self.sampler.process(logits, special, {place: int(next_positions[place]) for place in special})
        if special or top_k or top_p:
            step.draw(count, logits, top_k=top_k, top_p=top_p)
        if special:
            self.sampler.note(special, step.tokens)
        logprobs = self.sampler.logprobs_later(step.logits, special) if special else None
        spare = host, event = self._spare.pop() if self._spare else self._new_spare()
        host[:count].copy_(step.tokens[:count], non_blocking=True)
        event.record()

        def result() -> StepOutput:
            event.synchronize()
            tokens = host[:count].tolist()
            self._spare.append(spare)
            if min(tokens[place] for place, _ in sampled) < 0:
                raise EngineError("the model gave no number as the logit of any token that could be drawn (NaN weights or activations)")
            found = {name: (tokens[place],) for place, name in sampled}
            return StepOutput(step_id, found, logprobs(tokens) if logprobs else {}, prompt_logprobs)

        return result

    def _new_spare(self) -> tuple[Tensor, Event]:
        pin = self._device.type == "cuda"
        return torch.zeros(self._max_num_seqs, dtype=torch.int64, pin_memory=pin), new_event(self._device)

    # -- before the first request -----------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def warm_up(self, steps: Callable[[Iterable[Any]], Iterable[Any]] = iter) -> None:
        """Compile every kernel that a step may need, and capture the graphs; no block is written. steps: shows progress."""
        with self._current_device():
            self._warm_up(steps)

    def _warm_up(self, steps: Callable[[Iterable[Any]], Iterable[Any]]) -> None:
        for total in steps(self._warm_up_sizes()):
            self.run_padding(total)
        n = self._max_num_seqs
        f = self._padding(StepShape(n, n, n, False))
        f["limits"][:] = (0, 2)  # draws, from two
        f["params"][:, 1] = 0.9
        self.step.fields.send(n)
        for logits in (self.step.logits, self.step.logits.float()):
            for top_k, top_p in ((False, False), (True, False), (False, True), (True, True)):
                self.step.draw(n, logits, top_k=top_k, top_p=top_p)
        self._padding(StepShape(self._max_tokens, n, n, True))
        self.step.fields.send(self._max_tokens)
        if self.graphs is None:
            self.step.run(StepShape(n, n, n, False))
        else:
            self.graphs.capture(steps)

    def _padding(self, shape: StepShape) -> dict[str, np.ndarray]:
        """Nothing but padding, not sent yet."""
        f = self.step.fields.acquire()
        f["cu_seqlens"][0] = 0
        self.step.pad(f, StepShape(0, 0, 0, shape.chunks), shape, 0)
        return f

    def _warm_up_sizes(self) -> list[int]:
        """Tokens of steps with chunks: kernels differ by the number of tokens, and by whether it is a multiple of 16."""
        sizes = {2, 15, 16, 33, 64, 127, 128, 250, 256, 1000, 1024, 4096, self._max_tokens - 1, self._max_tokens}
        return sorted((size for size in sizes if 2 <= size <= self._max_tokens), reverse=True)

    def run_padding(self, num_tokens: int) -> None:
        """A step of chunks with so many tokens that writes nothing."""
        for most in {min(MOST_CHUNK_REQUESTS, self._max_num_seqs), self._max_num_seqs}:
            chunk = min(num_tokens, self._max_model_len)
            shape = StepShape(min(num_tokens, most * chunk), most, self._max_num_seqs, True)
            f = self._padding(shape)
            f["cu_seqlens"][: most + 1] = np.minimum(np.arange(most + 1) * chunk, shape.tokens)
            f["seq_lens"][:most] = np.diff(f["cu_seqlens"][: most + 1])
            self.step.fields.send(shape.tokens)
            self.step.run(shape)
