"""Quantized layers on a GPU go through our kernels and compute what the same packed bytes give on a CPU."""

from __future__ import annotations

import pytest
import torch

from infer_lab.quant.load import LINEARS
from infer_lab.quant.scheme import SCHEMES, Scheme


@pytest.mark.parametrize("tokens", [1, 7, 64, 300])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_layer_on_the_gpu_equals_the_reference(device: torch.device, dtype: torch.dtype, name: str, tokens: int) -> None:
    generator = torch.Generator().manual_seed(tokens)
    weight = torch.randn(384, 576, generator=generator) * 0.05
    x = torch.randn(tokens, 576, generator=generator).to(dtype)
    results = []
    for where in (torch.device("cpu"), device):
        layer = LINEARS[name](576, {"a_proj": 200, "b_proj": 184}, dtype=dtype, device=where, scheme=Scheme.of(name))
        for part, rows in (("a_proj", weight[:200]), ("b_proj", weight[200:])):
            layer.slots("")[f"{part}.weight"].copy_(rows)
        results.append(layer(x.to(where)).cpu().float())
    expected, found = results
    assert float((found - expected).norm() / expected.norm()) < (6e-3 if dtype == torch.bfloat16 else 2e-3)
