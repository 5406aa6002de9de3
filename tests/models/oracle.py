"""The reference implementation: transformers' LlamaForCausalLM on the same file, read by the `gguf` package, not by our reader.

So the container, the dequantization, the row order of Q and K, and the model are all checked against code that is not ours.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_HEADS = {"attn_q": 9, "attn_k": 3}


def smollm2_state(path: Path) -> dict[str, torch.Tensor]:
    state = {}
    for tensor in gguf.GGUFReader(path).tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        if tensor.name.startswith("blk."):
            _, layer, kind, _ = tensor.name.split(".")
            if kind in _HEADS:
                rows, columns = weight.shape
                weight = weight.reshape(_HEADS[kind], rows // _HEADS[kind] // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
            name = f"model.layers.{layer}.{_NAMES[kind]}.weight"
        else:
            name = {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[tensor.name]
        state[name] = torch.from_numpy(np.ascontiguousarray(weight))
    return state


def smollm2_oracle(path: Path) -> LlamaForCausalLM:
    """float32 on the CPU."""
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    model = LlamaForCausalLM(config).eval()
    state = smollm2_state(path)
    missing, unexpected = model.load_state_dict(state | {"lm_head.weight": state["model.embed_tokens.weight"]}, strict=False)
    assert not missing and not unexpected, (missing, unexpected)
    return model


@torch.inference_mode()
def greedy(model: torch.nn.Module, prompt: Iterable[int], num_tokens: int) -> tuple[list[int], list[float]]:
    """Tokens, and for each the distance between its logit and the second largest. The end token does not stop it."""
    ids, cache = torch.tensor([list(prompt)]), None
    tokens, margins = [], []
    for _ in range(num_tokens):
        with warnings.catch_warnings():  # newer versions call it `cache`, older ones know only this name
            warnings.simplefilter("ignore", FutureWarning)
            out = model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        cache = out.past_key_values
        first, second = out.logits[0, -1].topk(2).values.tolist()
        tokens.append(int(out.logits[0, -1].argmax()))
        margins.append(first - second)
        ids = torch.tensor([[tokens[-1]]])
    return tokens, margins
