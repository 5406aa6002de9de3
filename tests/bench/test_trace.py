"""A trace: a moment of the host belongs to the innermost stage, a kernel to the stage in which it was started."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infer_lab.bench.gaps import Event
from infer_lab.bench.stages import Span, Stages
from infer_lab.bench.trace import UNKNOWN, WAIT, self_spans, trace_of, traced


def event(name: str, start_us: float, end_us: float, device: str = "CPU", id: int = 0) -> Event:
    return Event(name, start_us / 1e6, end_us / 1e6, device != "CPU", id)


REQUEST = [
    event("loop", 1000, 1100),
    event("schedule", 1010, 1020),
    event("decode", 1020, 1050),
    event("aten::mm", 1022, 1030, id=1),  # an operator's number is no launch's
    event("cudaGraphLaunch", 1030, 1034, id=1),
    event("sample", 1050, 1090),
    event("cudaMemcpyAsync", 1060, 1085, id=2),
    event("gemm", 1040, 1070, "CUDA", id=1),
    event("softmax", 1065, 1080, "CUDA", id=1),
    event("Memcpy DtoH", 1082, 1084, "CUDA", id=2),
    event("decode", 1040, 1080, "CUDA"),  # the range, as the device saw it
    event("of somebody else", 1090, 1095, "CUDA", id=99),
]


def test_a_kernel_belongs_to_the_stage_that_started_it_and_waiting_is_a_stage() -> None:
    trace = trace_of(REQUEST, {"schedule", "decode", "sample"}, "loop")
    assert trace.host(0, trace.end) == pytest.approx({"loop": 20e-6, "schedule": 10e-6, "decode": 30e-6, "sample": 15e-6, WAIT: 25e-6})
    assert trace.device(0, trace.end) == pytest.approx({"decode": 45e-6, "sample": 2e-6, UNKNOWN: 5e-6})
    assert trace.kernels(0, trace.end) == {"decode": 2, "sample": 1, UNKNOWN: 1}
    assert trace.busy(0, trace.end) == pytest.approx(47e-6)
    assert trace.gaps(0, trace.end) == pytest.approx([2e-6, 6e-6])


def test_what_crosses_a_moment_counts_in_part_on_each_side() -> None:
    trace = trace_of(REQUEST, {"schedule", "decode", "sample"}, "loop")
    assert trace.device(0, 50e-6) == pytest.approx({"decode": 10e-6})
    assert trace.busy(50e-6, trace.end) == pytest.approx(37e-6)
    assert sum(trace.host(15e-6, 70e-6).values()) == pytest.approx(55e-6)


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), max_size=8))
def test_spans_of_nested_ranges_fill_the_outermost(pairs: list[tuple[int, int]]) -> None:
    nested = [Span("whole", 0, 20)]
    for low, high in pairs:  # each inside the one before
        outer = nested[-1]
        low, high = sorted((max(outer.start, min(low, outer.end)), max(outer.start, min(high, outer.end))))
        nested.append(Span(str(len(nested)), low, high))
    spans = self_spans(nested)
    assert sum(span.end - span.start for span in spans) == 20
    assert all(before.end == after.start for before, after in pairwise(spans))
    for span in spans:
        innermost = [r for r in nested if r.start <= span.start and span.end <= r.end][-1]
        assert span.stage == innermost.stage


def test_the_profiler_sees_the_stages_of_a_stopwatch_that_does_not_wait() -> None:
    watch, x = Stages(other="loop", wait=False, ranges=True), torch.randn(256, 256)

    def run() -> None:
        with watch.stage("step"):
            torch.mm(x, x)
            with watch.stage("sample"):
                x.argmax()

    trace = traced(run, watch)
    assert [r.stage for r in trace.ranges] == ["loop", "step", "sample"]
    assert [span.stage for span in trace.spans][:3] == ["loop", "step", "sample"]
    assert trace.work == () and trace.busy(0, trace.end) == 0
    assert sum(trace.host(0, trace.end).values()) == pytest.approx(trace.end)
