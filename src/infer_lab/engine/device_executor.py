"""The kernel executor of an engine: whether there is one, what memory it needs, and what it does before the first request."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any

import torch
from rich.console import Console
from rich.progress import track

from infer_lab.config import ModelConfig
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import UserError
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.step_graphs import CudaGraph, graph_shapes


def uses_kernels(config: EngineConfig, model: LlamaModel, device: torch.device) -> bool:
    """On a GPU that the kernels support, unless drafts are verified (that is the torch executor's work)."""
    if device.type != "cuda" or not config.kernels or config.speculative is not None:
        return False
    from infer_lab.models.fused import MAX_TOKENS, is_supported

    if not is_supported(model, device):
        return False
    if config.max_num_batched_tokens > MAX_TOKENS:
        raise UserError(f"the kernels take at most {MAX_TOKENS} tokens a step; lower max_num_batched_tokens, or set kernels=False")
    return True


def make_executor(config: EngineConfig, model: LlamaModel, cache: KVCache, max_num_seqs: int, max_model_len: int, table_width: int) -> Any:
    """Not warmed up yet. (Triton is imported here, and only here, since a machine without a GPU need not have it.)"""
    from infer_lab.worker.kernel_executor import KernelExecutor

    make_graph = None
    if config.cuda_graphs and cache.device.device.type == "cuda":
        pool = torch.cuda.graph_pool_handle()
        make_graph = lambda: CudaGraph(pool)  # noqa: E731
    return KernelExecutor(
        model,
        cache,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=max_model_len,
        table_width=table_width,
        block_size=config.block_size,
        make_graph=make_graph,
    )


def warm_up(executor: Any, name: str) -> None:
    """Compile and capture, with a bar where somebody watches."""
    watched = sys.stderr is not None and sys.stderr.isatty()

    def steps(sizes: Iterable[int]) -> Iterable[int]:
        return track(list(sizes), f"Warming up {name}", console=Console(stderr=True), transient=True, disable=not watched)

    # what is alive now stays: looking through it for garbage takes longer than many steps, and every capture does so
    gc.collect()
    gc.freeze()
    executor.warm_up(steps)
    torch.cuda.synchronize()
    gc.freeze()


def give_back() -> None:
    """After an engine's last use: its memory, also where objects refer to each other."""
    gc.unfreeze()
    gc.collect()
    torch.cuda.empty_cache()


def step_bytes(config: EngineConfig, shape: ModelConfig, model: LlamaModel, kv_dtype: torch.dtype, max_model_len: int) -> int:
    """Measured: what the largest step takes beside weights and cache, buffers included, and graphs beside it."""
    device = model.embedding.device
    cache = KVCache(shape, num_blocks=2, block_size=config.block_size, dtype=kv_dtype, device=device)
    width = -(-max_model_len // config.block_size)
    before = torch.cuda.memory_allocated(device)
    max_num_seqs = min(config.max_num_seqs, config.max_num_batched_tokens)
    executor = make_executor(config, model, cache, max_num_seqs, max_model_len, width)
    fixed = torch.cuda.memory_allocated(device) - before
    torch.cuda.reset_peak_memory_stats(device)
    with torch.inference_mode():
        executor.run_padding(config.max_num_batched_tokens)
    torch.cuda.synchronize(device)
    transient = torch.cuda.max_memory_allocated(device) - before - fixed
    del executor, cache
    torch.cuda.empty_cache()
    # graphs keep the scratch of a decode step for themselves; the rest is room for float32 logits of requests with penalties and such
    largest = max(found.tokens for found in graph_shapes(max_num_seqs, config.max_num_batched_tokens))
    of_graphs = transient * largest // config.max_num_batched_tokens
    return fixed + transient + of_graphs + 3 * 4 * max_num_seqs * shape.vocab_size
