"""A paged KV cache as hostile as an engine's: shuffled pages, unwritten slots full of NaN, strides of a larger buffer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from infer_lab.kernels.pack import quantize_rows


@dataclass(frozen=True)
class PagedCase:
    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_table: torch.Tensor
    cu_seqlens_q: torch.Tensor
    seq_lens: torch.Tensor
    k_scale: torch.Tensor | None = None
    v_scale: torch.Tensor | None = None

    def attention_args(self) -> tuple[torch.Tensor, ...]:
        return self.q, self.k_cache, self.v_cache, self.block_table, self.cu_seqlens_q, self.seq_lens

    @property
    def scales(self) -> dict[str, torch.Tensor | None]:
        return {"k_scale": self.k_scale, "v_scale": self.v_scale}


def packed(lens: Sequence[int], device: torch.device) -> torch.Tensor:
    return torch.tensor([0, *lens]).cumsum(0).to(device, torch.int32)


def paged_case(
    device: torch.device,
    query_lens: Sequence[int],
    seq_lens: Sequence[int],
    heads: int = 4,
    kv_heads: int = 2,
    head_dim: int = 64,
    block_size: int = 16,
    dtype: torch.dtype = torch.float16,
    cache_dtype: torch.dtype | None = None,
    seed: int = 0,
) -> PagedCase:
    g = torch.Generator().manual_seed(seed)
    pages = [-(-n // block_size) for n in seq_lens]
    num_blocks = sum(pages) + 2
    order = torch.randperm(num_blocks, generator=g).tolist()
    table = torch.full((len(seq_lens), max([1, *pages])), -1, dtype=torch.int32)
    # one buffer for k and v, a spare head: neither cache is contiguous
    buffer = torch.full((num_blocks, 2, block_size, kv_heads + 1, head_dim), float("nan"), dtype=torch.float32)
    for i, n in enumerate(seq_lens):
        for j in range(pages[i]):
            page = order.pop()
            table[i, j] = page
            filled = min(block_size, n - j * block_size)
            buffer[page, :, :filled, :kv_heads] = torch.randn(2, filled, kv_heads, head_dim, generator=g)
    qkv = torch.randn(sum(query_lens), heads + 1, head_dim, generator=g)
    q = qkv.to(device, dtype)[:, :heads]
    cu = packed(query_lens, device)
    lens = torch.tensor(list(seq_lens), dtype=torch.int32, device=device)
    scales: tuple[torch.Tensor | None, torch.Tensor | None] = (None, None)
    if cache_dtype is None:
        kv = buffer.to(device, dtype)
    else:
        values, scale = quantize_rows(buffer.nan_to_num(nan=0.0).to(device), cache_dtype)
        scale = torch.where(torch.isnan(buffer[..., 0]).to(device), float("nan"), scale)
        kv = values
        scales = (scale[:, 0, :, :kv_heads], scale[:, 1, :, :kv_heads])
    return PagedCase(q, kv[:, 0, :, :kv_heads], kv[:, 1, :, :kv_heads], table.to(device), cu, lens, *scales)


def relative_error(value: torch.Tensor, expected: torch.Tensor) -> float:
    """||value - expected|| / ||expected||; NaN anywhere gives NaN, which no tolerance accepts."""
    return float((value.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30))


def assert_same_lse(value: torch.Tensor, expected: torch.Tensor, tolerance: float) -> None:
    empty = expected == float("-inf")
    assert torch.equal(value == float("-inf"), empty)
    assert torch.allclose(value[~empty].double(), expected[~empty].double(), atol=tolerance, rtol=tolerance)
