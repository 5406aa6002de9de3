"""GGUF files of every architecture, written from small transformers models as llama.cpp's converter writes them, give the same logits.

The converter's rules, restated here: Q and K rows of "llama" are stored pair by pair (for interleaved RoPE), those of the Qwen
family as they are; Llama-3 RoPE scaling becomes a tensor of divisors.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from forward import all_logits
from hf_models import make

from infer_lab import EngineConfig
from infer_lab.engine.build import load_model

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def _gguf_name(name: str) -> str:
    stem, _, suffix = name.rpartition(".")
    if stem in _NAMES:
        return f"{_NAMES[stem]}.{suffix}"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{_NAMES[rest]}.{suffix}"


def _pairs(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows of halves to rows of pairs: what llama.cpp's converter does to Q and K."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


def _convert(model: torch.nn.Module, path: Path, architecture: str) -> Path:
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_key_length(head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if config.rope_parameters["rope_type"] == "llama3":
        plain = 1.0 / config.rope_parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim)
        writer.add_tensor("rope_freqs.weight", (plain / model.model.rotary_emb.inv_freq).numpy())  # type: ignore[union-attr,operator]
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        weight = tensor.float().numpy()
        if architecture == "llama" and "q_proj" in name:
            weight = _pairs(weight, config.num_attention_heads)
        if architecture == "llama" and "k_proj" in name:
            weight = _pairs(weight, config.num_key_value_heads)
        writer.add_tensor(_gguf_name(name), np.ascontiguousarray(weight))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", ["llama", "llama-tied", "llama3-rope", "qwen2", "qwen3"])
def test_logits_from_a_gguf_file_equal_transformers(tmp_path: Path, kind: str) -> None:
    model = make(kind, tmp_path / "folder")
    path = _convert(model, tmp_path / "model.gguf", "llama" if kind.startswith("llama") else kind)
    loaded = load_model(EngineConfig(str(path), device="cpu"))
    prompt = list(range(40, 140))
    with torch.inference_mode():
        expected = model(torch.tensor([prompt])).logits[0]
    error = (all_logits(loaded, prompt) - expected).abs().max() / expected.abs().max()
    assert float(error) < 1e-4
