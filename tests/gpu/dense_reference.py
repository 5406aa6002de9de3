"""The plainest forward pass, in float32: no cache, no paging, no batch, no kernel. The engine's tokens are held against it."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from infer_lab.config import ModelConfig


class DenseReference:
    """weights: of a Llama, Qwen2 or Qwen3 without RoPE scaling, by their names in a checkpoint, in any type."""

    def __init__(self, config: ModelConfig, weights: dict[str, Tensor]) -> None:
        assert not config.rope_scaling
        self.config = config
        self.weights = {name: weight.float() for name, weight in weights.items()}

    @torch.inference_mode()
    def logits(self, token_ids: list[int], first: int) -> Tensor:
        """[tokens - first, vocab_size]: what follows each token from `first` on."""
        config, weights = self.config, self.weights
        x = weights["model.embed_tokens.weight"][torch.tensor(token_ids, device=weights["model.norm.weight"].device)]
        for i in range(config.num_layers):
            layer = f"model.layers.{i}."
            x = x + self._attention(self._norm(x, layer + "input_layernorm"), layer + "self_attn.")
            h = self._norm(x, layer + "post_attention_layernorm")
            gate, up = (F.linear(h, weights[f"{layer}mlp.{name}_proj.weight"]) for name in ("gate", "up"))
            x = x + F.linear(F.silu(gate) * up, weights[layer + "mlp.down_proj.weight"])
        head = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
        return F.linear(self._norm(x[first:], "model.norm"), head)

    def _attention(self, x: Tensor, name: str) -> Tensor:
        config = self.config
        parts = []
        for part, heads in (("q", config.num_heads), ("k", config.num_kv_heads), ("v", config.num_kv_heads)):
            y = F.linear(x, self.weights[f"{name}{part}_proj.weight"], self.weights.get(f"{name}{part}_proj.bias"))
            y = y.view(len(x), heads, config.head_dim)
            if config.qk_norm and part != "v":
                y = self._norm(y, f"{name}{part}_norm")
            parts.append((y if part == "v" else self._rotated(y)).transpose(0, 1))
        q, k, v = parts
        groups = config.num_heads // config.num_kv_heads
        k, v = (each.repeat_interleave(groups, dim=0) for each in (k, v))
        scores = q @ k.transpose(1, 2) / config.head_dim**0.5
        future = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        y = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        return F.linear(y.transpose(0, 1).flatten(1), self.weights[name + "o_proj.weight"])

    def _rotated(self, x: Tensor) -> Tensor:
        half = self.config.head_dim // 2
        frequencies = self.config.rope_theta ** -(torch.arange(half, device=x.device, dtype=torch.float64) / half)
        angles = torch.arange(len(x), device=x.device, dtype=torch.float64)[:, None, None] * frequencies
        cos, sin = angles.cos().float(), angles.sin().float()
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config.rms_norm_eps) * self.weights[name + ".weight"]
