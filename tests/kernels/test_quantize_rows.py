"""Activations to 8 bits in one launch, against plain torch, bit for bit. tests/gpu runs the same tests on a GPU."""

from __future__ import annotations

import pytest
import torch

from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels.pack import quantize_rows_fp8, quantize_rows_int8
from infer_lab.kernels.quantize_rows import quantize_rows
from tests.kernels.gemm.products import inside_nan

PLAIN = {torch.float8_e4m3fn: quantize_rows_fp8, torch.int8: quantize_rows_int8}


@pytest.mark.parametrize("to", list(PLAIN), ids=str)
@pytest.mark.parametrize("shape", [(1, 1), (3, 96), (5, 576), (2, 9000)], ids=str)
def test_rows_equal_plain_torch(device: torch.device, dtype: torch.dtype, to: torch.dtype, shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(shape[1])
    x = torch.randn(shape, generator=generator) * 2.0 ** torch.randint(-10, 10, (shape[0], 1), generator=generator)
    x[-1, : shape[1] // 2] = 0
    x = x.to(dtype)
    q, scale = quantize_rows(inside_nan(x.to(device)), to)
    expected, expected_scale = PLAIN[to](x)
    assert torch.equal(scale.cpu(), expected_scale)
    found, expected = q.cpu().float(), expected.float()
    if _common.interpreting() and to == torch.float8_e4m3fn:
        # Triton 3.6's interpreter loses the carry into the exponent: 1.99 becomes 1.0
        assert float((found != expected).float().mean()) < 0.08
    else:
        assert torch.equal(found, expected)


@pytest.mark.parametrize("to", list(PLAIN), ids=str)
def test_casebook_21_zeros_stay_zeros_and_no_row_is_no_work(device: torch.device, dtype: torch.dtype, to: torch.dtype) -> None:
    q, scale = quantize_rows(torch.zeros(2, 40, dtype=dtype, device=device), to)
    assert not q.float().any() and scale.tolist() == [1.0, 1.0]
    assert quantize_rows(torch.zeros(0, 40, dtype=dtype, device=device), to)[0].shape == (0, 40)


def test_other_types_are_refused(device: torch.device) -> None:
    with pytest.raises(UserError, match=r"not torch\.float16"):
        quantize_rows(torch.zeros(2, 40, device=device), torch.float16)
