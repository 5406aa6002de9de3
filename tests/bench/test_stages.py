"""The stopwatch: every moment belongs to one stage, and an outer stage stands still while an inner one runs."""

from __future__ import annotations

import pytest

from infer_lab.bench import stages
from infer_lab.bench.stages import Stages


class Clock:
    now = 0.0

    def perf_counter(self) -> float:
        return self.now


class Engine:
    def __init__(self, clock: Clock) -> None:
        self.clock = clock

    def forward(self) -> str:
        self.clock.now += 3
        return "hidden"

    def step(self, kind: str) -> str:
        self.clock.now += 1
        out = self.forward()
        self.clock.now += 2
        return out


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stages, "time", clock)
    return clock


def test_stages_add_up_and_nesting_counts_once(clock: Clock) -> None:
    engine, watch = Engine(clock), Stages()
    watch.watch(engine, "forward", "forward")
    watch.watch(engine, "step", lambda kind: f"step, {kind}")
    clock.now += 10
    watch.start()
    assert engine.step("prefill") == "hidden"
    clock.now += 0.5
    engine.step("decode")
    assert watch.stop() == {"other": 0.5, "step, prefill": 3, "forward": 6, "step, decode": 3}
    assert watch.spans[0].start == 0 and watch.spans[-1].end == 12.5
    assert all(before.end == after.start for before, after in zip(watch.spans, watch.spans[1:], strict=False))


def test_unwatched_methods_are_the_objects_own_again(clock: Clock) -> None:
    engine, watch = Engine(clock), Stages()
    watch.watch(engine, "step", "step")
    watch.unwatch()
    watch.start()
    engine.step("decode")
    assert watch.stop() == {"other": 6}


def test_a_stage_that_raises_is_left(clock: Clock) -> None:
    watch = Stages()
    with pytest.raises(ValueError), watch.stage("fails"):
        clock.now += 1
        raise ValueError
    clock.now += 2
    assert watch.stop() == {"other": 2, "fails": 1}


def test_a_stopwatch_that_does_not_wait_leaves_the_device_alone(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[str] = []
    monkeypatch.setattr("torch.cuda.synchronize", waited.append)
    for wait in (False, True):
        with Stages("cuda", wait=wait).stage("step"):
            pass
        assert waited == ["cuda"] * (3 if wait else 0)
    assert Stages("cuda", "loop", wait=False).other == "loop"
