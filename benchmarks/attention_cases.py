"""Shapes and inputs of the attention benchmarks, shared by the benchmark and the tuner, so that both time the same thing.

Every builder takes a device: "cuda" to run, "meta" to compile without data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from infer_lab.kernels import _common
from infer_lab.kernels.flash_prefill import flash_prefill, flash_prefill_paged
from infer_lab.kernels.paged_decode import DecodeConfig, DecodeWorkspace, decode_config, num_splits, paged_decode

DTYPE = torch.bfloat16


@dataclass(frozen=True)
class Prefill:
    batch: int
    seq: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = DTYPE

    @property
    def name(self) -> str:
        return f"prefill-d{self.head_dim}-s{self.seq}"

    @property
    def nbytes(self) -> float:
        """Queries and output, keys and values, each once."""
        return 2.0 * self.batch * self.seq * (self.heads + self.kv_heads) * self.head_dim * self.dtype.itemsize

    @property
    def flops(self) -> float:
        """Two products of S x S x d a head, half of them above the diagonal."""
        return 2.0 * self.batch * self.heads * self.seq**2 * self.head_dim


@dataclass(frozen=True)
class Decode:
    batch: int
    seq: int
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype = DTYPE

    @property
    def name(self) -> str:
        return f"decode-b{self.batch}-s{self.seq}"

    @property
    def flops(self) -> float:
        return 4.0 * self.batch * self.heads * self.seq * self.head_dim

    def kv_bytes(self, element_size: int) -> float:
        return 2.0 * self.batch * self.seq * self.kv_heads * self.head_dim * element_size


def randn(device: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    if device == "meta":
        return torch.empty(*shape, dtype=dtype, device=device)
    if dtype.is_floating_point and dtype.itemsize > 1:
        return torch.randn(*shape, dtype=dtype, device=device)
    out = torch.empty(*shape, dtype=dtype, device=device)
    for part in out:  # piece by piece: no float copy of the whole cache
        x = torch.randn(part.shape, device=device)
        part.copy_((x * 40).round().clamp(-127, 127) if dtype == torch.int8 else x)
    return out


def integers(device: str, values: list[int], dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.tensor(values, dtype=dtype, device=device)


def block_tables(device: str, batch: int, pages: int) -> torch.Tensor:
    """A shuffled pool, as after hours of serving."""
    if device == "meta":
        return torch.empty(batch, pages, dtype=torch.int32, device=device)
    return torch.randperm(batch * pages, device=device, dtype=torch.int64).to(torch.int32).view(batch, pages)


def dense_prefill(shape: Prefill, device: str, config: Any = None) -> Callable[[], torch.Tensor]:
    n = shape.batch * shape.seq
    q = randn(device, shape.dtype, n, shape.heads, shape.head_dim)
    k, v = (randn(device, shape.dtype, n, shape.kv_heads, shape.head_dim) for _ in range(2))
    cu = integers(device, [i * shape.seq for i in range(shape.batch + 1)])
    out = torch.empty_like(q)
    return lambda: flash_prefill(q, k, v, cu, cu, out=out, config=config)


def paged_prefill(shape: Prefill, device: str, page: int, config: Any = None) -> Callable[[], torch.Tensor]:
    pages = -(-shape.seq // page)
    q = randn(device, shape.dtype, shape.batch * shape.seq, shape.heads, shape.head_dim)
    k, v = (randn(device, shape.dtype, shape.batch * pages, page, shape.kv_heads, shape.head_dim) for _ in range(2))
    cu = integers(device, [i * shape.seq for i in range(shape.batch + 1)])
    lens, table = integers(device, [shape.seq] * shape.batch), block_tables(device, shape.batch, pages)
    out = torch.empty_like(q)
    return lambda: flash_prefill_paged(q, k, v, table, cu, lens, out=out, config=config)


def paged_decode_case(
    shape: Decode,
    device: str,
    page: int = 16,
    cache_dtype: torch.dtype | None = None,
    config: DecodeConfig | None = None,
    target: _common.Target | None = None,
) -> Callable[[], torch.Tensor]:
    pages = -(-shape.seq // page)
    q = randn(device, shape.dtype, shape.batch, shape.heads, shape.head_dim)
    kind = cache_dtype or shape.dtype
    k, v = (randn(device, kind, shape.batch * pages, page, shape.kv_heads, shape.head_dim) for _ in range(2))
    cu = integers(device, list(range(shape.batch + 1)))
    lens, table = integers(device, [shape.seq] * shape.batch), block_tables(device, shape.batch, pages)
    scales: dict[str, torch.Tensor] = {}
    if cache_dtype is not None:
        one = randn(device, torch.float32, shape.batch * pages, page, shape.kv_heads)
        scales = {"k_scale": one if device == "meta" else one.abs_().mul_(0.02), "v_scale": one}
    rows = _common.next_power_of_2(shape.heads // shape.kv_heads)
    target = target or _common.target_of(torch.device(device))
    c = config or decode_config(target, shape.head_dim, kind.itemsize, rows, shape.batch * shape.kv_heads)
    splits = num_splits(target, c, shape.batch * shape.kv_heads, shape.seq)
    workspace = DecodeWorkspace.allocate(shape.batch, shape.kv_heads, rows, shape.head_dim, splits, torch.device(device))
    out = torch.empty_like(q)
    return lambda: paged_decode(q, k, v, table, cu, lens, shape.seq, out=out, workspace=workspace, splits=splits, config=c, **scales)
