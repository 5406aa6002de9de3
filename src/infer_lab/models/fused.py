"""The forward pass of a LlamaModel by our kernels: the same weights, five launches a layer beside the four products.

    residual + RMSNorm → qkv → QK-norm, RoPE and KV write → attention → out → residual + RMSNorm → gate, up → SiLU · up → down

The residual stream is one tensor that is added to in place; what a layer's second half has computed is added by the next layer's first
norm, so nothing is read or written twice. Products of a few rows go to `skinny_gemm` where a configuration for the shape was shipped,
which `benchmarks/tune_gemm.py --only-faster` does where it beats cuBLAS; the other 16-bit products are cuBLAS's, which for large weights
runs close to the memory floor already (measurements/h200/gemm.json).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from infer_lab.kernels import _common
from infer_lab.kernels._gemm import config_for, make_locks
from infer_lab.kernels.mixed_attention import AttentionBatch, mixed_attention
from infer_lab.kernels.paged_decode import MAX_ROWS, DecodeWorkspace, decode_config, num_splits
from infer_lab.kernels.rmsnorm import rmsnorm
from infer_lab.kernels.rope_kv_write import rope_kv_write
from infer_lab.kernels.silu_mul import silu_mul
from infer_lab.kernels.skinny_gemm import skinny_gemm
from infer_lab.layers.kv_layer import KVLayer
from infer_lab.layers.linear import Linear, LinearLayer
from infer_lab.layers.norm import RMSNorm
from infer_lab.models.llama import Attention, DecoderLayer, LlamaModel

MAX_TOKENS = 65_535  # of a step: a grid dimension of two kernels
_HEAD_DIMS = (16, 32, 64, 128, 256)
_SKINNY_ROWS = 16


def is_supported(model: LlamaModel, device: torch.device) -> bool:
    """Whether the kernels can run this model there; where they cannot, plain torch does."""
    config = model.config
    if device.type == "cuda":
        if torch.cuda.get_device_capability(device) < (8, 0):
            return False
    elif not _common.interpreting():
        return False
    return config.head_dim in _HEAD_DIMS and config.num_heads // config.num_kv_heads <= MAX_ROWS


class FusedLlama:
    """caches: one for each layer. max_num_seqs, max_model_len: bounds of a batch; decode scratch is made for them once."""

    def __init__(self, model: LlamaModel, caches: Sequence[KVLayer], *, max_num_seqs: int, max_model_len: int) -> None:
        config, device = model.config, model.embedding.device
        self.model, self.caches = model, caches
        self._heads, self._kv_heads, self._head_dim = config.num_heads, config.num_kv_heads, config.head_dim
        self._cos_sin = model.rotary.table(max_model_len)
        self._target = _common.target_of(device)
        self._workspace = self._decode_workspace(max_num_seqs, max_model_len)
        self._locks = make_locks(max(config.vocab_size, 2 * config.intermediate_size, config.hidden_size * 4), device)

    def _decode_workspace(self, max_num_seqs: int, max_model_len: int) -> DecodeWorkspace:
        """Large enough for any number of requests up to the most."""
        rows = _common.next_power_of_2(self._heads // self._kv_heads)
        cache = self.caches[0].k
        most, splits = 1, 1
        for requests in range(1, max_num_seqs + 1):
            config = decode_config(self._target, self._head_dim, cache.element_size(), rows, requests * self._kv_heads)
            own = num_splits(self._target, config, requests * self._kv_heads, max_model_len)
            if requests * own > most * splits:
                most, splits = requests, own
        entries = DecodeWorkspace.allocate(most, self._kv_heads, rows, self._head_dim, splits, cache.device)
        arrived = torch.zeros(max_num_seqs * self._kv_heads, dtype=torch.int32, device=cache.device)
        return DecodeWorkspace(entries.part, entries.part_lse, arrived)

    def forward(self, token_ids: Tensor, positions: Tensor, slots: Tensor, batch: AttentionBatch) -> tuple[Tensor, Tensor]:
        """(residual, what the last layer adds to it), each [tokens, hidden]. Keys and values are in the caches then."""
        residual = F.embedding(token_ids, self.model.embedding)
        added: Tensor | None = None
        for layer, cache in zip(self.model.layers, self.caches, strict=True):
            assert isinstance(layer, DecoderLayer)
            x = self._attend(layer.attention, self._norm(layer.input_norm, residual, added), positions, slots, cache, batch)
            gate_up = self._product(layer.mlp.gate_up, self._norm(layer.post_norm, residual, x))
            added = self._product(layer.mlp.down, silu_mul(gate_up))
        assert added is not None
        return residual, added

    def logits(self, residual: Tensor, added: Tensor, out: Tensor | None = None) -> Tensor:
        """[rows, vocab_size] in the model's dtype for rows of the residual stream, which is completed in place."""
        x, head = self._norm(self.model.norm, residual, added), self.model.head
        if self._is_skinny(x, head):
            return skinny_gemm(x, head, out, self._locks)
        return torch.mm(x, head.t(), out=out)

    def _attend(self, layer: Attention, x: Tensor, positions: Tensor, slots: Tensor, cache: KVLayer, batch: AttentionBatch) -> Tensor:
        qkv = self._product(layer.qkv, x).view(-1, self._heads + 2 * self._kv_heads, self._head_dim)
        q, k, v = qkv.split((self._heads, self._kv_heads, self._kv_heads), dim=1)
        norms = {}
        if layer.q_norm is not None and layer.k_norm is not None:
            norms = {"q_norm": layer.q_norm.weight, "k_norm": layer.k_norm.weight, "eps": layer.q_norm.eps}
        rope_kv_write(
            q, k, v, positions, self._cos_sin, cache.k, cache.v, slots, k_scale=cache.k_scale, v_scale=cache.v_scale, **norms
        )  # fmt: skip
        attended = mixed_attention(
            q, cache.k, cache.v, batch, k_scale=cache.k_scale, v_scale=cache.v_scale, workspace=self._workspace
        )  # fmt: skip
        return self._product(layer.out, attended.flatten(1))

    def _norm(self, norm: RMSNorm, residual: Tensor, added: Tensor | None) -> Tensor:
        """Of residual + added, which the residual becomes."""
        if added is None:
            return rmsnorm(residual, norm.weight, norm.eps)
        return rmsnorm(added, norm.weight, norm.eps, residual=residual)

    def _product(self, layer: LinearLayer, x: Tensor) -> Tensor:
        if isinstance(layer, Linear) and layer.bias is None and self._is_skinny(x, layer.weight):
            return skinny_gemm(x, layer.weight, locks=self._locks)
        return layer(x)

    def _is_skinny(self, x: Tensor, weight: Tensor) -> bool:
        rows = x.shape[0]
        return rows <= _SKINNY_ROWS and x.element_size() == 2 and config_for(self._target, "skinny_gemm", rows, *weight.shape) is not None
