"""From an EngineConfig to a running engine: the one place where names become objects."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.config import ModelConfig
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine.engine_core import EngineCore
from infer_lab.engine.memory import check_weights_fit, num_kv_blocks
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import UserError
from infer_lab.models.checkpoint import Checkpoint, open_checkpoint
from infer_lab.models.llama import LlamaModel, check_tensors
from infer_lab.spec.config import SpeculativeConfig
from infer_lab.spec.speculator import Speculator
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.model_executor import ModelExecutor


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, ready for any number of engines. name: what EngineConfig.model said."""

    name: str
    checkpoint: Checkpoint
    model: LlamaModel
    device: torch.device
    dtype: torch.dtype

    @property
    def config(self) -> ModelConfig:
        return self.checkpoint.config


@dataclass(frozen=True, slots=True)
class BuiltEngine:
    core: EngineCore
    cache: KVCache
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


def load_model(config: EngineConfig) -> LoadedModel:
    """Read the checkpoint that the config names (or draw random weights) onto its device."""
    device = resolve_device(config.device)
    if device.type == "cuda":
        # cuDNN's attention builds a plan for every new shape, and a decode step has a new shape every time: tens of milliseconds each
        torch.backends.cuda.enable_cudnn_sdp(False)
    dtype = resolve_dtype(config.dtype, device)
    checkpoint = open_checkpoint(config.model)
    shape = checkpoint.config
    if checkpoint.tensors is not None:
        check_tensors(checkpoint)
    check_weights_fit(shape, dtype, device)
    model = LlamaModel(shape, dtype=dtype, device=device, rope_factors=checkpoint.rope_frequency_factors)
    if checkpoint.tensors is None:
        model.randomize(config.seed or 0)
    else:
        model.load(checkpoint)
    return LoadedModel(config.model, checkpoint, model.eval(), device, dtype)


def build_engine(config: EngineConfig, loaded: LoadedModel) -> BuiltEngine:
    """Cache, scheduler and executor around a loaded model; UserError if the config asks for another device or dtype than it has."""
    shape, device, dtype = loaded.config, loaded.device, loaded.dtype
    wanted = resolve_device(config.device)
    if wanted != device or resolve_dtype(config.dtype, wanted) != dtype:
        raise UserError(f"{loaded.name} is loaded on {device} as {dtype}; load it again for device {config.device}, dtype {config.dtype}")
    max_model_len = _max_model_len(config, shape)
    blocks = num_kv_blocks(shape, config, max_model_len, dtype, device)
    scheduler = Scheduler(config.scheduler_config(blocks, max_model_len, shape.vocab_size))
    cache = KVCache(
        shape,
        num_blocks=blocks,
        block_size=config.block_size,
        dtype=dtype,
        device=device,
        num_host_blocks=config.num_host_kv_blocks,
    )
    table_width = min(-(-max_model_len // config.block_size), blocks)
    batch = InputBatch(scheduler.config.max_num_seqs, table_width, config.block_size, device, dtype)
    speculator = Speculator(config.speculative) if isinstance(config.speculative, SpeculativeConfig) else None
    return BuiltEngine(EngineCore(scheduler, ModelExecutor(loaded.model, cache, batch), speculator), cache, max_model_len)


def _max_model_len(config: EngineConfig, shape: ModelConfig) -> int:
    wanted = config.max_model_len or shape.max_model_len
    if wanted > shape.max_model_len:
        raise UserError(f"max_model_len = {wanted} is beyond what {shape.name} was trained for ({shape.max_model_len})")
    return wanted
