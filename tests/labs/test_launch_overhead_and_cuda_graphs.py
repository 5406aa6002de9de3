"""Faults in the dispatcher of graphs, in RMSNorm and in the step, which the lab's checks must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infer_course.labkit import CheckFailed
from infer_lab.kernels import reference
from infer_lab.presets import PRESETS
from infer_lab.worker import step_graphs
from infer_lab.worker.step_graphs import StepGraphs, StepShape
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
    sound = StepGraphs.capture

    def capture(self, steps=iter):
        self.shapes.reverse()
        sound(self, steps)
        self.shapes.reverse()

    monkeypatch.setattr(StepGraphs, "capture", capture)


def change_shape(monkeypatch: pytest.MonkeyPatch, of: Callable[[StepGraphs, StepShape], StepShape | None]) -> None:
    monkeypatch.setattr(StepGraphs, "shape_for", of)


def one_size_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = StepGraphs.shape_for
    change_shape(monkeypatch, lambda self, s: sound(self, s._replace(tokens=s.tokens + 1)) or sound(self, s))


def rounds_down(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right at the sizes that one would try first."""
    sound = StepGraphs.shape_for

    def below(self, needed):
        fitting = [s for s in self.shapes if s.chunks == needed.chunks and s.tokens <= needed.tokens]
        return sound(self, needed) if needed.tokens in (1, 5) or needed.chunks else fitting[-1]

    change_shape(monkeypatch, below)


def takes_the_largest_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = StepGraphs.shape_for
    change_shape(monkeypatch, lambda self, needed: sound(self, needed) or self.shapes[-1])


def goes_beyond_the_largest_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = step_graphs.graph_shapes

    def shapes(most, max_tokens):
        return [*(s for s in sound(most, max_tokens) if s.tokens != most or s.chunks), StepShape(most + 16, most + 16, most + 16, False)]

    monkeypatch.setattr(step_graphs, "graph_shapes", shapes)


def norm_without_the_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = reference.rmsnorm
    monkeypatch.setattr(reference, "rmsnorm", lambda x, w, eps, *rest: sound(x, w, eps, *rest) * 0.9)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (smallest_first, "from the largest to the smallest"),
        (one_size_too_far, "a batch of 1 in its own"),
        (rounds_down, "never smaller than the batch"),
        (goes_beyond_the_largest_batch, "as many requests as the scheduler may run"),
        (takes_the_largest_there_is, "runs without one"),
        (norm_without_the_mean, "in pieces and fused"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
