"""Faults in the counted algorithms, each a classic: no shift, no rescaling, a NaN from a masked row, one pass too many."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from infer_course.labkit import CheckFailed
from infer_lab.teaching import softmax
from infer_lab.teaching.softmax import State
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/softmax-to-flash-attention"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "softmax-to-flash-attention.json").is_file()
    assert {"accesses_naive", "accesses_safe", "accesses_online"} <= set(lab.values)


def shifts_by_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "safe_softmax", softmax.naive_softmax)


def reads_the_row_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = softmax.online_softmax

    def extra(x, out, block):
        _ = x[:]
        sound(x, out, block)

    monkeypatch.setattr(softmax, "online_softmax", extra)


def keeps_the_old_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """l and u are added without exp(m_old - m_new)."""
    monkeypatch.setattr(softmax, "merge", lambda a, b: State(torch.maximum(a.m, b.m), a.l + b.l, a.u + b.u))


def rescales_the_sum_only(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = softmax.merge

    def half(a: State, b: State) -> State:
        merged = sound(a, b)
        return State(merged.m, merged.l, a.u + b.u)

    monkeypatch.setattr(softmax, "merge", half)


def subtracts_minus_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "finite", lambda m: m)


def divides_by_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(softmax, "finish", lambda state: state.u / state.l[:, None])


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (shifts_by_nothing, "3, 4 and 3 accesses"),
        (reads_the_row_once_more, "3, 4 and 3 accesses"),
        (keeps_the_old_sum, "merge in any order"),
        (rescales_the_sum_only, "merge in any order"),
        (subtracts_minus_infinity, "fully masked row|saw nothing"),
        (divides_by_zero, "fully masked row"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
