"""Turns, counts and what is divided by what; the GPU is a pretended one with a clock of its own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from infer_lab.bench import replays, timer
from infer_lab.bench.replays import replayed
from infer_lab.errors import UserError


def test_variants_take_turns_and_warm_up_is_not_counted() -> None:
    order = []
    timings = replayed({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, warmup=1, rounds=2)
    assert order == ["a", "b", "b", "a", "a", "b"]
    assert [timings[name].n for name in ("a", "b")] == [2, 2]


def test_calls_of_one_variant_are_taken_in_turn() -> None:
    order = []
    replayed({"a": [lambda: order.append(0), lambda: order.append(1)]}, warmup=0, rounds=4)
    assert order == [0, 1, 0, 1]


def test_no_rounds_and_no_calls_are_refused() -> None:
    with pytest.raises(UserError, match="rounds"):
        replayed({"a": lambda: None}, rounds=0)
    with pytest.raises(UserError, match="nothing to call in b"):
        replayed({"a": lambda: None, "b": []})


class Gpu:
    """Calls add their seconds to a clock; a replay repeats what was recorded and pays 10 µs for its launch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.replays: list[int] = []
        monkeypatch.setattr(torch, "cuda", SimpleNamespace(device=self.on, Event=self.event, synchronize=lambda: None))
        monkeypatch.setattr(timer, "graphed", self.graphed)

    def on(self, device: str) -> Gpu:
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def event(self, enable_timing: bool) -> SimpleNamespace:
        made = SimpleNamespace(at=0.0)
        made.record = lambda: setattr(made, "at", self.now)
        made.elapsed_time = lambda end: 1e3 * (end.at - made.at)
        return made

    def graphed(self, fn, device: str, *, warmup: int):
        before = self.now
        fn()
        seconds, self.now = self.now - before, before

        def replay() -> None:
            self.replays.append(round(seconds * 1e6))
            self.now += seconds + 10e-6

        return replay

    def work(self, seconds: float):
        return lambda: setattr(self, "now", self.now + seconds)


def test_short_calls_are_repeated_inside_a_graph_and_long_ones_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    timings = replayed({"short": gpu.work(40e-6), "long": gpu.work(3e-3)}, "cuda", warmup=1, rounds=4)
    assert timings["short"].median == pytest.approx(40e-6, rel=0.02), "the launch of 10 µs is spread over 20 calls"
    assert timings["long"].median == pytest.approx(3e-3, rel=0.01)
    assert gpu.replays[-4:] == [3000, 800, 800, 3000], "in turns"
    assert timings["short"].clock == "events"


def test_a_walk_over_several_calls_gives_the_time_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    timings = replayed({"walk": [gpu.work(30e-6), gpu.work(50e-6)]}, "cuda", rounds=3)
    assert timings["walk"].median == pytest.approx(40e-6, rel=0.02)


def test_the_number_of_calls_in_a_graph_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu(monkeypatch)
    replayed({"tiny": gpu.work(1e-6)}, "cuda", rounds=1)
    assert max(gpu.replays) <= replays._MOST_CALLS
