"""Quantized models against transformers: the same logits from transformers' own model with the weights that ours stand for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from forward import all_logits
from hf_models import KINDS, VOCAB, make

from infer_lab import EngineConfig
from infer_lab.engine.build import load_model
from infer_lab.quant.linear import QuantizedLinear

# widths that every scheme can pack
SIZES = {"hidden_size": 192, "intermediate_size": 192, "head_dim": 64}
TOKENS = torch.randint(0, VOCAB, (40,), generator=torch.Generator().manual_seed(5)).tolist()


def relative(value: torch.Tensor, expected: torch.Tensor) -> float:
    return float((value - expected).norm() / expected.norm())


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("scheme", ["w8a16", "w4a16"])
def test_logits_equal_transformers_with_the_dequantized_weights(kind: str, scheme: str, tmp_path: Path) -> None:
    theirs = make(kind, tmp_path, sizes=SIZES)
    loaded = load_model(EngineConfig(str(tmp_path), device="cpu", quantization=scheme, quantization_group=64, quantization_cache=False))
    weights = dict(theirs.named_parameters())
    before = theirs(torch.tensor([TOKENS])).logits[0].detach()
    for i, layer in enumerate(loaded.model.layers):
        for module in layer.modules():
            if isinstance(module, QuantizedLinear):
                rows = module.dequantized().split(list(module.parts.values()))
                for part, values in zip(module.parts, rows, strict=True):
                    block = "mlp" if part in ("gate_proj", "up_proj", "down_proj") else "self_attn"
                    weights[f"model.layers.{i}.{block}.{part}.weight"].data.copy_(values)
    after = theirs(torch.tensor([TOKENS])).logits[0].detach()
    ours = all_logits(loaded, TOKENS, 7)
    assert relative(ours, after) < 1e-4
    assert relative(ours, before) > 1e-3, "rounding can be seen"


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(("kv_dtype", "bound"), [(torch.int8, 0.05), (torch.float8_e4m3fn, 0.3)], ids=["int8", "fp8"])
def test_an_eight_bit_cache_moves_logits_a_little(kind: str, kv_dtype: torch.dtype, bound: float, tmp_path: Path) -> None:
    """Weights here are wide and random, so attention is sharp; a scale of a wrong token or head would move logits by their own size."""
    theirs = make(kind, tmp_path)
    with torch.inference_mode():
        expected = theirs(torch.tensor([TOKENS])).logits[0]
    found = all_logits(load_model(EngineConfig(str(tmp_path), device="cpu")), TOKENS, 7, kv_dtype)
    assert 1e-4 < relative(found, expected) < bound
