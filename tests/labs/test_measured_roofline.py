"""Faults in the ruler: work that is counted wrong makes every rate and every roof wrong without any error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from infer_course.labkit import CheckFailed
from infer_lab import hardware
from infer_lab.bench import counters, limits
from infer_lab.bench.limits import Rate
from infer_lab.units import Quantity
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part0/measured-roofline"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "measured-roofline.json").is_file()
    assert {"read_bandwidth", "matmul_peak", "ridge", "softmax_share", "product_1_row_share"} <= set(lab.values)
    assert {"levels", "kernels", "roof"} == set(lab.series)


def scaled(name: str, factor: float) -> Callable[[pytest.MonkeyPatch], None]:
    def plant(monkeypatch: pytest.MonkeyPatch) -> None:
        sound = getattr(limits, name)

        def wrong(*arguments):
            rate = sound(*arguments)
            return Rate(tuple(sample * factor for sample in rate.samples), rate.unit)

        monkeypatch.setattr(limits, name, wrong)

    return plant


def the_peak_with_sparsity(monkeypatch: pytest.MonkeyPatch) -> None:
    h100 = hardware.GPUS["h100_80gb"]
    sparse = replace(h100, peak=MappingProxyType({**h100.peak, "bf16": Quantity(1978.9, "TFLOP/s")}))
    monkeypatch.setattr(hardware, "GPUS", MappingProxyType({**hardware.GPUS, "h100_80gb": sparse}))


def one_bandwidth_for_every_a100(monkeypatch: pytest.MonkeyPatch) -> None:
    rounded = {key: replace(card, bandwidth=Quantity(2, "TB/s")) if key.startswith("a100") else card for key, card in hardware.GPUS.items()}
    monkeypatch.setattr(hardware, "GPUS", MappingProxyType(rounded))


def counts_reads_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters.Counted, "over_formula", property(lambda one: one.values["read"] / one.nbytes))


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        pytest.param(scaled("copy", 0.5), "a copy counts its bytes twice", id="copy-counted-once"),
        pytest.param(scaled("matmul", 0.5), "a multiply-add counts as two", id="multiply-add-is-one"),
        pytest.param(scaled("read_stream", 1e9 / 2**30), "a read counts each byte", id="gib-called-gb"),
        pytest.param(the_peak_with_sparsity, "the ridge is the dense peak", id="sparse-peak"),
        pytest.param(one_bandwidth_for_every_a100, "the card's own bandwidth", id="a100-is-2-TB/s"),
        pytest.param(counts_reads_only, "counters and shapes agree", id="counters-without-writes"),
    ],
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
