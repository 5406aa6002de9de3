"""The teaching kernels compute what they teach, on ragged sizes; their counters of sectors and banks say what the hardware manuals say."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.errors import InvalidRequestError, UnsupportedHardwareError, UnsupportedOptionError
from infer_lab.kernels.teaching import banks, softmax
from infer_lab.kernels.teaching.read_again import read_again, stride
from infer_lab.kernels.teaching.strided_copy import sectors_touched, strided_copy
from infer_lab.kernels.teaching.tiled_matmul import tiled_matmul
from infer_lab.kernels.teaching.transpose import transpose
from infer_lab.kernels.teaching.vector_add import vector_add


def drawn(*shape: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype).to(device)


@pytest.mark.parametrize("n", [0, 1, 127, 128, 1000])
def test_vector_add_covers_the_last_partial_block(n: int, device: torch.device) -> None:
    x, y = drawn(n, device=device), drawn(n, device=device) + 1
    assert torch.equal(vector_add(x, y, block=128), x + y)


@pytest.mark.parametrize("n, stride", [(0, 3), (1, 1), (1000, 1), (1000, 7), (257, 300)])
def test_strided_copy_is_a_slice(n: int, stride: int, device: torch.device) -> None:
    x = drawn(n, device=device)
    assert torch.equal(strided_copy(x, stride, block=128), x[::stride])


@pytest.mark.parametrize(("steps", "passes"), [(1, 1), (1, 3), (3, 2)])
def test_read_again_reads_every_element_once_a_pass(steps: int, passes: int, device: torch.device) -> None:
    x = drawn(steps * stride(device, 64), device=device)
    torch.testing.assert_close(read_again(x, passes, tile=64).sum(), passes * x.sum(), rtol=1e-4, atol=1e-3)


def test_read_again_refuses_a_part_of_a_step(device: torch.device) -> None:
    with pytest.raises(InvalidRequestError, match="multiple of"):
        read_again(drawn(stride(device, 64) + 1, device=device), 1, tile=64)


def test_sectors_grow_with_the_stride_until_each_value_costs_one() -> None:
    assert [sectors_touched(s, 4) for s in (1, 2, 4, 8, 32)] == [4, 8, 16, 32, 32]
    assert sectors_touched(1, 2) == 2 and sectors_touched(1, 16) == 16


@pytest.mark.parametrize("stage", [stage for stage in softmax.STAGES if stage != "naive"])
@pytest.mark.parametrize("columns", [1, 100, 333])
def test_every_stage_with_a_maximum_is_softmax(stage: str, columns: int, device: torch.device) -> None:
    x = drawn(4, columns, device=device) * 50
    x[1] = 1000.0  # overflows without the maximum taken away
    x[2, : columns // 2] = float("-inf")
    wide = torch.full((4, columns + 7), float("nan"), device=device)
    wide[:, :columns] = x
    torch.testing.assert_close(softmax.softmax(wide[:, :columns], stage, block=64), torch.softmax(x, 1), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("columns", [1, 100, 333])
def test_the_naive_stage_is_softmax_until_an_exponential_overflows(columns: int, device: torch.device) -> None:
    x = drawn(4, columns, device=device)
    x[2, : columns // 2] = float("-inf")
    torch.testing.assert_close(softmax.softmax(x, "naive", block=64), torch.softmax(x, 1), rtol=1e-5, atol=1e-7)
    x[1, 0] = 89.0
    out = softmax.softmax(x, "naive", block=64)
    assert out[1].isnan().any() and out[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("stage", softmax.STAGES)
def test_a_fully_masked_row_gives_zeros(stage: str, device: torch.device) -> None:
    x = torch.full((2, 100), float("-inf"), device=device)
    assert (softmax.softmax(x, stage, block=64) == 0).all()


def test_a_maximum_of_its_own_costs_a_pass_which_online_saves() -> None:
    assert [softmax.bytes_moved(10, 100, 4, stage) for stage in softmax.STAGES] == [12_000, 16_000, 12_000, 8_000]


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_the_number_of_stages_does_not_change_the_product(stages: int, device: torch.device) -> None:
    a, b = drawn(70, 90, device=device), drawn(50, 90, device=device).T
    answer = tiled_matmul(a, b, stages, block_m=64, block_n=32, block_k=32, num_warps=4)
    torch.testing.assert_close(answer, a @ b, rtol=2e-5, atol=2e-5)
    assert torch.equal(answer, tiled_matmul(a, b, 1, block_m=64, block_n=32, block_k=32, num_warps=4))


def test_a_plain_tile_reads_columns_in_32_turns_and_padding_or_a_swizzle_in_one() -> None:
    assert (banks.row_turns(banks.plain), banks.column_turns(banks.plain)) == (1, 32)
    for place in (banks.padded, banks.swizzled):
        assert (banks.row_turns(place), banks.column_turns(place)) == (1, 1)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 4096), max_size=32))
def test_lanes_that_want_the_same_word_share_a_turn(words: list[int]) -> None:
    assert banks.turns(words) == banks.turns(words + words)
    assert banks.turns(words) <= max(len(set(words)), 0)


def test_misuse_is_named(device: torch.device) -> None:
    x = drawn(8, 8, device=device)
    with pytest.raises(InvalidRequestError, match="one shape"):
        vector_add(x, x[:2])
    with pytest.raises(UnsupportedOptionError, match="three_reads"):
        softmax.softmax(x, "fastest")
    with pytest.raises(UnsupportedOptionError, match="online"):
        softmax.softmax(torch.empty(1, 100_000, device=device))
    with pytest.raises(InvalidRequestError, match="stride"):
        strided_copy(x[0], 0)
    with pytest.raises(UnsupportedHardwareError, match="banks"):
        transpose(torch.empty(2, 2))
