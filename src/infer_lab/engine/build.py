"""From an EngineConfig to a running engine: the one place where names become objects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from infer_lab.config import ModelConfig
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine.device_executor import make_executor, step_bytes, uses_kernels, warm_up
from infer_lab.engine.engine_core import EngineCore
from infer_lab.engine.memory import check_weights_fit, num_kv_blocks, weight_bytes
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import UserError
from infer_lab.models.checkpoint import Checkpoint, open_checkpoint
from infer_lab.models.llama import LlamaModel, check_tensors
from infer_lab.quant.load import load_quantized, require_fp8, require_stored
from infer_lab.quant.scheme import Scheme
from infer_lab.spec.config import SpeculativeConfig
from infer_lab.spec.draft_model import DraftModel
from infer_lab.spec.speculator import Speculator
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache
from infer_lab.worker.model_executor import ModelExecutor

# by device: SmolLM2 in float32, one thread: a step of 1 + 4 tokens takes 2.5 times as long as one of 1, of 1 + 8 three times
_VERIFY_TOKEN_COST = {"cpu": 0.3, "cuda": 0.0}


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model in memory, ready for any number of engines. name: what EngineConfig.model said."""

    name: str
    checkpoint: Checkpoint
    model: LlamaModel
    device: torch.device
    dtype: torch.dtype
    scheme: Scheme | None = None

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


def resolve_kv_dtype(kv_dtype: str, dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """UserError for a cache that the device's kernels cannot read. A CPU reads any."""
    if kv_dtype == "auto":
        return dtype
    if kv_dtype == "bf16":
        if device.type == "cuda" and dtype != torch.bfloat16:
            raise UserError(f"kv_dtype bf16 beside dtype {str(dtype).removeprefix('torch.')} runs on a CPU only; take auto, fp8 or int8")
        return torch.bfloat16
    if kv_dtype == "fp8" and device.type == "cuda":
        require_fp8(device)
    return torch.float8_e4m3fn if kv_dtype == "fp8" else torch.int8


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
    scheme = config.scheme
    if scheme is not None:
        require_stored(scheme, checkpoint)
    check_weights_fit(shape, dtype, device, scheme, checkpoint.stored_bits)
    if scheme is not None:
        seed, use_cache = config.seed or 0, config.quantization_cache
        model = load_quantized(checkpoint, scheme, dtype=dtype, device=device, seed=seed, use_cache=use_cache)
        return LoadedModel(config.model, checkpoint, model.eval(), device, dtype, scheme)
    model = LlamaModel(shape, dtype=dtype, device=device, rope_factors=checkpoint.rope_frequency_factors)
    if checkpoint.tensors is None:
        model.randomize(config.seed or 0)
    else:
        model.load(checkpoint)
    return LoadedModel(config.model, checkpoint, model.eval(), device, dtype)


@dataclass(frozen=True, slots=True)
class Drafting:
    """What an engine needs to speculate; nothing, with config None. drafter: another model that guesses, if it is one."""

    config: SpeculativeConfig | None
    target: LoadedModel
    drafter: LoadedModel | None = None

    @classmethod
    def load(cls, config: EngineConfig, target: LoadedModel) -> Drafting:
        speculative = config.speculative if isinstance(config.speculative, SpeculativeConfig) else None
        if speculative is None or speculative.draft_model is None:
            if speculative is not None and (speculative.draft_layers or 0) >= target.config.num_layers:
                raise UserError(
                    f"draft_layers = {speculative.draft_layers}, but {target.config.name} has {target.config.num_layers} layers;"
                    " drafts come from fewer"
                )
            return cls(speculative, target)
        drafter = load_model(replace(config, model=speculative.draft_model, device=str(target.device), speculative=None))
        ours, theirs = target.config, drafter.config
        if ours.vocab_size != theirs.vocab_size:
            raise UserError(
                f"{theirs.name} cannot draft for {ours.name}: its vocabulary has {theirs.vocab_size} tokens, the model's {ours.vocab_size};"
                " take one of the same family"
            )
        return cls(speculative, target, drafter)

    @property
    def own_shape(self) -> ModelConfig | None:
        """Of the model that needs a KV cache of its own."""
        return self.drafter and self.drafter.config

    def draft_model(self, cache: KVCache, **sizes: int) -> DraftModel | None:
        """sizes: of the model's cache, which a drafter's own has too."""
        if self.config is None or self.config.method == "ngram":
            return None
        exact = self.config.acceptance == "exact"
        if self.drafter is None:
            return DraftModel(self.target.model, cache.layers[: self.config.draft_layers], exact=exact)
        own = KVCache(self.drafter.config, dtype=cache.device.dtype, device=self.drafter.device, **sizes)
        return DraftModel(self.drafter.model, own.layers, own_cache=own, exact=exact)

    def speculator(self) -> Speculator | None:
        if self.config is None:
            return None
        target, shape = self.target.config, self.own_shape
        if self.config.draft_layers is not None:
            shape = target.with_(num_layers=self.config.draft_layers)
        # a draft waits for the weights that it reads, like a step
        dtype = self.target.dtype
        draft_cost = weight_bytes(shape, dtype) / weight_bytes(target, dtype) if shape is not None else 0.0
        verify_token_cost = self.config.verify_token_cost
        if verify_token_cost is None:
            verify_token_cost = _VERIFY_TOKEN_COST[self.target.device.type]
        return Speculator(self.config, draft_cost=draft_cost, verify_token_cost=verify_token_cost)


def build_engine(config: EngineConfig, loaded: LoadedModel) -> BuiltEngine:
    """Cache, scheduler and executor around a loaded model; UserError if the config asks for another device or dtype than it has."""
    shape, device, dtype = loaded.config, loaded.device, loaded.dtype
    wanted = resolve_device(config.device)
    if wanted != device or resolve_dtype(config.dtype, wanted) != dtype:
        raise UserError(f"{loaded.name} is loaded on {device} as {dtype}; load it again for device {config.device}, dtype {config.dtype}")
    if config.scheme != loaded.scheme:
        raise UserError(f"{loaded.name} is loaded as {loaded.scheme or dtype}; load it again for quantization = {config.scheme}")
    max_model_len = _max_model_len(config, shape)
    drafting = Drafting.load(config, loaded)
    kv_dtype = resolve_kv_dtype(config.kv_dtype, dtype, device)
    kernels = uses_kernels(config, loaded.model, device)
    measured = None
    if kernels and config.num_kv_blocks is None and config.kv_cache_memory is None:
        measured = step_bytes(config, shape, loaded.model, kv_dtype, max_model_len)
    blocks = num_kv_blocks(shape, config, max_model_len, dtype, kv_dtype, device, drafting.own_shape, measured)
    limits = config.scheduler_config(blocks, max_model_len, shape.vocab_size, async_scheduling=config.runs_ahead(device.type))
    scheduler = Scheduler(limits)
    sizes = {"num_blocks": blocks, "block_size": config.block_size, "num_host_blocks": config.num_host_kv_blocks}
    cache = KVCache(shape, dtype=kv_dtype, device=device, **sizes)
    table_width = min(-(-max_model_len // config.block_size), blocks)
    if kernels:
        executor = make_executor(config, loaded.model, cache, limits.max_num_seqs, max_model_len, table_width)
        warm_up(executor, shape.name)
    else:
        batch = InputBatch(limits.max_num_seqs, table_width, config.block_size, device, dtype)
        executor = ModelExecutor(loaded.model, cache, batch, drafting.draft_model(cache, **sizes))
    return BuiltEngine(EngineCore(scheduler, executor, drafting.speculator()), cache, max_model_len)


def _max_model_len(config: EngineConfig, shape: ModelConfig) -> int:
    wanted = config.max_model_len or shape.max_model_len
    if wanted > shape.max_model_len:
        raise UserError(f"max_model_len = {wanted} is beyond what {shape.name} was trained for ({shape.max_model_len})")
    return wanted
