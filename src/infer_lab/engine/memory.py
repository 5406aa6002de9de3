"""How much memory there is, and how much of it the KV cache gets."""

from __future__ import annotations

import torch

from infer_lab.config import ModelConfig
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import DoesNotFitError, UserError
from infer_lab.host_memory import available_host_memory
from infer_lab.quant.scheme import Scheme
from infer_lab.worker.kv_cache import bytes_per_block

_GIB = 2**30
_CPU_SHARE, _CPU_LIMIT = 0.25, 4 * _GIB
_CUDA_SHARE = 0.9


def weight_bytes(config: ModelConfig, dtype: torch.dtype) -> int:
    """Bytes of the matrices (norms and biases are dust)."""
    q, kv = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
    layer = config.hidden_size * (2 * q + 2 * kv + 3 * config.intermediate_size)
    embeddings = config.vocab_size * config.hidden_size * (1 if config.tie_word_embeddings else 2)
    return (config.num_layers * layer + embeddings) * dtype.itemsize


def check_weights_fit(
    config: ModelConfig, dtype: torch.dtype, device: torch.device, scheme: Scheme | None = None, stored_bits: float = 0.0
) -> None:
    """Refuse a model that cannot fit before the machine starts to swap or the driver gives up."""
    need = weight_bytes(config, dtype) if scheme is None else scheme.weight_bytes(config, dtype.itemsize, stored_bits)
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else available_host_memory()
    if free is not None and need > free:
        raise DoesNotFitError(
            f"{config.name} needs {need / _GIB:.1f} GiB for its weights in {scheme or str(dtype).removeprefix('torch.')},"
            f" but {device} has {free / _GIB:.1f} GiB free; take a smaller model or dtype, or quantization such as w4a16"
        )


def _activation_bytes(config: ModelConfig, engine: EngineConfig, dtype: torch.dtype) -> int:
    """Upper estimate of what a step needs beside weights and cache: the widest layer, and the sampler's full-vocabulary buffers."""
    widest = 4 * config.hidden_size + 3 * config.intermediate_size + 4 * config.num_heads * config.head_dim
    return engine.max_num_batched_tokens * widest * dtype.itemsize + engine.max_num_seqs * config.vocab_size * 64 + _GIB


def num_kv_blocks(
    config: ModelConfig,
    engine: EngineConfig,
    max_model_len: int,
    dtype: torch.dtype,
    kv_dtype: torch.dtype,
    device: torch.device,
    draft: ModelConfig | None = None,
    step_bytes: int | None = None,
) -> int:
    """Blocks of the KV cache, the null block included; DoesNotFitError if they, or those in host memory, cannot be had. Called after
    the weights are loaded. draft: a model whose cache has as many blocks, beside. step_bytes: what a step needs beside weights and
    cache, if it was measured."""
    block = sum(bytes_per_block(shape, engine.block_size, kv_dtype) for shape in (config, draft) if shape is not None)
    blocks = engine.num_kv_blocks or _blocks_of_memory(block, config, engine, max_model_len, dtype, device, step_bytes)
    on_host = {"swapped requests": engine.num_host_kv_blocks}
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch keeps it, and would use it for the cache
        _check_cache_fits({"KV cache": blocks}, block, str(device), torch.cuda.mem_get_info(device)[0] + unused)
    else:
        on_host = {"KV cache": blocks} | on_host
    _check_cache_fits(on_host, block, "the host", available_host_memory())
    return blocks


def _check_cache_fits(blocks: dict[str, int], block_bytes: int, where: str, free: int | None) -> None:
    need = sum(blocks.values()) * block_bytes
    if free is not None and need > free:
        counts = ", ".join(f"{name} of {count} blocks" for name, count in blocks.items() if count)
        raise DoesNotFitError(
            f"{counts}: {need / _GIB:.1f} GiB with {block_bytes} bytes a block, but {where} has {free / _GIB:.1f} GiB free; ask for fewer"
            " (num_kv_blocks, kv_cache_memory, num_host_kv_blocks)"
        )


def _blocks_of_memory(
    block: int,
    config: ModelConfig,
    engine: EngineConfig,
    max_model_len: int,
    dtype: torch.dtype,
    device: torch.device,
    step_bytes: int | None,
) -> int:
    useful = engine.max_num_seqs * -(-max_model_len // engine.block_size) + 1
    if engine.kv_cache_memory is not None:
        budget = engine.kv_cache_memory
    elif device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        budget = free - (1 - _CUDA_SHARE) * total - (step_bytes or _activation_bytes(config, engine, dtype))
        if step_bytes is None:
            budget /= 1 + 4 / config.num_layers  # torch gathers one layer's keys and values of a step, padded at most twofold
    else:
        budget = min(_CPU_SHARE * (available_host_memory() or 4 * _GIB), _CPU_LIMIT)
    blocks = min(int(budget // block), useful)
    if blocks < 2:
        raise UserError(
            f"the KV cache would get {max(budget, 0) / _GIB:.2f} GiB, less than two blocks of {block} bytes ({engine.block_size} tokens);"
            " free some memory, or set kv_cache_memory"
        )
    return blocks
