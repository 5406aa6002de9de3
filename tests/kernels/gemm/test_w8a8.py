"""FP8 and INT8 rowwise products against float64, by pointers and by bulk copies. tests/gpu runs the same tests on a GPU."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

from infer_lab.errors import InvalidRequestError, UnsupportedHardwareError
from infer_lab.kernels import _common, pack, reference_gemm
from infer_lab.kernels._w8a8 import W8A8Config
from infer_lab.kernels.fp8_gemm import fp8_gemm
from infer_lab.kernels.int8_gemm import int8_gemm
from tests.kernels.gemm.products import inside_nan, relative_error, seeded

KINDS = {"fp8": (pack.quantize_rows_fp8, fp8_gemm), "int8": (pack.quantize_rows_int8, int8_gemm)}
# INT8 sums are exact. Hopper's matrix unit aligns FP8 products to about 14 bits, so even a single promoted sum of 128 is off by 1e-4;
# tests/gpu shows that without promotion the error grows with k.
TOLERANCE = {"fp8": 2e-4, "int8": 3e-7}


def operands(kind: str, m: int, n: int, k: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Rows of very different sizes, and a row of zeros on either side."""
    x = seeded(m, k, dtype=torch.float32, device=device) * 10.0 ** (torch.arange(m, device=device) % 4)[:, None]
    w = seeded(n, k, dtype=torch.float32, device=device, seed=1) * 10.0 ** -(torch.arange(n, device=device) % 3)[:, None]
    x[m // 2], w[n // 3] = 0, 0
    return *KINDS[kind][0](x), *KINDS[kind][0](w)


def check(kind: str, m: int, n: int, k: int, device: torch.device, config: W8A8Config | None = None, hostile: bool = True) -> None:
    x, x_scale, w, w_scale = operands(kind, m, n, k, device)
    if hostile:
        x, w = inside_nan(x), inside_nan(w)
    out = torch.full((m, n), float("nan"), dtype=torch.float32, device=device)
    KINDS[kind][1](x, x_scale, w, w_scale, out=out, config=config)
    assert relative_error(out, reference_gemm.scaled_rows(x, x_scale, w, w_scale, torch.float64)) < TOLERANCE[kind]
    assert (out[m // 2] == 0).all() and (out[:, n // 3] == 0).all()  # CASEBOOK 21: a zero row is zero, not NaN


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m, n, k", [(5, 130, 200), (70, 33, 96), (1, 64, 500)])
def test_rowwise_product_by_pointers(kind: str, m: int, n: int, k: int, device: torch.device) -> None:
    check(kind, m, n, k, device)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("persistent, hopper", [(0, False), (1, False), (1, True)])
@pytest.mark.parametrize("m, n, k", [(150, 100, 208), (260, 132, 128)])
def test_rowwise_product_by_bulk_copies_with_tails(
    kind: str, m: int, n: int, k: int, persistent: int, hopper: bool, device: torch.device
) -> None:
    config = W8A8Config(64, 64, 64, num_warps=4, bulk=True, persistent=persistent, hopper=hopper, band=2)
    check(kind, m, n, k, device, config, hostile=False)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_that_bulk_copies_cannot_address_fall_back_to_pointers(kind: str, device: torch.device) -> None:
    check(kind, 40, 70, 99, device, W8A8Config(64, 64, 64, num_warps=4, bulk=True, specialize=True))


@pytest.mark.parametrize("kind", KINDS)
def test_split_k_for_a_few_tokens(kind: str, device: torch.device) -> None:
    check(kind, 3, 140, 520, device, W8A8Config(64, 16, 64, split_k=4, num_warps=4))


def test_int8_sums_are_exact_where_float32_would_lose_the_last_digits(device: torch.device) -> None:
    k = 4096  # half of the products add up to 33 million, and float32 counts only to 16.8 million
    x = torch.full((2, k), 127, dtype=torch.int8, device=device)
    w = torch.full((3, k), 127, dtype=torch.int8, device=device)
    w[:, k // 2 :] = -127
    w[0, 0] = 126
    one = torch.ones(3, device=device)
    assert int8_gemm(x, one[:2], w, one, out_dtype=torch.float32)[0].tolist() == [-127.0, 0.0, 0.0]


def test_a_chip_without_fp8_is_named_with_the_alternative(device: torch.device) -> None:
    x, x_scale, w, w_scale = operands("fp8", 2, 8, 32, device)
    a100 = _common.Target("a100", (8, 0), 163 * 1024, 108)
    with mock.patch.object(_common, "target_of", lambda _: a100), pytest.raises(UnsupportedHardwareError, match=r"8\.0.*INT8"):
        fp8_gemm(x, x_scale, w, w_scale)


def test_operands_that_do_not_fit_are_named(device: torch.device) -> None:
    x, x_scale, w, w_scale = operands("int8", 4, 8, 64, device)
    with pytest.raises(InvalidRequestError, match="same k"):
        int8_gemm(x, x_scale, w[:, :32], w_scale)
    with pytest.raises(InvalidRequestError, match="one scale per row"):
        int8_gemm(x, w_scale, w, w_scale)
    with pytest.raises(InvalidRequestError, match="quantize_rows_fp8"):
        fp8_gemm(x, x_scale, w, w_scale)
    with pytest.raises(InvalidRequestError, match="overflow"):
        int8_gemm(x.repeat(1, 3000), x_scale, w.repeat(1, 3000), w_scale)
    with pytest.raises(InvalidRequestError, match="contiguous"):
        int8_gemm(x.T.contiguous().T, x_scale, w, w_scale)
