"""From an EngineConfig to a running engine: the one place where names become objects."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine.engine_core import EngineCore
from infer_lab.engine.memory import check_weights_fit, num_kv_blocks
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import UserError
from infer_lab.models.checkpoint import Checkpoint, open_checkpoint
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.model_executor import ModelExecutor


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    """Everything resolved: what was asked for, what it became."""

    core: EngineCore
    checkpoint: Checkpoint
    model: LlamaModel
    cache: KVCache
    device: torch.device
    dtype: torch.dtype
    max_model_len: int


def resolve_device(device: str) -> torch.device:
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    resolved = torch.device(device)
    if resolved.type == "cuda":
        if not torch.cuda.is_available():
            raise UserError("device cuda was asked for, but torch sees no CUDA device; `infer-lab doctor` says why. Use device cpu")
        if (resolved.index or 0) >= torch.cuda.device_count():
            raise UserError(f"device {device} was asked for, but there are {torch.cuda.device_count()} CUDA devices")
    return resolved


def resolve_dtype(dtype: str, device: torch.device) -> torch.dtype:
    if dtype == "auto":
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    return getattr(torch, dtype)


def build_engine(config: EngineConfig) -> BuiltEngine:
    device = resolve_device(config.device)
    dtype = resolve_dtype(config.dtype, device)
    checkpoint = open_checkpoint(config.model)
    shape = checkpoint.config
    max_model_len = config.max_model_len or shape.max_model_len
    if max_model_len > shape.max_model_len:
        raise UserError(f"max_model_len = {max_model_len} is beyond what {shape.name} was trained for ({shape.max_model_len})")
    check_weights_fit(shape, dtype, device)
    model = LlamaModel(
        shape, max_positions=max_model_len, dtype=dtype, device=device, rope_factors=checkpoint.rope_frequency_factors
    ).eval()
    if checkpoint.tensors is None:
        model.randomize(config.seed or 0)
    else:
        model.load(checkpoint)
    blocks = num_kv_blocks(shape, config, max_model_len, dtype, device)
    max_num_seqs = min(config.max_num_seqs, config.max_num_batched_tokens)
    scheduler = Scheduler(
        SchedulerConfig(
            num_blocks=blocks,
            block_size=config.block_size,
            max_num_batched_tokens=config.max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            max_model_len=max_model_len,
            num_host_blocks=config.num_host_kv_blocks,
            enable_prefix_caching=config.enable_prefix_caching,
            preemption=config.preemption,
        )
    )
    cache = KVCache(
        shape,
        num_blocks=blocks,
        block_size=config.block_size,
        dtype=dtype,
        device=device,
        num_host_blocks=config.num_host_kv_blocks,
    )
    batch = InputBatch(max_num_seqs, max_model_len, config.block_size, device, dtype)
    core = EngineCore(scheduler, ModelExecutor(model, cache, batch))
    return BuiltEngine(core, checkpoint, model, cache, device, dtype, max_model_len)
