"""The one timer: warm-up, many samples, median and spread.

Why one: most wrong benchmarks are wrong in the timer. They time a launch instead of the work (no synchronization), the first call instead
of a warm one, a cached answer, or they report the best of a run. Here:

- on a GPU, each sample lies between two CUDA events on the current stream; nothing waits on the host until all samples are queued, so
  launch overhead is hidden exactly as far as it would be in real use;
- with `clock="wall"` the host's clock is read around a synchronized call: what a caller waits for, launches and Python included;
- `graphed` removes the launches altogether, for small kernels and for what the GPU itself needs;
- `flush_l2=True` overwrites a buffer larger than the L2 before each sample, for claims about HBM;
- the median is reported with the 10th and 90th percentile, never the minimum.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infer_lab.errors import UserError
from infer_lab.units import Quantity

_FLUSH_BYTES = 256 * 2**20  # larger than the L2 of any card in `hardware.GPUS`

Clock = Literal["events", "wall"]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds per call. `samples` are in the order in which they were taken."""

    samples: tuple[float, ...]
    clock: Clock = "wall"

    def __post_init__(self) -> None:
        if not self.samples:
            raise UserError("a timing needs at least one sample")

    @property
    def n(self) -> int:
        return len(self.samples)

    @property
    def median(self) -> float:
        return percentile(self.samples, 50)

    @property
    def p10(self) -> float:
        return percentile(self.samples, 10)

    @property
    def p90(self) -> float:
        return percentile(self.samples, 90)

    @property
    def quantity(self) -> Quantity:
        return Quantity(self.median, "s")

    def per(self, count: int) -> Timing:
        """The time of one of `count` equal parts of the call, e.g. of one token of a loop over tokens."""
        return Timing(tuple(s / count for s in self.samples), self.clock)

    def __str__(self) -> str:
        return f"{self.median * 1e3:.3f} ms (p10 {self.p10 * 1e3:.3f}, p90 {self.p90 * 1e3:.3f}, n={self.n})"


def percentile(samples: Sequence[float], percent: float) -> float:
    """Linear interpolation between the closest ranks, as numpy's default."""
    ordered = sorted(samples)
    place = (len(ordered) - 1) * percent / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def measure(
    fn: Callable[[], object],
    device: str = "cpu",
    *,
    warmup: int = 3,
    repeats: int = 20,
    flush_l2: bool = False,
    clock: Clock | None = None,
    setup: Callable[[], object] | None = None,
) -> Timing:
    """Times `fn` on `device` ("cpu", "cuda", "cuda:0").

    clock: "events" (GPU only, and the default there) or "wall". setup runs before every call, outside the timed part.
    """
    on_gpu = device.startswith("cuda")
    clock = clock or ("events" if on_gpu else "wall")
    if repeats < 1 or warmup < 0:
        raise UserError(f"repeats must be at least 1 and warmup at least 0, got {repeats} and {warmup}")
    if clock == "events" and not on_gpu:
        raise UserError("CUDA events time work on a GPU; on the CPU use clock='wall'")
    before = _chain(setup, _flusher(device) if flush_l2 and on_gpu else None)
    if not on_gpu:
        return Timing(_on_cpu(fn, before, warmup, repeats), "wall")
    sample = _with_events if clock == "events" else _with_wall_clock
    return Timing(sample(fn, before, warmup, repeats, device), clock)


def graphed(fn: Callable[[], object], device: str = "cuda", *, warmup: int = 3) -> Callable[[], None]:
    """`fn` recorded once as a CUDA graph; calling the result replays it, without the launches.

    For "how long does the GPU itself need" beside "how long does a caller wait". `fn` must start work on the GPU only: no
    synchronization and no copy to the host, the same tensors each time.
    """
    import torch

    if not device.startswith("cuda"):
        raise UserError("a CUDA graph needs a CUDA device; on the CPU time the function itself")
    with torch.cuda.device(device):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(warmup):
                fn()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            fn()
    return graph.replay


def _on_cpu(fn: Callable[[], object], before: Callable[[], None], warmup: int, repeats: int) -> tuple[float, ...]:
    samples = []
    for i in range(warmup + repeats):
        before()
        start = time.perf_counter()
        fn()
        elapsed = time.perf_counter() - start
        if i >= warmup:
            samples.append(elapsed)
    return tuple(samples)


def _with_events(fn: Callable[[], object], before: Callable[[], None], warmup: int, repeats: int, device: str) -> tuple[float, ...]:
    import torch

    with torch.cuda.device(device):
        for _ in range(warmup):
            before()
            fn()
        torch.cuda.synchronize()
        pairs = [(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(repeats)]
        for start, end in pairs:
            before()
            start.record()
            fn()
            end.record()
        torch.cuda.synchronize()
        return tuple(start.elapsed_time(end) / 1e3 for start, end in pairs)


def _with_wall_clock(fn: Callable[[], object], before: Callable[[], None], warmup: int, repeats: int, device: str) -> tuple[float, ...]:
    import torch

    samples = []
    for i in range(warmup + repeats):
        before()
        torch.cuda.synchronize(device)
        start = time.perf_counter()
        fn()
        torch.cuda.synchronize(device)
        elapsed = time.perf_counter() - start
        if i >= warmup:
            samples.append(elapsed)
    return tuple(samples)


def _flusher(device: str) -> Callable[[], object]:
    import torch

    buffer: Any = torch.empty(_FLUSH_BYTES, dtype=torch.int8, device=device)
    return buffer.zero_


def _chain(*steps: Callable[[], object] | None) -> Callable[[], None]:
    wanted = [step for step in steps if step is not None]

    def run() -> None:
        for step in wanted:
            step()

    return run
