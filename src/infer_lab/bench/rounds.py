"""Comparisons that a slow spell of the host cannot decide, and kernels that are shorter than their start.

Why: a processor shared with others, or one that changes its clock, can take twice as long for some seconds. If all samples of one
configuration come after all of another, such a spell falls on one of them and looks like a difference. Here:

- `in_rounds` takes one sample of each per round, so that a spell falls on all alike, and keeps the garbage collector out of them;
- `one_of_many` divides the time of a CUDA graph of many calls by their number: a graph of one short kernel shows mostly its own start;
- `against` says how two timings compare, and calls nothing a difference that their spread does not show.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TypeVar

from infer_lab.bench.timer import Clock, Timing, graphed, measure
from infer_lab.errors import UserError

K = TypeVar("K")

_FEWEST = 5  # samples from which a spread can be read


def sampler(fn: Callable[[], object], device: str = "cpu", clock: Clock = "wall") -> Callable[[], float]:
    """For `in_rounds`: calling the result takes one sample of `fn`, in seconds."""
    return lambda: measure(fn, device, warmup=0, repeats=1, clock=clock).median


def in_rounds(samplers: Mapping[K, Callable[[], float]], rounds: int = 20, warmup: int = 3) -> dict[K, Timing]:
    """One sample of each per round, with every other round in reverse, so that none always follows the same one.

    A sampler returns seconds: see `sampler`, or read them from what was called. The first `warmup` rounds are not kept.
    """
    if rounds < 1 or warmup < 0:
        raise UserError(f"rounds must be at least 1 and warmup at least 0, got {rounds} and {warmup}")
    samples: dict[K, list[float]] = {key: [] for key in samplers}
    with _collector_off():
        for i in range(warmup + rounds):
            for key in reversed(samples) if i % 2 else samples:
                seconds = samplers[key]()
                if i >= warmup:
                    samples[key].append(seconds)
    return {key: Timing(tuple(taken)) for key, taken in samples.items()}


def one_of_many(calls: Sequence[Callable[[], object]], device: str = "cpu", *, count: int = 64, repeats: int = 20) -> Timing:
    """Seconds of one call among `count` in one CUDA graph, which takes `calls` in turn; on a CPU, in a loop.

    The graph's start is paid once for all of them; the gaps between kernels are in the figure. One call: its data stay in the L2 if
    they fit. Calls over copies that together exceed the L2: each finds its data in memory.
    """
    if not calls or count < 1 or count % len(calls):
        raise UserError(f"count must be a multiple of the number of calls, got {count} and {len(calls)}")

    def walk() -> None:
        for i in range(count):
            calls[i % len(calls)]()

    run = graphed(walk, device, warmup=1) if device.startswith("cuda") else walk
    return measure(run, device, repeats=repeats).per(count)


def told_apart(a: Timing, b: Timing) -> bool:
    """Whether their ranges from the 10th to the 90th percentile are disjoint; False with too few samples to know the ranges."""
    return min(a.n, b.n) >= _FEWEST and (a.p90 < b.p10 or b.p90 < a.p10)


def against(this: Timing, that: Timing) -> str:
    """How `this` compares with `that`, in words."""
    if min(this.n, that.n) < _FEWEST:
        return "too few samples to compare"
    if not told_apart(this, that):
        return "no difference beyond the spread"
    faster = that.median / this.median
    return f"{faster:.3g} times as fast" if faster > 1 else f"{1 / faster:.3g} times as long"


@contextmanager
def _collector_off() -> Iterator[None]:
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
