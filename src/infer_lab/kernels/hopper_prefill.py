"""When and how flash prefill runs on Hopper's own kernel (see _hopper_prefill_kernel.py); elsewhere and otherwise the portable one runs.

Conditions: sm_90, 16-bit queries and keys of one type, head_dim 64, 128 or 256, heads of a token side by side in memory, rows that the
bulk copy engine can address (16-byte strides), pages of at least 16 slots. Anything else is no error: the portable kernel takes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from infer_lab.kernels import _common
from infer_lab.kernels._common import LOG2_E, Target, launch, next_power_of_2
from infer_lab.kernels._programs import grid

CONSUMERS = 2
BLOCK_M = 64 * CONSUMERS


@dataclass(frozen=True, slots=True)
class HopperConfig:
    block_n: int
    num_stages: int
    consumer_regs: int = 232
    producer_regs: int = 40
    kv_heads_together: int = 1


def hopper_config(target: Target, head_dim: int) -> HopperConfig:
    found = _common.tuned(target, "hopper_prefill", f"d{head_dim}")
    return HopperConfig(**found) if found else HopperConfig(64 if head_dim == 256 else 128, 2)


def rows_of(x: torch.Tensor) -> tuple[int, int, int] | None:
    """`[rows, heads, d]` or `[pages, page, heads, d]` as one matrix: (rows, row stride, rows a page), or None if it is not one."""
    if not x.numel() or x.stride(-1) != 1 or x.stride(-2) != x.shape[-1] or x.stride(-3) * x.element_size() % 16 or x.data_ptr() % 16:
        return None
    stride = x.stride(-3)
    if stride < x.shape[-2] * x.shape[-1]:
        return None
    if x.ndim == 3:
        return x.shape[0], stride, 0
    if x.stride(0) % stride:
        return None
    per_page = x.stride(0) // stride
    rows = (x.shape[0] - 1) * per_page + x.shape[1]
    return (rows, stride, per_page) if rows < 2**31 else None


def supported(target: Target, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, paged: bool) -> bool:
    if target.capability != (9, 0) or q.dtype not in (torch.float16, torch.bfloat16) or not q.dtype == k.dtype == v.dtype:
        return False
    if q.shape[-1] not in (64, 128, 256) or (paged and k.shape[1] % 16):
        return False
    return all(rows_of(x) is not None for x in (q, k, v))


def _descriptor(x: torch.Tensor, box: int) -> Any:
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    rows = rows_of(x)
    assert rows is not None
    d = x.shape[-1]
    layout = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16)
    return TensorDescriptor(x, [rows[0], x.shape[-2] * d], [rows[1], 1], [box, d], layout)


def hopper_prefill(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    key_bounds: torch.Tensor,
    block_table: torch.Tensor | None,
    scale: float,
    causal: bool,
    window: int,
    out: torch.Tensor,
    lse: torch.Tensor | None,
    min_query_len: int,
    config: HopperConfig | None = None,
) -> None:
    """Arguments as flash_prefill, for tensors that `supported` accepts."""
    from infer_lab.kernels._hopper_prefill_kernel import hopper_prefill_kernel

    tokens, heads, d = q.shape
    kv_heads = k.shape[-2]
    requests = cu_seqlens_q.numel() - 1
    c = config or hopper_config(_common.target_of(q.device), d)
    block_size = k.shape[1] if block_table is not None else 0
    box = c.block_n if block_size == 0 else min(c.block_n, block_size & -block_size)  # largest power of two that divides the page
    k_rows, v_rows = rows_of(k), rows_of(v)
    assert k_rows is not None and v_rows is not None
    num_tiles = tokens // BLOCK_M + requests
    launch(
        hopper_prefill_kernel, grid(num_tiles, heads, kv_heads, c.kv_heads_together),
        _descriptor(q, 64), _descriptor(k, box), _descriptor(v, box), out, lse if lse is not None else out,
        block_table if block_table is not None else cu_seqlens_q, cu_seqlens_q, key_bounds,
        requests, min_query_len, scale * LOG2_E, k_rows[2], v_rows[2], q.stride(1), k.stride(-2), v.stride(-2),
        out.stride(0), out.stride(1), *(lse.stride() if lse is not None else (0, 0)),
        block_table.stride(0) if block_table is not None else 0,
        GROUP=heads // kv_heads, HEADS_TOGETHER=heads // kv_heads * c.kv_heads_together, D=d, N=c.block_n, BOX=box,
        BLOCK_SIZE=block_size, STAGES=c.num_stages,
        CONSUMERS=CONSUMERS, REQUESTS=next_power_of_2(requests), CAUSAL=causal, WINDOW=window, WRITE_LSE=lse is not None,
        CONSUMER_REGS=c.consumer_regs, PRODUCER_REGS=c.producer_regs, num_warps=4,
    )  # fmt: skip
