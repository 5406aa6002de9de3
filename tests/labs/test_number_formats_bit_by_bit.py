"""Faults in the library's quantizers and in its count of bits, each caught by the check that states the bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from infer_course.labkit import CheckFailed
from infer_lab import calculator
from infer_lab.kernels import pack
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part0/number-formats-bit-by-bit"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    cells = run_cells(LAB)
    lab = cells["lab"]
    assert (tmp_path / lab.environment.slug / "number-formats-bit-by-bit.json").is_file()
    assert {
        "bf16_ms",
        "dot_fp16_in_fp16",
        "dot_fp16_in_fp32",
        "dot_bf16_in_fp16",
        "dot_e4m3_inputs",
        "fp4_mxfp4_outliers",
        "fp4_one_scale_weights",
    } <= set(lab.values)
    assert {"spacing_e4m3", "spacing_e5m2"} == set(lab.series)
    for axis in (cells["ax"].xaxis, cells["ax"].yaxis):
        assert sum(bool(label.get_text()) for label in axis.get_ticklabels()) >= 4, "the plot of spacings says where it is"


def fp8_scaled_to_240(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest value of another E4M3 (fnuz): nothing overflows, a bit of range is wasted."""

    def smaller(x):
        scale = x.abs().amax(-1) / 240
        return (x / scale[:, None]).to(torch.float8_e4m3fn), scale

    monkeypatch.setattr(pack, "quantize_rows_fp8", smaller)


def int8_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Truncated instead of rounded."""

    def cut(x):
        scale = x.abs().amax(-1) / 127
        return (x / scale[:, None]).to(torch.int8), scale

    monkeypatch.setattr(pack, "quantize_rows_int8", cut)


def fp8_with_two_mantissa_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = pack.quantize_rows_fp8

    def coarse(x):
        q, scale = sound(x)
        return q.float().to(torch.float8_e5m2).float().clamp(-448, 448).to(torch.float8_e4m3fn), scale

    monkeypatch.setattr(pack, "quantize_rows_fp8", coarse)


def scales_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calculator, "bits_per_weight", lambda bits, *_: bits)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (fp8_scaled_to_240, "takes the largest code"),
        (int8_cut_off, "half a step"),
        (fp8_with_two_mantissa_bits, r"at most 1/16 of each value"),
        (scales_are_free, "a block's scale is part of the bits"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
