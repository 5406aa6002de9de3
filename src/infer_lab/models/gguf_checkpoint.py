"""A GGUF file as a checkpoint: its metadata as a ModelConfig, its tensors under Hugging Face names.

The one trap: files of architecture "llama" hold the rows of Q and K in the order that *interleaved* RoPE wants (pairs 2i, 2i+1);
ours rotates halves (pairs i, i + d/2), as Hugging Face does. So the rows go back in place. Without that the logits correlate 0.63
with the truth and the answer is empty. Qwen files are stored for half-split RoPE already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from infer_lab.config import ModelConfig
from infer_lab.errors import CheckpointError
from infer_lab.kernels.pack import QuantizedWeight
from infer_lab.models.checkpoint import ARCHITECTURES, Checkpoint
from infer_lab.models.dequantize import as_stored, dequantize
from infer_lab.models.gguf_file import GgufFile, GgufTensor
from infer_lab.tokenizer import tokenizer_from_gguf

_TOP = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_ROPE_FACTORS = "rope_freqs.weight"


def half_split_rows(weight: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Row order for half-split RoPE out of the order for interleaved RoPE; weight is [num_heads · head_dim, ...]."""
    rows = weight.shape[0] // num_heads // 2
    return weight.reshape(num_heads, rows, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def hf_name(gguf_name: str) -> str | None:
    """`blk.3.attn_q.weight` → `model.layers.3.self_attn.q_proj.weight`; None for a name that is not known."""
    stem, _, suffix = gguf_name.rpartition(".")
    if stem in _TOP:
        return f"{_TOP[stem]}.{suffix}"
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in _LAYER:
        return f"model.layers.{parts[1]}.{_LAYER[parts[2]]}.{suffix}"
    return None


class _Metadata:
    """Fields of the file under the prefix of its architecture; a missing or ill-typed one is a CheckpointError that names it."""

    def __init__(self, file: GgufFile, architecture: str) -> None:
        self._file, self._architecture = file, architecture

    def number(self, key: str, default: float | None = None) -> Any:
        value = self._file.fields.get(f"{self._architecture}.{key}", default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CheckpointError(f"{self._file.path}: the field {self._architecture}.{key} should be a number and is {value!r}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self.number(key, default)
        if not isinstance(value, int):
            raise CheckpointError(f"{self._file.path}: the field {self._architecture}.{key} should be a whole number and is {value!r}")
        return value


def _config(file: GgufFile) -> ModelConfig:
    architecture = file.fields.get("general.architecture")
    if architecture not in ARCHITECTURES:
        raise CheckpointError(f"{file.path}: architecture {architecture!r} does not run here; these do: {', '.join(ARCHITECTURES)}")
    assert isinstance(architecture, str)
    scaling = file.fields.get(f"{architecture}.rope.scaling.type", "none")
    if scaling != "none":
        raise CheckpointError(f"{file.path}: RoPE scaling {scaling!r} in a GGUF file is not supported")
    if "token_embd.weight" not in file.tensors:
        raise CheckpointError(f"{file.path}: the tensor 'token_embd.weight' is missing; this is not a whole language model")
    field = _Metadata(file, architecture)
    hidden, heads = field.count("embedding_length"), field.count("attention.head_count")
    if heads <= 0 or hidden <= 0:
        raise CheckpointError(f"{file.path}: {heads} heads over a width of {hidden} is impossible; the file is damaged")
    head_dim = field.count("attention.key_length", hidden // heads)
    if field.count("rope.dimension_count", head_dim) != head_dim:
        raise CheckpointError(f"{file.path}: RoPE over a part of the head is not supported")
    return ModelConfig(
        name=str(file.fields.get("general.name", file.path.stem)),
        architecture=architecture,
        num_layers=field.count("block_count"),
        hidden_size=hidden,
        intermediate_size=field.count("feed_forward_length"),
        num_heads=heads,
        num_kv_heads=field.count("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=file.tensors["token_embd.weight"].shape[0],
        max_model_len=field.count("context_length"),
        rope_theta=field.number("rope.freq_base", 10_000.0),
        # stored as float32: 9.999999747e-06 means 1e-05
        rms_norm_eps=float(f"{field.number('attention.layer_norm_rms_epsilon'):.6g}"),
        tie_word_embeddings="output.weight" not in file.tensors,
        qkv_bias="blk.0.attn_q.bias" in file.tensors,
        qk_norm="blk.0.attn_q_norm.weight" in file.tensors,
    )


def _names(file: GgufFile, architecture: str) -> dict[str, GgufTensor]:
    """The file's tensors under their Hugging Face names."""
    names = {}
    for tensor in file.tensors.values():
        if tensor.name != _ROPE_FACTORS:
            name = hf_name(tensor.name)
            if name is None:
                raise CheckpointError(f"{file.path}: the tensor {tensor.name!r} has no place in architecture {architecture}")
            names[name] = tensor
    return names


def _tensors(file: GgufFile, names: dict[str, GgufTensor], config: ModelConfig, device: torch.device) -> Iterator[tuple[str, torch.Tensor]]:
    for name, tensor in names.items():
        yield name, _row_order(name, config)(dequantize(file, tensor, device))


def _row_order(name: str, config: ModelConfig) -> Callable[[torch.Tensor], torch.Tensor]:
    heads = {"q_proj": config.num_heads, "k_proj": config.num_kv_heads}.get(name.split(".")[-2])
    if config.architecture != "llama" or heads is None:
        return lambda rows: rows
    return partial(half_split_rows, num_heads=heads)


def _stored(
    file: GgufFile, names: dict[str, GgufTensor], config: ModelConfig, device: torch.device
) -> Iterator[tuple[str, torch.Tensor | QuantizedWeight]]:
    for name, tensor in names.items():
        weight = as_stored(file, tensor, device) if _is_layer_matrix(name, tensor) else dequantize(file, tensor, device)
        order = _row_order(name, config)
        yield name, order(weight) if isinstance(weight, torch.Tensor) else weight.in_order(order)


def _is_layer_matrix(name: str, tensor: GgufTensor) -> bool:
    return name.startswith("model.layers.") and len(tensor.shape) == 2


def _stored_bits(names: dict[str, GgufTensor]) -> float:
    matrices = [tensor for name, tensor in names.items() if _is_layer_matrix(name, tensor)]
    elements = sum(tensor.shape[0] * tensor.shape[1] for tensor in matrices)
    return 8 * sum(tensor.nbytes for tensor in matrices) / elements if elements else 0.0


def open_gguf(path: Path) -> Checkpoint:
    """Checks the whole header and the extent of every tensor; weights are read when `tensors` is iterated."""
    file = GgufFile(path)
    config = _config(file)
    names = _names(file, config.architecture)
    eos = [file.fields.get(f"tokenizer.ggml.{kind}_token_id") for kind in ("eos", "eot", "eom")]
    factors = ()
    if _ROPE_FACTORS in file.tensors:
        factors = tuple(dequantize(file, file.tensors[_ROPE_FACTORS]).flatten().tolist())
        if len(factors) != config.head_dim // 2:
            raise CheckpointError(f"{path}: {_ROPE_FACTORS} has {len(factors)} entries, RoPE over {config.head_dim} dimensions wants half")
        if not all(0 < factor < float("inf") for factor in factors):
            raise CheckpointError(f"{path}: {_ROPE_FACTORS} divides by zero or worse; the file is damaged")
    return Checkpoint(
        config=config,
        tensors=lambda device: _tensors(file, names, config, device),
        shapes={name: tensor.shape for name, tensor in names.items()},
        stored=lambda device: _stored(file, names, config, device),
        stored_bits=_stored_bits(names),
        tokenizer=tokenizer_from_gguf(file.fields) if "tokenizer.ggml.model" in file.fields else None,
        eos_token_ids=tuple(dict.fromkeys(int(e) for e in eos if isinstance(e, int))),
        rope_frequency_factors=factors,
        files=(path,),
    )
