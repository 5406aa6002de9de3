"""Faults in the dispatcher of graphs, in RMSNorm and in the step, which the lab's checks must catch."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infer_course.labkit import CheckFailed
from infer_lab.kernels import reference
from infer_lab.presets import PRESETS
from infer_lab.worker import decode_graphs
from infer_lab.worker.decode_graphs import DecodeGraphs
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/launch-overhead-and-cuda-graphs"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setitem(PRESETS, "smollm2-135m", PRESETS["smollm2-135m"].with_(num_layers=2, vocab_size=1024))
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "launch-overhead-and-cuda-graphs.json").is_file()
    assert {"operations_per_step", "start_us", "called_ms_1", "padding_share"} <= set(lab.values)


def smallest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = DecodeGraphs.capture

    def capture(self, steps=iter):
        self.sizes.reverse()
        sound(self, steps)
        self.sizes.reverse()

    monkeypatch.setattr(DecodeGraphs, "capture", capture)


def one_size_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DecodeGraphs, "size_for", lambda self, n: self.sizes[min(bisect_right(self.sizes, n), len(self.sizes) - 1)])


def rounds_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        DecodeGraphs,
        "size_for",
        lambda self, n: self.sizes[max(bisect_right(self.sizes, n - 1) - 1, 0)] if n not in (1, 5) else {1: 1, 5: 8}[n],
    )


def forgets_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = decode_graphs.bucket_sizes
    monkeypatch.setattr(decode_graphs, "bucket_sizes", lambda most: [*sound(most), most + 16])


def norm_without_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = reference.rmsnorm
    monkeypatch.setattr(reference, "rmsnorm", lambda x, w, eps, *rest: sound(x, w, eps, *rest) * 0.9)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (smallest_first, "from the largest to the smallest"),
        (one_size_too_far, "a batch of 1 in its own"),
        (rounds_down, "never smaller than the batch"),
        (forgets_the_largest_batch, "as many requests as the scheduler may run"),
        (norm_without_the_mean, "in pieces and fused"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
