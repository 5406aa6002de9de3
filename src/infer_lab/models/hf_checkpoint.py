"""A local Hugging Face folder as a checkpoint: config.json, *.safetensors (one or sharded), tokenizer.json, chat template.

Every setting of config.json that would change the arithmetic and is not carried out here is refused by name: a model that runs with an
ignored setting gives plausible wrong answers, the worst kind.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from infer_lab.config import ModelConfig
from infer_lab.errors import CheckpointError
from infer_lab.models.checkpoint import ARCHITECTURES, Checkpoint
from infer_lab.tokenizer import tokenizer_from_folder

_FLOATS = ("F32", "BF16", "F16", "F64")  # integers and 8-bit floats would need scales
_LLAMA3_ROPE = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: should hold a JSON object")
    return value


def _rope(raw: dict[str, Any], path: Path) -> tuple[float, tuple[tuple[str, float], ...]]:
    """(theta, scaling); both spellings: `rope_theta` + `rope_scaling`, and `rope_parameters` of newer files."""
    parameters = raw.get("rope_parameters") or {**(raw.get("rope_scaling") or {}), "rope_theta": raw.get("rope_theta", 10_000.0)}
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    theta = float(parameters.get("rope_theta", 10_000.0))
    if parameters.get("partial_rotary_factor", 1.0) != 1.0:
        raise CheckpointError(f"{path}: RoPE over a part of the head is not supported")
    if kind == "default":
        return theta, ()
    if kind != "llama3":
        raise CheckpointError(f"{path}: RoPE scaling {kind!r} is not supported; supported: default, llama3")
    scaling = {name: float(parameters[name]) for name in _LLAMA3_ROPE}
    if not (min(scaling.values()) > 0 and scaling["high_freq_factor"] > scaling["low_freq_factor"]):
        raise CheckpointError(f"{path}: RoPE scaling llama3 cannot have {scaling}")
    return theta, tuple(scaling.items())


def _refuse_unsupported(raw: dict[str, Any], path: Path) -> None:
    wanted = {
        "hidden_act": ("silu",),
        "mlp_bias": (False, None),
        "partial_rotary_factor": (1.0, None),
        "use_sliding_window": (False, None),
        "quantization_config": (None,),
    }
    if raw["model_type"] != "qwen2":
        wanted["attention_bias"] = (False, None)
    for key, allowed in wanted.items():
        if key in raw and raw[key] not in allowed:
            raise CheckpointError(f"{path}: {key} = {raw[key]!r} is not supported; supported: {allowed[0]!r}")


def _config(folder: Path) -> ModelConfig:
    path = folder / "config.json"
    if not path.exists():
        raise CheckpointError(f"{folder}: there is no config.json; a Hugging Face folder has one beside its *.safetensors")
    raw = _read_json(path)
    architecture = raw.get("model_type")
    if architecture not in ARCHITECTURES:
        raise CheckpointError(f"{path}: model_type {architecture!r} does not run here; these do: {', '.join(ARCHITECTURES)}")
    _refuse_unsupported(raw, path)
    try:
        theta, scaling = _rope(raw, path)
        heads = int(raw["num_attention_heads"])
        return ModelConfig(
            name=folder.resolve().name,
            architecture=architecture,
            num_layers=int(raw["num_hidden_layers"]),
            hidden_size=int(raw["hidden_size"]),
            intermediate_size=int(raw["intermediate_size"]),
            num_heads=heads,
            num_kv_heads=int(raw.get("num_key_value_heads") or heads),
            head_dim=int(raw.get("head_dim") or raw["hidden_size"] // heads),
            vocab_size=int(raw["vocab_size"]),
            max_model_len=int(raw["max_position_embeddings"]),
            rope_theta=theta,
            rms_norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
            tie_word_embeddings=bool(raw.get("tie_word_embeddings", False)),
            qkv_bias=architecture == "qwen2",
            qk_norm=architecture == "qwen3",
            rope_scaling=scaling,
        )
    except CheckpointError:
        raise
    except KeyError as error:
        raise CheckpointError(f"{path}: the entry {error.args[0]!r} is missing") from error
    except (TypeError, ValueError, ArithmeticError, AttributeError) as error:
        raise CheckpointError(f"{path}: {error}") from error


def _shards(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = _read_json(index).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise CheckpointError(f"{index}: weight_map should say the file of each tensor; fetch the folder again")
        shards = [folder / name for name in sorted(set(names.values()))]
    elif (folder / "model.safetensors").exists():  # beside it some folders keep the same weights in another layout
        shards = [folder / "model.safetensors"]
    else:
        shards = sorted(folder.glob("*.safetensors"))
    missing = [shard.name for shard in shards if not shard.exists()]
    if missing:
        raise CheckpointError(f"{folder}: the index names {', '.join(missing)}, missing here; fetch the folder again")
    if not shards:
        raise CheckpointError(f"{folder}: there are no *.safetensors files (pickled *.bin checkpoints are not read)")
    return shards


def _shapes(shards: list[Path]) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for shard in shards:
        with _opened(shard, "cpu") as file:
            for name in file.keys():  # noqa: SIM118 (not a mapping)
                tensor = file.get_slice(name)
                if name in shapes:
                    raise CheckpointError(f"{shard}: the tensor {name!r} is in another file of the folder too; which one counts?")
                if tensor.get_dtype() not in _FLOATS:
                    raise CheckpointError(f"{shard}: {name} is stored as {tensor.get_dtype()}; readable: {', '.join(_FLOATS)}")
                shapes[name] = tuple(tensor.get_shape())
    return shapes


def _tensors(shards: list[Path], device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    for shard in shards:
        with _opened(shard, str(device)) as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name)


@contextmanager
def _opened(shard: Path, device: str) -> Iterator[Any]:
    try:
        with safe_open(shard, framework="pt", device=device) as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{shard}: cannot be read: {error}. It is truncated or damaged; fetch it again") from error


def _eos(folder: Path) -> tuple[int, ...]:
    """End tokens: generation_config.json knows best (chat models have several), config.json otherwise."""
    for name in ("generation_config.json", "config.json"):
        path = folder / name
        value = _read_json(path).get("eos_token_id") if path.exists() else None
        if value is not None:
            ids = value if isinstance(value, list) else [value]
            if not all(isinstance(token, int) and not isinstance(token, bool) for token in ids):
                raise CheckpointError(f"{path}: eos_token_id should be a token id or a list of them, and is {value!r}")
            return tuple(ids)
    return ()


def open_folder(folder: Path) -> Checkpoint:
    config = _config(folder)
    shards = _shards(folder)
    return Checkpoint(
        config=config,
        tensors=lambda device: _tensors(shards, device),
        shapes=_shapes(shards),
        tokenizer=tokenizer_from_folder(folder),
        eos_token_ids=_eos(folder),
        files=tuple(shards),
    )
