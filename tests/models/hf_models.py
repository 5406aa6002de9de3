"""Small random models of every architecture, made by transformers and saved as Hugging Face folders."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

VOCAB = 160
_SHAPE: dict[str, Any] = {
    "vocab_size": VOCAB,
    "hidden_size": 96,
    "intermediate_size": 112,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 256,
    # wide: logits far apart, so that hardly any two tokens tie
    "initializer_range": 0.25,
    "eos_token_id": None,
    "bos_token_id": None,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 4.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
KINDS: dict[str, tuple[type, type, dict[str, Any]]] = {
    "llama": (LlamaConfig, LlamaForCausalLM, {}),
    "llama-tied": (LlamaConfig, LlamaForCausalLM, {"tie_word_embeddings": True}),
    "llama-no-gqa": (LlamaConfig, LlamaForCausalLM, {"num_key_value_heads": 6, "rms_norm_eps": 1e-5}),
    "llama3-rope": (LlamaConfig, LlamaForCausalLM, {"rope_parameters": _LLAMA3}),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM, {}),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM, {"head_dim": 32}),
    "qwen3-tied-mqa": (Qwen3Config, Qwen3ForCausalLM, {"tie_word_embeddings": True, "num_key_value_heads": 1, "num_attention_heads": 3}),
}


def make(kind: str, folder: Path, max_shard_size: str = "1GB", sizes: Mapping[str, int] | None = None) -> torch.nn.Module:
    """The transformers model, saved to `folder`. Norm weights and biases are random too, or a wrong one would go unnoticed."""
    config_class, model_class, changes = KINDS[kind]
    torch.manual_seed(sum(map(ord, kind)))
    model = model_class(config_class(**(_SHAPE | changes | dict(sizes or {})))).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.uniform_(0.5, 1.5)
            elif name.endswith(".bias"):
                parameter.normal_(0, 0.5)
    model.save_pretrained(folder, max_shard_size=max_shard_size)
    return model
