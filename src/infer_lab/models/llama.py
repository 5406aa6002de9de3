"""The decoder that Llama, SmolLM2, Qwen2 and Qwen3 share: norm → attention → norm → gated MLP, each added to the residual stream.

The three differ in two flags of ModelConfig: `qkv_bias` (Qwen2) and `qk_norm` (Qwen3: RMSNorm over each head of q and k before RoPE).
A step's tokens of all requests lie in one flat row [tokens, hidden]; only attention knows which token belongs to whom.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from infer_lab.config import ModelConfig
from infer_lab.errors import CheckpointError
from infer_lab.kernels.pack import QuantizedWeight
from infer_lab.layers.attention import AttentionBatch, paged_attention
from infer_lab.layers.kv_layer import KVLayer
from infer_lab.layers.linear import Linear, LinearFactory, Slots, weight
from infer_lab.layers.norm import RMSNorm
from infer_lab.layers.rotary import Rotary, rotate
from infer_lab.models.checkpoint import Checkpoint


class Attention(nn.Module):
    def __init__(self, config: ModelConfig, *, linear: LinearFactory, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        q_size, kv_size = self.heads * self.head_dim, self.kv_heads * self.head_dim
        parts = {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size}
        self.qkv = linear(config.hidden_size, parts, bias=config.qkv_bias, dtype=dtype, device=device)
        self.out = linear(q_size, {"o_proj": config.hidden_size}, dtype=dtype, device=device)
        self.q_norm = RMSNorm(self.head_dim, config.rms_norm_eps, dtype=dtype, device=device) if config.qk_norm else None
        self.k_norm = RMSNorm(self.head_dim, config.rms_norm_eps, dtype=dtype, device=device) if config.qk_norm else None

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: KVLayer, batch: AttentionBatch) -> Tensor:
        qkv = self.qkv(x).view(-1, self.heads + 2 * self.kv_heads, self.head_dim)
        if self.q_norm is not None and self.k_norm is not None:
            q, k, v = qkv.split((self.heads, self.kv_heads, self.kv_heads), dim=1)
            qkv = torch.cat((self.q_norm(q), self.k_norm(k), v), dim=1)
        qk, v = qkv.split((self.heads + self.kv_heads, self.kv_heads), dim=1)
        q, k = rotate(qk, cos, sin).split((self.heads, self.kv_heads), dim=1)
        return self.out(paged_attention(q, k, v, cache, batch).flatten(1))

    def slots(self, prefix: str) -> Slots:
        slots = self.qkv.slots(prefix) | self.out.slots(prefix)
        if self.q_norm is not None and self.k_norm is not None:
            slots |= self.q_norm.slots(prefix + "q_norm") | self.k_norm.slots(prefix + "k_norm")
        return slots


class GatedMLP(nn.Module):
    """down(silu(gate(x)) · up(x)), with gate and up as one product."""

    def __init__(self, config: ModelConfig, *, linear: LinearFactory, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        width = config.intermediate_size
        self.gate_up = linear(config.hidden_size, {"gate_proj": width, "up_proj": width}, dtype=dtype, device=device)
        self.down = linear(width, {"down_proj": config.hidden_size}, dtype=dtype, device=device)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        return self.down(F.silu(gate).mul_(up))

    def slots(self, prefix: str) -> Slots:
        return self.gate_up.slots(prefix) | self.down.slots(prefix)


class DecoderLayer(nn.Module):
    def __init__(self, config: ModelConfig, *, linear: LinearFactory, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__()
        self.input_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, dtype=dtype, device=device)
        self.attention = Attention(config, linear=linear, dtype=dtype, device=device)
        self.post_norm = RMSNorm(config.hidden_size, config.rms_norm_eps, dtype=dtype, device=device)
        self.mlp = GatedMLP(config, linear=linear, dtype=dtype, device=device)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: KVLayer, batch: AttentionBatch) -> Tensor:
        x = x + self.attention(self.input_norm(x), cos, sin, cache, batch)
        return x + self.mlp(self.post_norm(x))

    def slots(self, prefix: str) -> Slots:
        return (
            self.input_norm.slots(prefix + "input_layernorm")
            | self.attention.slots(prefix + "self_attn.")
            | self.post_norm.slots(prefix + "post_attention_layernorm")
            | self.mlp.slots(prefix + "mlp.")
        )


def _is_ignored(name: str, config: ModelConfig) -> bool:
    """Tensors that some checkpoints carry and nobody needs: RoPE's own table, and a second copy of a tied head."""
    return name.endswith("rotary_emb.inv_freq") or (name == "lm_head.weight" and config.tie_word_embeddings)


def check_tensors(checkpoint: Checkpoint) -> None:
    """CheckpointError for a tensor that is missing, of another shape, or not part of the model. Takes no memory for weights."""
    config, name = checkpoint.config, checkpoint.config.name
    given = {key: shape for key, shape in checkpoint.shapes.items() if not _is_ignored(key, config)}
    layers = {key.split(".")[2] for key in given if key.startswith("model.layers.")}
    if len(layers) != config.num_layers:
        raise CheckpointError(
            f"{name}: the configuration says {config.num_layers} layers, tensors of {len(layers)} are there; some are missing"
        )
    if config.head_dim % 2:
        raise CheckpointError(f"{name}: RoPE turns pairs, and a head of {config.head_dim} dimensions has one left over")
    if not (0 < config.rope_theta < float("inf") and 0 <= config.rms_norm_eps < 1):
        raise CheckpointError(f"{name}: rope_theta = {config.rope_theta} or rms_norm_eps = {config.rms_norm_eps} is impossible")
    try:
        with torch.device("meta"):  # also RoPE's frequencies, whose number a damaged file may put at billions
            wanted = LlamaModel(config, dtype=torch.float32, device=torch.device("meta")).slots()
    except (RuntimeError, OverflowError, TypeError) as error:  # sizes beyond 2^63
        raise CheckpointError(f"{name}: the configuration describes an impossible model: {error}") from error
    if missing := sorted(wanted.keys() - given.keys()):
        raise CheckpointError(f"{name}: {len(missing)} tensors are missing from the checkpoint, among them {', '.join(missing[:3])}")
    if unknown := sorted(given.keys() - wanted.keys()):
        raise CheckpointError(f"{name}: {len(unknown)} tensors have no place in this model, among them {', '.join(unknown[:3])}")
    for key, slot in wanted.items():
        if given[key] != tuple(slot.shape):
            raise CheckpointError(f"{name}: {key} has shape {given[key]}, the configuration wants {tuple(slot.shape)}")


class LlamaModel(nn.Module):
    """rope_factors as in `inverse_frequencies`. linear: makes the layers' matrices. Weights are unset until `load` or `randomize`."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        dtype: torch.dtype,
        device: torch.device,
        rope_factors: tuple[float, ...] = (),
        linear: LinearFactory = Linear,
    ) -> None:
        super().__init__()
        self.config = config
        self.embedding = weight(config.vocab_size, config.hidden_size, dtype=dtype, device=device)
        self.layers = nn.ModuleList(DecoderLayer(config, linear=linear, dtype=dtype, device=device) for _ in range(config.num_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps, dtype=dtype, device=device)
        tied = config.tie_word_embeddings
        self.head = self.embedding if tied else weight(config.vocab_size, config.hidden_size, dtype=dtype, device=device)
        self.rotary = Rotary(config, dtype=dtype, device=device, factors=rope_factors)

    def forward(self, token_ids: Tensor, positions: Tensor, caches: list[KVLayer], batch: AttentionBatch) -> Tensor:
        """The residual stream after the last layer, [tokens, hidden]; keys and values of the tokens are in the caches then.

        With the caches of the first k layers only those are run (early exit)."""
        x = F.embedding(token_ids, self.embedding)
        cos, sin = self.rotary(positions)
        assert 0 < len(caches) <= len(self.layers)
        for layer, cache in zip(self.layers, caches, strict=False):
            x = layer(x, cos, sin, cache, batch)
        return x

    def logits(self, x: Tensor) -> Tensor:
        """float32 [rows, vocab_size] for chosen rows of the residual stream: the widest product, so only rows that sample pay for it."""
        return F.linear(self.norm(x), self.head).float()

    def slots(self) -> Slots:
        """Checkpoint name → the view of our memory that the tensor fills."""
        slots = {"model.embed_tokens.weight": self.embedding} | self.norm.slots("model.norm")
        if not self.config.tie_word_embeddings:
            slots["lm_head.weight"] = self.head
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            slots |= layer.slots(f"model.layers.{i}.")
        return slots

    @torch.no_grad()
    def load(self, checkpoint: Checkpoint) -> None:
        """Fill every weight from a checkpoint that `check_tensors` has passed; CheckpointError for a weight that is no number: with it
        every answer would be the same wrong token."""
        assert checkpoint.tensors is not None
        self.fill(checkpoint.tensors(self.embedding.device))

    @torch.no_grad()
    def fill(self, tensors: Iterable[tuple[str, Tensor | QuantizedWeight]]) -> None:
        """As `load`; a QuantizedWeight only where a layer can take it as it is."""
        slots = self.slots()
        for name, tensor in tensors:
            if not _is_ignored(name, self.config):
                slot = slots.pop(name)
                # of the tensor as it came, which is contiguous: ours may lie column by column, where this takes a hundred times as long
                low, high = torch.aminmax(tensor if isinstance(tensor, Tensor) else tensor.floats())
                largest = torch.finfo(slot.dtype).max
                if not (low >= -largest and high <= largest):
                    kind = str(slot.dtype).removeprefix("torch.")
                    raise CheckpointError(
                        f"{self.config.name}: {name} holds NaN or infinity as {kind}; the file is damaged, or wants another dtype"
                    )
                slot.copy_(tensor)
        assert not slots

    @torch.no_grad()
    def randomize(self, seed: int) -> None:
        """Random weights in place of a checkpoint: right shapes and speed, no sense. The same seed gives the same weights on one device."""
        generator = torch.Generator(device=self.embedding.device).manual_seed(seed)
        for key, slot in self.slots().items():
            if key.endswith("norm.weight"):
                slot.copy_(torch.ones(slot.shape))
            else:
                slot.normal_(0.0, 0.02, generator=generator)
