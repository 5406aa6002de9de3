"""RMSNorm, alone or fused with the residual addition before it; over heads it is QK-norm.

Why fused: each of the two reads and writes `[tokens, hidden]` once, and nothing else; unfused, the sum would go to memory and come back.
The fused form moves four tensors (read x and residual, write residual and out), which is its floor.
Rounding: the residual is stored in its dtype and the norm is taken of the stored value, so that the fused result is the one that the
two steps would give; the norm itself is float32 throughout and rounded once (Zhang & Sennrich 2019).

A row lives in registers from read to write. Loads are plain pointers: in Triton 3.6 a bulk copy feeding a reduction is slower.
"""

# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
from __future__ import annotations

from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._common import Target, cdiv, launch, next_power_of_2


@triton.jit
def _rmsnorm_kernel(
    x_ptr, residual_ptr, weight_ptr, out_ptr, num_rows, eps,
    stride_xt, stride_xh, stride_rt, stride_rh, stride_ot, stride_oh,
    HEADS: tl.constexpr, HIDDEN: tl.constexpr, BLOCK: tl.constexpr, ROWS: tl.constexpr, RESIDUAL: tl.constexpr,
):  # fmt: skip
    """ROWS rows a program; row r is head r % HEADS of token r // HEADS."""
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    col = tl.arange(0, BLOCK)
    mask = (row < num_rows)[:, None] & (col < HIDDEN)[None, :]
    token = row // HEADS
    head = row % HEADS
    x = tl.load(x_ptr + (token * stride_xt + head * stride_xh)[:, None] + col[None, :], mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + col, mask=col < HIDDEN, other=0.0).to(tl.float32)
    if RESIDUAL:
        at = residual_ptr + (token * stride_rt + head * stride_rh)[:, None] + col[None, :]
        stored = (x + tl.load(at, mask=mask, other=0.0).to(tl.float32)).to(residual_ptr.dtype.element_ty)
        tl.store(at, stored, mask=mask)
        x = stored.to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, 1) / HIDDEN + eps)
    out = x * scale[:, None] * weight[None, :]
    tl.store(out_ptr + (token * stride_ot + head * stride_oh)[:, None] + col[None, :], out.to(out_ptr.dtype.element_ty), mask=mask)


@dataclass(frozen=True, slots=True)
class NormConfig:
    """rows: of a program. (Evicting first what is read once, and few programs that loop over the rows, were tried and are no faster.)"""

    rows: int
    num_warps: int


def norm_config(target: Target, hidden: int, num_rows: int) -> NormConfig:
    """Rows a program and warps: 16 bytes a thread and read, several rows where they are short."""
    block = next_power_of_2(hidden)
    size = "few" if num_rows <= 8 * target.num_sms else "many" if num_rows <= 64 * target.num_sms else "huge"
    found = _common.tuned(target, "rmsnorm", f"h{block}-{size}")
    if found:
        return NormConfig(**found)
    rows = max(1, min(1024 // block, 16))
    return NormConfig(rows, max(1, min(16, rows * block // 512)))


def _flat(x: torch.Tensor) -> tuple[int, int, int, int]:
    """(tokens, heads, stride of a token, stride of a head) of `[tokens, hidden]` or `[tokens, heads, hidden]`."""
    if x.ndim == 2:
        return x.shape[0], 1, x.stride(0), 0
    if x.ndim == 3:
        return x.shape[0], x.shape[1], x.stride(0), x.stride(1)
    raise UserError(f"rmsnorm takes [tokens, hidden] or [tokens, heads, head_dim], got {list(x.shape)}")


def rmsnorm(
    x: torch.Tensor,
    weight: torch.Tensor,
    eps: float,
    residual: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    config: NormConfig | None = None,
) -> torch.Tensor:
    """Normalize the last dimension of `x`; `[tokens, heads, head_dim]` with weight `[head_dim]` is QK-norm. out may be x.

    With `residual` (same shape), residual becomes residual + x in place and out is the norm of that. Returns out.
    """
    target = _common.target_of(x.device)
    if out is None:
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
    hidden = x.shape[-1]
    if weight.shape != (hidden,):
        raise UserError(f"rmsnorm over {hidden} elements needs a weight of that shape, got {list(weight.shape)}")
    if next_power_of_2(hidden) > 65536:
        raise UserError(f"rmsnorm keeps a row in registers: at most 65,536 elements, got {hidden}")
    _common.require_unit_stride(x=x, residual=residual, out=out, weight=weight)
    tokens, heads, xt, xh = _flat(x)
    _, _, ot, oh = _flat(out)
    _, _, rt, rh = _flat(residual) if residual is not None else (0, 0, 0, 0)
    num_rows = tokens * heads
    if num_rows == 0:
        return out
    c = config or norm_config(target, hidden, num_rows)
    launch(
        _rmsnorm_kernel, (cdiv(num_rows, c.rows),),
        x, residual, weight, out, num_rows, eps, xt, xh, rt, rh, ot, oh,
        HEADS=heads, HIDDEN=hidden, BLOCK=next_power_of_2(hidden), ROWS=c.rows, RESIDUAL=residual is not None,
        num_warps=c.num_warps,
    )  # fmt: skip
    return out
