"""A whole Hugging Face folder in 300 kB: random Llama weights, a byte-level tokenizer, a chat template. For tests of everything
around the model."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE

HIDDEN, FFN, HEADS, KV_HEADS, LAYERS, CONTEXT = 48, 64, 4, 2, 2, 128
EOS = "<end>"
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


def write_tiny_model(folder: Path, *, chat_template: bool = True, tokenizer: bool = True) -> Path:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    fast = Tokenizer(BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    fast.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)  # type: ignore[assignment]
    fast.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    fast.add_special_tokens([AddedToken(EOS, normalized=False)])
    vocab = fast.get_vocab_size()
    if tokenizer:
        fast.save(str(folder / "tokenizer.json"))
        settings = {"eos_token": EOS} | ({"chat_template": TEMPLATE} if chat_template else {})
        (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    config = {
        "model_type": "llama",
        "num_hidden_layers": LAYERS,
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "vocab_size": vocab,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10_000.0,
        "tie_word_embeddings": True,
        "eos_token_id": vocab - 1,
    }
    (folder / "config.json").write_text(json.dumps(config))
    generator = torch.Generator().manual_seed(1)
    kv = HIDDEN // HEADS * KV_HEADS
    shapes = {"model.embed_tokens.weight": (vocab, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        shapes |= {layer + f"self_attn.{n}_proj.weight": (HIDDEN, HIDDEN) for n in ("q", "o")}
        shapes |= {layer + f"self_attn.{n}_proj.weight": (kv, HIDDEN) for n in ("k", "v")}
        shapes |= {layer + f"mlp.{n}_proj.weight": (FFN, HIDDEN) for n in ("gate", "up")}
        shapes |= {layer + "mlp.down_proj.weight": (HIDDEN, FFN)}
        shapes |= {layer + f"{n}_layernorm.weight": (HIDDEN,) for n in ("input", "post_attention")}
    weights = {}
    for name, shape in shapes.items():
        weights[name] = torch.randn(shape, generator=generator) * 0.3 if len(shape) > 1 else torch.ones(shape)
    save_file(weights, folder / "model.safetensors")
    return folder
