"""FP8 W8A8: y = (x * x_scale) (w * w_scale)T in float8_e4m3fn with one scale per row on both sides, summed in float32 every 128 columns.

Why: twice bfloat16's matrix rate and half its bytes, for prefill and decode alike, on chips that have it (sm_89 and newer).
Rowwise scales (one per token, one per output channel) factor out of the sum, so they cost one multiplication per result.
"""

from __future__ import annotations

from typing import Any

import torch

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels import _common
from infer_lab.kernels._common import FP8, Target, launch
from infer_lab.kernels._w8a8 import W8A8Config, bulk_copies_work, launch_w8a8, output_of, w8a8_config

__all__ = ["W8A8Config", "fp8_gemm"]


def explicit_roles_work(target: Target, x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether the Hopper kernel can take these operands: all three through the bulk copy engine, which wants 16-byte rows."""
    return target.capability == (9, 0) and bulk_copies_work(x, w, y)


def launch_hopper(x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, y: torch.Tensor, c: W8A8Config) -> None:
    """The kernel with explicit warp roles; tiles of 128 tokens by 128 output channels."""
    import triton.language as tl
    from triton.experimental.gluon.language import NVMMASharedLayout
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from infer_lab.kernels._hopper_fp8_kernel import hopper_fp8_kernel

    def described(t: torch.Tensor, box: list[int], layout: Any) -> Any:
        return TensorDescriptor(t, list(t.shape), list(t.stride()), box, layout)

    (m, k), n = x.shape, w.shape[0]
    rows = NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=8)
    out_type = {torch.bfloat16: tl.bfloat16, torch.float16: tl.float16, torch.float32: tl.float32}[y.dtype]
    target = _common.target_of(x.device)
    tiles = -(-m // 128) * -(-n // 128)
    stages = min(c.num_stages, (target.shared_memory - 2 * 64 * 128 * y.element_size() - 1024) // (256 * 128))
    launch(
        hopper_fp8_kernel, (min(tiles, target.num_sms),),
        described(x, [64, 128], rows), described(w, [128, 128], rows),
        described(y, [64, 128], NVMMASharedLayout.get_default_for([64, 128], out_type)),
        x_scale, w_scale, m, n, k, BLOCK_B=128, BLOCK_K=128, STAGES=stages, BAND=c.band, num_warps=4,
    )  # fmt: skip


def fp8_gemm(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, out: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16, locks: torch.Tensor | None = None, config: W8A8Config | None = None,
) -> torch.Tensor:  # fmt: skip
    """x [m, k] and w [n, k] in float8_e4m3fn, x_scale [m] and w_scale [n] float32: [m, n] in out_dtype.

    Raises UnsupportedHardwareError below sm_89 (use int8_gemm there: same bytes, same scales), InvalidRequestError for shapes or dtypes.
    locks: as in skinny_gemm.
    """
    _common.require_fp8(_common.target_of(x.device))
    if x.dtype != FP8 or w.dtype != FP8:
        raise InvalidRequestError(f"fp8_gemm multiplies float8_e4m3fn; got {x.dtype} and {w.dtype}: quantize with pack.quantize_rows_fp8")
    y = output_of(x, x_scale, w, w_scale, out, out_dtype)
    if not y.numel():
        return y
    target = _common.target_of(x.device)
    c = config or w8a8_config(target, "fp8_gemm", y.shape[0], y.shape[1], x.shape[1])
    if c.hopper and explicit_roles_work(target, x, w, y):
        launch_hopper(x, x_scale, w, w_scale, y, c)
    else:
        launch_w8a8(x, x_scale, w, w_scale, y, locks, c)
    return y
