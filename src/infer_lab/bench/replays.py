"""Kernels against each other: replayed CUDA graphs of about a millisecond, in rounds.

Why: a call of 20 µs from Python is timed as what Python takes to start it, and a GPU that has become warm lowers its clock, so that
whoever is measured last looks slow. What `rounds` does for calls of the host is here for kernels:

- each variant is recorded as a CUDA graph, a short one several times in a row, until a replay takes about a millisecond; its time is
  that of the replay over the number of calls;
- the variants take turns, one sample each and every other round in reverse, so that clock and temperature are the same for all; the
  host waits for no sample, so that a launch passes under the replay before;
- a variant may be several calls, taken in turn, that differ in their data only: with more data together than the L2 holds, none finds
  there what an earlier one left.

Inputs of calls that repeat are in the L2 where they fit; say so beside the figure, or give several calls.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from infer_lab.bench import timer
from infer_lab.bench.rounds import in_rounds, sampler
from infer_lab.bench.timer import Timing
from infer_lab.errors import UserError

Call = Callable[[], object]
K = TypeVar("K")

_REPLAY_SECONDS = 1e-3  # against a replay that is launched on an idle GPU and pays some 10 µs for it
_MOST_CALLS = 100


def replayed(calls: Mapping[K, Call | Sequence[Call]], device: str = "cpu", *, warmup: int = 2, rounds: int = 15) -> dict[K, Timing]:
    """Seconds of one call of each variant. `warmup` rounds are not counted.

    On a GPU a call must be fit for `timer.graphed`; on the CPU it is called as it is.
    """
    if rounds < 1 or warmup < 0:
        raise UserError(f"rounds must be at least 1 and warmup at least 0, got {rounds} and {warmup}")
    walks = {name: (call,) if callable(call) else tuple(call) for name, call in calls.items()}
    if not all(walks.values()):
        raise UserError(f"nothing to call in {', '.join(str(name) for name, walk in walks.items() if not walk)}")
    return _on_gpu(walks, device, warmup, rounds) if device.startswith("cuda") else _on_cpu(walks, warmup, rounds)


def _on_cpu(walks: Mapping[K, Sequence[Call]], warmup: int, rounds: int) -> dict[K, Timing]:
    def next_of(walk: Sequence[Call]) -> Call:
        turns = itertools.cycle(walk)
        return lambda: next(turns)()

    return in_rounds({name: sampler(next_of(walk)) for name, walk in walks.items()}, rounds, warmup)


def _on_gpu(walks: Mapping[K, Sequence[Call]], device: str, warmup: int, rounds: int) -> dict[K, Timing]:
    import torch

    with torch.cuda.device(device):
        replays = {name: _replay(walk, device) for name, walk in walks.items()}
        events = {name: [(_event(), _event()) for _ in range(warmup + rounds)] for name in walks}
        for i in range(warmup + rounds):
            for name in reversed(events) if i % 2 else events:
                start, end = events[name][i]
                start.record()
                replays[name][0]()
                end.record()
        torch.cuda.synchronize()
        return {
            name: Timing(tuple(start.elapsed_time(end) / 1e3 for start, end in pairs[warmup:]), "events").per(replays[name][1])
            for name, pairs in events.items()
        }


def _event() -> Any:
    import torch

    return torch.cuda.Event(enable_timing=True)


def _replay(walk: Sequence[Call], device: str) -> tuple[Call, int]:
    """A graph of about a millisecond, and how many calls it holds."""
    once = timer.graphed(_several(walk, 1), device, warmup=2)
    seconds = timer.measure(once, device, warmup=2, repeats=5).median
    times = max(1, min(math.ceil(_REPLAY_SECONDS / max(seconds, 1e-9)), _MOST_CALLS // len(walk)))
    return (once, len(walk)) if times == 1 else (timer.graphed(_several(walk, times), device, warmup=1), times * len(walk))


def _several(walk: Sequence[Call], times: int) -> Call:
    def run() -> None:
        for _ in range(times):
            for call in walk:
                call()  # its result is dropped at once, so that the next one may take its memory

    return run
