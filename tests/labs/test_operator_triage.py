"""Faults in the definitions, the sector count and Amdahl's formula, which the lab's checks must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infer_course import labkit
from infer_course.labkit import CheckFailed
from infer_lab import calculator
from infer_lab.bench import counters
from infer_lab.kernels import reference
from infer_lab.kernels.teaching import strided_copy
from infer_lab.units import Quantity
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/operator-triage"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "operator-triage.json").is_file()
    assert {"whole_speedup", "norm_share", "transpose_suspect_share_32"} <= set(lab.values)


def no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = reference.attention_rows
    monkeypatch.setattr(reference, "attention_rows", lambda q, k, v, scale, causal, *rest: sound(q, k, v, scale, False, *rest))


def mask_from_the_top_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The definition has the suspect's own fault: nothing is found."""
    sound = reference.attention_rows
    monkeypatch.setattr(reference, "attention_rows", lambda q, k, v, *rest: sound(q, k[: len(q)], v[: len(q)], *rest))


def gate_and_up_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = reference.silu_mul
    monkeypatch.setattr(reference, "silu_mul", lambda x, *rest: sound(x.roll(x.shape[-1] // 2, -1), *rest))


def rotates_backwards(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = reference.rope
    monkeypatch.setattr(reference, "rope", lambda x, positions, table, **rest: sound(x, positions.flip(0), table, **rest))


def half_a_sector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided_copy, "SECTOR_BYTES", 64)


def counts_bytes_for_sectors(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = labkit.counters

    def wrong(topic: str, metrics: counters.Metrics = counters.TRAFFIC) -> labkit.Counts:
        found = sound(topic, metrics)
        cases = {
            name: replace(one, values={key: 32 * value if key == "sectors" else value for key, value in one.values.items()})
            for name, one in found.cases.items()
        }
        return replace(found, cases=cases)

    monkeypatch.setattr(labkit, "counters", wrong)


def adds_the_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calculator, "amdahl_speedup", lambda part, factor: Quantity(1 + part * (factor - 1), "x"))


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (no_mask, "the test that people write first"),
        (mask_from_the_top_left, "exactly the three that are wrong"),
        (gate_and_up_exchanged, "the test that people write first"),
        (rotates_backwards, "the test that people write first"),
        (half_a_sector, "eight times the sectors"),
        (counts_bytes_for_sectors, "as many sectors a store"),
        (adds_the_shares, "15 % less time"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
