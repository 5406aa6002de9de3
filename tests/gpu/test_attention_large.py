"""Prefill at sizes where the Hopper kernel walks many tiles, in all its forms, against float32; and the portable kernel beside it."""

from __future__ import annotations

import pytest
import torch

from infer_lab.kernels import reference
from infer_lab.kernels.flash_prefill import PrefillConfig, flash_prefill, flash_prefill_paged
from tests.kernels.paged import assert_same_lse, packed, paged_case, relative_error

TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 6e-3}
PORTABLE = PrefillConfig(64, 32, 4, 2)


@pytest.mark.parametrize("config", [None, PORTABLE], ids=["chosen", "portable"])
@pytest.mark.parametrize("head_dim", [64, 128, 256])
@pytest.mark.parametrize("causal", [True, False])
def test_dense_prompts_of_many_tiles(device, dtype, head_dim, causal, config):
    lens = [1, 700, 0, 512, 129, 1025]
    cu = packed(lens, device)
    qkv = torch.randn(sum(lens), 12, head_dim, generator=torch.Generator().manual_seed(1)).to(device, dtype)
    q, k, v = qkv[:, :8], qkv[:, 8:10], qkv[:, 10:]
    lse = torch.empty(sum(lens), 8, device=device)
    out = flash_prefill(q, k, v, cu, cu, causal=causal, lse=lse, config=config)
    expected, expected_lse = reference.varlen_attention(q, k, v, cu, cu, head_dim**-0.5, causal)
    assert relative_error(out, expected) < TOLERANCE[dtype]
    assert_same_lse(lse, expected_lse, 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("block_size", [16, 32, 64, 128])
@pytest.mark.parametrize(("head_dim", "window"), [(64, 0), (128, 0), (256, 0), (128, 300)])
def test_paged_chunks_behind_a_long_cache(device, dtype, block_size, head_dim, window):
    query_lens, seq_lens = [300, 0, 130, 64], [1300, 0, 130, 2000]
    case = paged_case(device, query_lens, seq_lens, 8, 2, head_dim, block_size, dtype)
    # caches whose heads lie side by side, as an engine keeps them: what the bulk copies need
    k, v = case.k_cache.contiguous(), case.v_cache.contiguous()
    lse = torch.empty(case.q.shape[:2], device=device)
    args = (case.q, k, v, *case.attention_args()[3:])
    out = flash_prefill_paged(*args, window=window, lse=lse)
    expected, expected_lse = reference.paged_attention(*args, head_dim**-0.5, window)
    assert relative_error(out, expected) < TOLERANCE[dtype]
    assert_same_lse(lse, expected_lse, 2 * TOLERANCE[dtype])
    assert torch.equal(out, flash_prefill_paged(*args, window=window))
