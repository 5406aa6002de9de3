"""INT8 W8A8: y = (x * x_scale) (w * w_scale)T in int8 with one scale per row on both sides, summed exactly in int32.

Why: the 8-bit path of chips without FP8 (sm_80, sm_86), and the one whose sums are exact everywhere. It needs activations without
outliers (SmoothQuant, Xiao et al. 2022, moves them into the weights first).
"""

from __future__ import annotations

import torch

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels import _common
from infer_lab.kernels._w8a8 import W8A8Config, launch_w8a8, output_of, w8a8_config


def int8_gemm(
    x: torch.Tensor, x_scale: torch.Tensor, w: torch.Tensor, w_scale: torch.Tensor, out: torch.Tensor | None = None,
    out_dtype: torch.dtype = torch.bfloat16, locks: torch.Tensor | None = None, config: W8A8Config | None = None,
) -> torch.Tensor:  # fmt: skip
    """x [m, k] and w [n, k] int8, x_scale [m] and w_scale [n] float32: [m, n] in out_dtype. k up to 133,152 cannot overflow int32.

    Raises InvalidRequestError for shapes or dtypes that do not fit. locks: as in skinny_gemm.
    """
    if x.dtype != torch.int8 or w.dtype != torch.int8:
        raise InvalidRequestError(f"int8_gemm multiplies int8; got {x.dtype} and {w.dtype}: quantize with pack.quantize_rows_int8")
    if x.shape[-1] * 127 * 128 > 2**31 - 1:
        raise InvalidRequestError(f"k = {x.shape[-1]} could overflow int32 sums (limit {(2**31 - 1) // (127 * 128)}): split k")
    y = output_of(x, x_scale, w, w_scale, out, out_dtype)
    if y.numel():
        c = config or w8a8_config(_common.target_of(x.device), "int8_gemm", y.shape[0], y.shape[1], x.shape[1])
        launch_w8a8(x, x_scale, w, w_scale, y, locks, c)
    return y
