"""Faults in the one timer, each a classic of wrong benchmarks, which the lab's checks must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from infer_course.labkit import CheckFailed
from infer_lab import bench
from infer_lab.bench import card, timer
from infer_lab.bench.rounds import one_of_many
from infer_lab.bench.timer import Timing
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/timing-right-and-wrong"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "timing-right-and-wrong.json").is_file()
    assert {
        "not_synchronized_us",
        "measured_rate",
        "profiler_slowdown",
        "small_one_of_many_matrices_in_turn_us",
        "compile_first_ms",
    } <= set(lab.values)


def samples_of(monkeypatch: pytest.MonkeyPatch, change: Callable) -> None:
    """on_cpu(sound, fn, before, warmup, repeats) in place of the timer's loop."""
    sound = timer._on_cpu
    monkeypatch.setattr(timer, "_on_cpu", lambda *args: change(sound, *args))


def counts_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    samples_of(monkeypatch, lambda sound, fn, before, warmup, repeats: sound(fn, before, 0, repeats))


def times_the_setup(monkeypatch: pytest.MonkeyPatch) -> None:
    samples_of(monkeypatch, lambda sound, fn, before, warmup, repeats: sound(lambda: (before(), fn()), lambda: None, warmup, repeats))


def keeps_only_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    samples_of(monkeypatch, lambda sound, *args: (min(sound(*args)),) * args[-1])


def drops_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    samples_of(monkeypatch, lambda sound, *args: sound(*args)[1:] or sound(*args))


def does_not_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "sorted", list, raising=False)


def mean_for_median(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timing, "median", property(lambda self: sum(self.samples) / len(self.samples)))


def per_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Timing, "per", lambda self, count: self)


def forgets_to_divide_by_the_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        bench, "one_of_many", lambda calls, *args, count, **options: one_of_many(calls, *args, count=count, **options).per(1 / count)
    )


def divides_by_the_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right while each operand is used once."""

    def of_operands(calls, *args, count, **options):
        return one_of_many(calls, *args, count=count, **options).per(len(calls) / count)

    monkeypatch.setattr(bench, "one_of_many", of_operands)


def stays_on_one_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call finds its data in the cache."""
    monkeypatch.setattr(bench, "one_of_many", lambda calls, *args, **options: one_of_many(calls[:1], *args, **options))


def reads_the_reasons_from_the_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(card, "_REASONS", card._REASONS[::-1])


def compiles_at_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built is thrown away."""

    def compile_again(fn, *, backend, **options):
        return lambda *inputs: backend(SimpleNamespace(forward=fn), inputs)(*inputs)

    monkeypatch.setattr(torch, "compile", compile_again)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (counts_the_warm_up, "warm-up calls are not among the samples"),
        (times_the_setup, "warm-up calls|setting up is outside"),
        (keeps_only_the_best, "the sample is kept"),
        (drops_one_sample, "as many samples as asked for"),
        (does_not_sort, "whatever the order"),
        (mean_for_median, "warm-up calls|does not move for one disturbed sample"),
        (per_of_the_whole, "a quarter"),
        (forgets_to_divide_by_the_calls, "share its start"),
        (divides_by_the_operands, "share its start"),
        (stays_on_one_operand, "use every operand"),
        (compiles_at_every_call, "the first call of a shape compiles"),
        (reads_the_reasons_from_the_other_end, "what the card says of itself"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
