"""How busy a device is: the times of its kernels, their union, and what lies between them.

Why: the sum of kernel times says how much work there was, not how long the device stood still. Kernels of two streams overlap, so busy
time is the *union* of their intervals; what lies between kernels (launches, the host, waiting) is the rest of the time that was watched.
A range that a program names shows up on the device too, from its first kernel to its last, gaps included: that is no kernel.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from infer_lab.bench.timer import percentile

Interval = tuple[float, float]
"""Start and end in seconds, on one clock."""

_WAITS = frozenset({"Context Sync", "Device Sync", "Event Sync", "Stream Sync", "Stream Wait Event", "Unknown Sync"})


class Event(NamedTuple):
    """What the profiler noted, in seconds of its clock. id: of a call of the driver and of all work that it started, the same number."""

    name: str
    start: float
    end: float
    on_device: bool = False
    id: int = 0
    is_range: bool = False


class Kernel(NamedTuple):
    """One piece of work of the device (a kernel, a copy, a fill), in seconds of the trace. launch: which call of the driver started it."""

    name: str
    start: float
    end: float
    launch: int = 0


@dataclass(frozen=True, slots=True)
class Gaps:
    """kernels: in order of time. seconds: of the host, from the first call to the end of the last kernel."""

    kernels: tuple[Kernel, ...]
    seconds: float

    @property
    def busy(self) -> float:
        return busy_seconds([kernel[1:3] for kernel in self.kernels])

    @property
    def between(self) -> list[float]:
        return gaps([kernel[1:3] for kernel in self.kernels])

    @property
    def median_gap(self) -> float:
        """0 if there is none."""
        return percentile(between, 50) if (between := self.between) else 0.0


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """The same moments as intervals that neither overlap nor touch, in order."""
    found: list[Interval] = []
    for start, end in sorted(intervals):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def clipped(intervals: Iterable[Interval], low: float, high: float) -> list[Interval]:
    """What of them lies in [low, high]."""
    return [(max(start, low), min(end, high)) for start, end in intervals if start < high and end > low]


def busy_seconds(intervals: Iterable[Interval]) -> float:
    """Of the union: a moment counts once, however many kernels run."""
    return sum(end - start for start, end in merged(intervals))


def gaps(intervals: Iterable[Interval]) -> list[float]:
    """Seconds in which nothing runs, from the first start to the last end, one by one."""
    found = merged(intervals)
    return [after[0] - before[1] for before, after in pairwise(found)]


def events_of(profiler: Any) -> list[Event]:
    """Of a `torch.profiler.profile` that has ended, in order of time.

    Read where its own `events()` reads them: that builds the tree of all operators first, which takes seconds for a request."""
    result = profiler.profiler.kineto_results
    zero = result.trace_start_ns()
    found = [
        Event(
            event.name(), (event.start_ns() - zero) / 1e9, (event.start_ns() - zero + event.duration_ns()) / 1e9,
            event.device_type().name != "CPU", event.correlation_id(), event.is_user_annotation(),
        )
        for event in result.events()
    ]  # fmt: skip
    return sorted(found, key=lambda event: (event.start, -event.end))


def kernels_of(events: Iterable[Event], ranges: Iterable[str] = ()) -> list[Kernel]:
    """The device's work, in the order of the events. ranges: names that the program gave, which are no kernels."""
    none = {*ranges, *_WAITS}
    return [Kernel(e.name, e.start, e.end, e.id) for e in events if e.on_device and not e.is_range and e.name not in none]


def profiled(run: Callable[[], object], device: str = "cuda") -> Gaps:
    """One call of `run` under the profiler; on a CPU, torch's operators in place of kernels. Warm up before: the first call compiles."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_gpu = device.startswith("cuda")
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiler:
        if on_gpu:
            torch.cuda.synchronize(device)
        start = time.perf_counter()
        run()
        if on_gpu:
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - start
    events = events_of(profiler)
    if on_gpu:
        return Gaps(tuple(kernels_of(events)), seconds)
    outermost: list[Kernel] = []
    for event in events:
        if event.name.startswith("aten::") and (not outermost or event.start >= outermost[-1].end):
            outermost.append(Kernel(event.name, event.start, event.end, event.id))
    return Gaps(tuple(outermost), seconds)
