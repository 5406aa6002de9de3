"""Busy time is the union of intervals, whatever their order and overlap; a named range is no kernel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infer_lab.bench.gaps import Event, Gaps, Kernel, busy_seconds, clipped, gaps, kernels_of, merged, profiled

_intervals = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 10)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=12)


@given(_intervals)
def test_busy_and_gaps_fill_the_time_from_first_start_to_last_end(intervals: list[tuple[int, int]]) -> None:
    covered = {moment for start, end in intervals for moment in range(start, end)}
    assert busy_seconds(intervals) == len(covered)
    if intervals:
        whole = max(end for _, end in intervals) - min(start for start, _ in intervals)
        assert busy_seconds(intervals) + sum(gaps(intervals)) == whole
    assert all(gap > 0 for gap in gaps(intervals))


@given(_intervals, st.integers(0, 60))
def test_what_is_clipped_at_a_moment_is_busy_before_or_after_it(intervals: list[tuple[int, int]], at: int) -> None:
    assert busy_seconds(clipped(intervals, 0, at)) + busy_seconds(clipped(intervals, at, 100)) == busy_seconds(intervals)


def test_overlapping_and_touching_intervals_are_one() -> None:
    assert merged([(4, 5), (0, 2), (1, 3), (3, 4)]) == [(0, 5)]
    assert gaps([(0, 2), (1, 3), (6, 7), (7, 8)]) == [3]


def test_ranges_waits_and_the_hosts_events_are_no_kernels() -> None:
    events = [
        Event("aten::mm", 0, 5), Event("named", 0, 90, on_device=True, is_range=True), Event("Event Sync", 0, 90, on_device=True),
        Event("copy", 10, 20, on_device=True, id=7), Event("decode", 10, 40, on_device=True), Event("gemm", 30, 40, on_device=True, id=8),
    ]  # fmt: skip
    assert kernels_of(events, ["decode"]) == [Kernel("copy", 10, 20, 7), Kernel("gemm", 30, 40, 8)]


def test_two_streams_are_not_busy_twice() -> None:
    found = Gaps((Kernel("a", 0, 2), Kernel("b", 1, 3), Kernel("c", 5, 6), Kernel("d", 7, 8)), seconds=10)
    assert found.busy == 5 and found.between == [2, 1] and found.median_gap == 1.5
    assert Gaps((), 1.0).median_gap == 0


def test_on_a_cpu_operators_stand_for_kernels() -> None:
    x = torch.randn(64, 64)
    found = profiled(lambda: (x @ x).softmax(0), "cpu")
    assert [kernel.name for kernel in found.kernels] == ["aten::matmul", "aten::softmax"]
    assert 0 < found.busy <= found.seconds and found.median_gap == pytest.approx(found.between[0])
