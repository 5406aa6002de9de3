"""Faults in the classifier that the lab rests on, each of which would name a wrong bottleneck."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from infer_course import labkit
from infer_course.labkit import CheckFailed
from infer_lab.bench import bound
from infer_lab.bench.bound import MachineLimits, Work
from infer_lab.bench.counters import Metrics
from infer_lab.units import Quantity
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part0/name-the-bottleneck"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "name-the-bottleneck.json").is_file()
    assert {"launch_us", "one_row_ratio", "thin_work_explained", "many_additions_ms", "one_row_misnamed"} <= set(lab.values)


def always_names_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "ENOUGH", 0.0)


def change_floors(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Quantity]], dict[str, Quantity]]) -> None:
    sound = MachineLimits.floors
    monkeypatch.setattr(MachineLimits, "floors", lambda self, work: change(sound(self, work)))


def forgets_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    change_floors(monkeypatch, lambda floors: floors | {"launch": Quantity(0, "s")})


def counts_bytes_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    change_floors(monkeypatch, lambda floors: floors | {"bandwidth": 2 * floors["bandwidth"]})


def takes_the_smallest_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    change_floors(monkeypatch, lambda floors: dict(zip(floors, sorted(floors.values(), key=lambda time: -time.base), strict=True)))


def adds_a_launch_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Work.__init__
    monkeypatch.setattr(Work, "__init__", lambda self, flops, nbytes, launches=1, sent=0: sound(self, flops, nbytes, launches + 1, sent))


def reads_counters_crosswise(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = labkit.counters

    def wrong(topic: str, metrics: Metrics) -> labkit.Counts:
        found = sound(topic, metrics)
        crossed = lambda v: {**v, "memory": v["sm"], "sm": v["memory"]}  # noqa: E731
        return replace(found, cases={name: replace(one, values=crossed(one.values)) for name, one in found.cases.items()})

    monkeypatch.setattr(labkit, "counters", wrong)


def floors_do_not_grow_with_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations count up to those of one token of the 8B model: a wrong name would foretell what was measured."""
    change_floors(monkeypatch, lambda floors: floors | {"compute": min(floors["compute"], Quantity(2e-5, "s"), key=lambda time: time.base)})


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (always_names_the_largest, "below half of the time it is latency"),
        (forgets_launches, "the largest floor names the bound"),
        (counts_bytes_twice, r"a millisecond is 989\.4 GFLOP|the largest floor names the bound"),
        (takes_the_smallest_floor, "the largest floor names the bound"),
        (reads_counters_crosswise, "the counters give the names"),
        (floors_do_not_grow_with_work, "caught by its own prediction|names the bound"),
        (adds_a_launch_to_all, "200 launches|takes away launches only"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
