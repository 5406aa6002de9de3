"""Faults in loops, schedules and costs: outputs written too often, a unit that does two things, exponentials for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infer_course.labkit import CheckFailed
from infer_lab.teaching import attention, pipeline
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/flash-attention-loop-orders"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "flash-attention-loop-orders.json").is_file()
    assert {"fa1_written", "fa2_written", "busy_128_prefetch", "busy_64_ping_pong", "fp8_error_rotated"} <= set(lab.values)


def the_orders_are_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, queries = attention._keys_outside, attention._queries_outside
    monkeypatch.setattr(attention, "_keys_outside", queries)
    monkeypatch.setattr(attention, "_queries_outside", keys)


def divides_inside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = attention._queries_outside

    def eager(q, k, v, out, block_q, block_k):
        work = sound(q, k, v, out, block_q, block_k)
        work.divided *= len(k.data) // block_k
        return work

    monkeypatch.setattr(attention, "_queries_outside", eager)


def leaves_out_the_last_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = attention.state_of
    monkeypatch.setattr(attention, "state_of", lambda scores, values: sound(scores[:, :-1], values[:-1]))


def exponentials_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = pipeline._work

    def free(schedule, costs, tiles):
        return [(name, unit, 0 if unit == "exp" else cycles, needs) for name, unit, cycles, needs in sound(schedule, costs, tiles)]

    monkeypatch.setattr(pipeline, "_work", free)


def prefetch_waits_for_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = pipeline._work
    monkeypatch.setattr(
        pipeline, "_work", lambda schedule, costs, tiles: sound("sequential" if schedule == "prefetch" else schedule, costs, tiles)
    )


def both_warpgroups_in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = pipeline._work
    monkeypatch.setattr(
        pipeline, "_work", lambda schedule, costs, tiles: sound("pipelined" if schedule == "ping-pong" else schedule, costs, tiles)
    )


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (the_orders_are_swapped, "write each output once"),
        (divides_inside_the_loop, "divide each row once"),
        (leaves_out_the_last_keys, "gives the same result"),
        (exponentials_cost_nothing, "idle for the exponentials"),
        (prefetch_waits_for_everything, "idle for the exponentials"),
        (both_warpgroups_in_step, "only two warpgroups"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
