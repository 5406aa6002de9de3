"""silu(gate) * up: the activation between the two products of a gated MLP (SwiGLU, Shazeer 2020).

Why a kernel: gate and up come out of one fused projection as `[tokens, 2 * intermediate]`; fused, the three tensors are touched once each.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import torch
import triton
import triton.language as tl

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import cdiv, launch, next_power_of_2


@triton.jit
def _silu_mul_kernel(x_ptr, out_ptr, stride_x, stride_out, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    col = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = col < WIDTH
    gate = tl.load(x_ptr + row * stride_x + col, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(x_ptr + row * stride_x + WIDTH + col, mask=mask, other=0.0).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + row * stride_out + col, out.to(out_ptr.dtype.element_ty), mask=mask)


def silu_mul(gate_up: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """`gate_up [tokens, 2 * width]`, gate first, to `[tokens, width]`; float32 inside, rounded once."""
    _common.target_of(gate_up.device)
    tokens, double = gate_up.shape
    if double % 2:
        raise UserError(f"gate and up must be equally wide, got {double} columns together")
    if tokens > 65535:
        raise UserError(f"silu_mul takes at most 65,535 tokens a call, got {tokens}")
    _common.require_unit_stride(gate_up=gate_up, out=out)
    width = double // 2
    if out is None:
        out = torch.empty(tokens, width, dtype=gate_up.dtype, device=gate_up.device)
    if tokens and width:
        block = min(next_power_of_2(width), 1024)
        launch(
            _silu_mul_kernel, (cdiv(width, block), tokens),
            gate_up, out, gate_up.stride(0), out.stride(0), WIDTH=width, BLOCK=block, num_warps=max(1, block // 256),
        )  # fmt: skip
    return out
