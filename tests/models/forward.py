"""Logits of every position out of our engine's own parts, in chunks of any size."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from infer_lab.core.plan import AdmittedRequest, ScheduledRequest
from infer_lab.engine.build import LoadedModel
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache

BLOCK = 16


@torch.inference_mode()
def all_logits(
    loaded: LoadedModel, token_ids: Sequence[int], chunk: int | None = None, kv_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """[len(token_ids), vocab_size], float32, computed `chunk` tokens at a time over blocks that lie in reverse order."""
    total, chunk = len(token_ids), chunk or len(token_ids)
    blocks = -(-total // BLOCK)
    cache = KVCache(loaded.config, num_blocks=blocks, block_size=BLOCK, dtype=kv_dtype or loaded.dtype, device=loaded.device)
    for memory in (cache.device, cache.scales):
        if memory is not None and memory.is_floating_point():
            memory.fill_(float("nan"))
    batch = InputBatch(1, blocks, BLOCK, loaded.device, loaded.dtype)
    batch.admit(AdmittedRequest("r", tuple(token_ids), total))
    rows = []
    for start in range(0, total, chunk):
        table = tuple(reversed(range(blocks))) if start == 0 else ()
        inputs = batch.prepare([ScheduledRequest("r", start, tuple(token_ids[start : start + chunk]), True, 0, table)])
        rows.append(loaded.model.logits(loaded.model(inputs.token_ids, inputs.positions, cache.layers, inputs.attention)))
    return torch.cat(rows).cpu()
