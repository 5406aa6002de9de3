"""What host and device did of a call, stage by stage, without stopping either: torch's profiler around a `Stages` that does not wait.

Why: a stopwatch that waits for the device at each boundary says what a stage takes by itself, and takes away what an engine is built for,
that host and device work at the same time. A trace has both clocks in one: for each stage the host's own time, and for each kernel the
stage in which it was *started*, however much later it ran. What the host spends in calls that synchronize or copy is the stage "wait",
since there it waits for the device (a copy from the device to ordinary memory returns when it is done).

    host    | schedule | decode: launch, launch … | wait        | apply | text |
    device                 | kernels of decode …                |

(Nsight Systems shows the same picture: ranges as NVTX, calls of the driver, kernels.)
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from infer_lab.bench.gaps import Event, busy_seconds, clipped, events_of, gaps, kernels_of
from infer_lab.bench.stages import Span, Stages

WAIT = "wait"
UNKNOWN = "unknown"
"""The stage of a kernel whose start is not in the trace."""

_DRIVER_CALL = re.compile(r"cu(da)?[A-Z]\w*\Z")
_WAITING_CALL = re.compile(r"Synchronize|Memcpy")


class Work(NamedTuple):
    """A kernel or a copy, in seconds of the trace, and the stage in which the host started it."""

    stage: str
    name: str
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Trace:
    """Seconds since the call began. ranges: as they were opened, nested. spans: of the host, every moment once. work: of the device.

    low, high of the methods: the moments between which to look; what crosses one counts in part.
    """

    ranges: tuple[Span, ...]
    spans: tuple[Span, ...]
    work: tuple[Work, ...]

    @property
    def end(self) -> float:
        return self.spans[-1].end

    def host(self, low: float, high: float) -> dict[str, float]:
        """The host's seconds by stage; they add up to high - low."""
        return _by_stage(self.spans, low, high)

    def device(self, low: float, high: float) -> dict[str, float]:
        """The device's seconds by the stage that started the work; more than `busy` where kernels overlap."""
        return _by_stage(self.work, low, high)

    def kernels(self, low: float, high: float) -> dict[str, int]:
        """How many began, by the stage that started them."""
        counts: dict[str, int] = {}
        for work in self.work:
            if low <= work.start < high:
                counts[work.stage] = counts.get(work.stage, 0) + 1
        return counts

    def busy(self, low: float, high: float) -> float:
        """Seconds in which the device did anything."""
        return busy_seconds(clipped([(work.start, work.end) for work in self.work], low, high))

    def gaps(self, low: float, high: float) -> list[float]:
        """Seconds between kernels, one by one."""
        return gaps(clipped([(work.start, work.end) for work in self.work], low, high))


def traced(run: Callable[[], object], stages: Stages, device: str = "cpu") -> Trace:
    """One call of `run`, whose stages `stages` opens as ranges. The first trace of a process also starts the profiler."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    on_gpu = device.startswith("cuda")
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as profiler:
        with stages.range(stages.other):
            run()
        if on_gpu:
            torch.cuda.synchronize(device)
    return trace_of(events_of(profiler), stages.names, stages.other)


def trace_of(events: Sequence[Event], names: Iterable[str], other: str) -> Trace:
    """From the profiler's events, in order of time. names: of the stages; `other` is the one that all are in, once."""
    names = {*names, other}
    on_host = [event for event in events if not event.on_device]
    zero, end = next((event.start, event.end) for event in on_host if event.name == other)
    inside = [event for event in on_host if zero <= event.start < end]
    calls = [event for event in inside if _DRIVER_CALL.match(event.name)]
    ranges = [Span(event.name, event.start - zero, event.end - zero) for event in inside if event.name in names]
    waits = [Span(WAIT, call.start - zero, min(call.end, end) - zero) for call in calls if _WAITING_CALL.search(call.name)]
    stages = self_spans(ranges)
    starts = [stage.start for stage in stages]
    launched = {call.id: call.start - zero for call in calls}

    def stage_of(launch: int) -> str:
        return stages[bisect_right(starts, launched[launch]) - 1].stage if launch in launched else UNKNOWN

    work = [Work(stage_of(k.launch), k.name, k.start - zero, k.end - zero) for k in kernels_of(events, names)]
    return Trace(tuple(ranges), tuple(self_spans([*ranges, *waits])), tuple(work))


def self_spans(ranges: Iterable[Span]) -> list[Span]:
    """Nested ranges as spans without overlap: a moment belongs to the innermost. In order of time."""
    found: list[Span] = []
    open_: list[Span] = []
    at = 0.0

    def charge(until: float) -> None:
        nonlocal at
        if open_ and until > at:
            found.append(Span(open_[-1].stage, at, until))
        at = max(at, until)

    for each in sorted(ranges, key=lambda s: (s.start, -s.end)):
        while open_ and open_[-1].end <= each.start:
            charge(open_[-1].end)
            open_.pop()
        charge(each.start)
        open_.append(each)
    while open_:
        charge(open_[-1].end)
        open_.pop()
    return found


def _by_stage(pieces: Iterable[Span | Work], low: float, high: float) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for piece in pieces:
        if piece.start < high and piece.end > low:
            seconds[piece.stage] = seconds.get(piece.stage, 0.0) + min(piece.end, high) - max(piece.start, low)
    return seconds
