"""Every test of tests/kernels/gemm with `device` and `dtype` of a GPU, and what only a GPU can show."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest
import torch

from infer_lab.kernels import reference_gemm
from infer_lab.kernels._gemm import GemmConfig
from infer_lab.kernels._w8a8 import W8A8Config
from infer_lab.kernels.fp8_gemm import fp8_gemm
from tests.kernels.gemm.products import ROUNDED_ONCE, relative_error, seeded
from tests.kernels.gemm.test_products import *  # noqa: F403
from tests.kernels.gemm.test_products import GROUPS, KERNELS, weight_of
from tests.kernels.gemm.test_w8a8 import *  # noqa: F403
from tests.kernels.gemm.test_w8a8 import operands

pytestmark = pytest.mark.gpu
HALVES = pytest.mark.parametrize("half", [torch.float16, torch.bfloat16], ids=["fp16", "bf16"])


@HALVES
@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("bits, group", GROUPS)
def test_casebook_26_bit_tricks_and_plain_converts_give_the_same_bits(
    bits: int, group: int | None, symmetric: bool, half: torch.dtype, device: torch.device
) -> None:
    """The interpreter runs the converts, the GPU the PTX: this ties the one's verdict to the other's."""
    x = seeded(9, 520, dtype=half, device=device)
    weight = weight_of(130, 520, bits, group, symmetric, x)
    fast = KERNELS[bits](x, weight)
    with mock.patch(f"infer_lab.kernels.w{bits}a16.may_use_ptx", lambda _: False):
        plain = KERNELS[bits](x, weight)
    assert torch.equal(fast, plain)


@HALVES
@pytest.mark.parametrize("m", [1, 2, 7, 8, 9, 16, 17, 33, 64, 100, 128, 300])
@pytest.mark.parametrize("bits, group", [(4, 128), (4, 32), (8, None), (8, 64)])
def test_real_sizes_from_one_token_to_many(m: int, bits: int, group: int | None, half: torch.dtype, device: torch.device) -> None:
    x = seeded(m, 4096, dtype=half, device=device)
    weight = weight_of(1536, 4096, bits, group, True, x)
    out = torch.full((m, 1536), float("nan"), dtype=half, device=device)
    KERNELS[bits](x, weight, out=out)
    # scaled weights (above 32 tokens) may add one more rounding to the dtype
    allowed = ROUNDED_ONCE[half] if m <= 32 else {torch.float16: 4.5e-4, torch.bfloat16: 3.5e-3}[half]
    assert relative_error(out, reference_gemm.weight_only(x, weight, torch.float64).to(half)) < allowed


@pytest.mark.parametrize("split_k", [4, 8, 16])
def test_a_hundred_split_k_runs_give_the_same_bits(split_k: int, device: torch.device) -> None:
    """A missing barrier shows as an error that moves."""
    x = seeded(16, 8192, dtype=torch.bfloat16, device=device)
    weight = weight_of(4096, 8192, 4, 128, True, x)
    config = GemmConfig(128, 16, weight.block_k, split_k=split_k)
    first = KERNELS[4](x, weight, config=config)
    assert relative_error(first, reference_gemm.weight_only(x, weight, torch.float64).bfloat16()) < ROUNDED_ONCE[torch.bfloat16]
    for _ in range(100):
        assert torch.equal(KERNELS[4](x, weight, config=config), first)


SPECIALIZED = W8A8Config(128, 128, num_warps=4, num_stages=4, bulk=True, specialize=True)


@pytest.mark.parametrize(
    "config", [SPECIALIZED, replace(SPECIALIZED, hopper=True), W8A8Config(128, 128, bulk=True, persistent=1), W8A8Config(128, 128)]
)
def test_promoted_fp8_sums_are_as_good_as_float32(config: W8A8Config, device: torch.device) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        config = W8A8Config(128, 64, num_warps=4)
    x, x_scale, w, w_scale = operands("fp8", 512, 384, 8192, device)
    y = fp8_gemm(x, x_scale, w, w_scale, out_dtype=torch.float32, config=config)
    expected = reference_gemm.scaled_rows(x, x_scale, w, w_scale, torch.float64)
    promoted = relative_error(y, expected)
    assert promoted < 2e-4, f"{promoted:.2e}"
    for _ in range(20):  # a missing barrier shows as an answer that moves
        assert torch.equal(fp8_gemm(x, x_scale, w, w_scale, out_dtype=torch.float32, config=config), y)


@pytest.mark.parametrize("m, n, k", [(128, 128, 256), (1000, 520, 1184), (4096, 256, 8192), (300, 4096, 128)])
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32])
def test_the_hopper_kernel_writes_every_element_of_any_shape(m: int, n: int, k: int, out_dtype: torch.dtype, device: torch.device) -> None:
    x, x_scale, w, w_scale = operands("fp8", m, n, k, device)
    out = torch.full((m, n), float("nan"), dtype=out_dtype, device=device)
    fp8_gemm(x, x_scale, w, w_scale, out=out, config=replace(SPECIALIZED, hopper=True))
    expected = reference_gemm.scaled_rows(x, x_scale, w, w_scale, torch.float64)
    assert relative_error(out, expected) < (2e-4 if out_dtype == torch.float32 else 3e-3)
