"""The lab of prefill and decode as M grows: its checks must catch a step that depends on its neighbours, and work that is done twice.

The notebook's cells run as they stand, on a small random model of SmolLM2's architecture (three layers, GQA 9/3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from infer_course.labkit import CheckFailed
from infer_lab import calculator
from infer_lab.models import llama
from infer_lab.presets import PRESETS
from infer_lab.worker.input_batch import InputBatch
from tests.labs.lab_cells import run_cells, small_sizes


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        monkeypatch.setitem(PRESETS, "smollm2-135m", PRESETS["smollm2-135m"].with_(num_layers=3, vocab_size=2048))
        yield
    plt.close("all")


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells("part0/prefill-decode-knee")["lab"]
    assert (tmp_path / lab.environment.slug / "prefill-decode-knee.json").is_file()
    assert {"knee", "ridge", "decode_gain", "mixed_ms", "prefill_tok_s_24", "decode_ms_4"} <= set(lab.values)
    assert {"matrix", "matrix_floor", "prefill", "decode", "prefill_floor", "decode_floor"} == set(lab.series)


def everybody_reads_the_first_requests_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row of the block table is that of the first request of the step: right as long as a request is alone."""
    sound = InputBatch._slots

    def first_row(self, rows, positions):
        return sound(self, rows * 0 + rows.flat[0], positions)

    monkeypatch.setattr(InputBatch, "_slots", first_row)


def a_decode_step_is_one_position_late(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = InputBatch.prepare

    def late(self, scheduled):
        step = sound(self, scheduled)
        if len(scheduled) == 1 and len(scheduled[0].token_ids) == 1:
            step.positions.sub_(1)
        return step

    monkeypatch.setattr(InputBatch, "prepare", late)


def the_feed_forward_part_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = llama.GatedMLP.forward
    monkeypatch.setattr(llama.GatedMLP, "forward", lambda self, x: (sound(self, x) + sound(self, x)) / 2)


def weights_are_counted_with_the_table_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of a step as if a tied table were read for the embedding too."""
    sound = calculator.decode_weight_bytes
    monkeypatch.setattr(calculator, "decode_weight_bytes", lambda model, width=2: sound(model, width) * 2)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (everybody_reads_the_first_requests_cache, "who else is in the step"),
        (a_decode_step_is_one_position_late, "compute the same function|who else is in the step"),
        (the_feed_forward_part_runs_twice, "every matrix with M rows"),
        (weights_are_counted_with_the_table_twice, "reads the weights once"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells("part0/prefill-decode-knee")
