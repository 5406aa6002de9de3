"""Where the time of one call goes: a stopwatch that gives every moment to exactly one stage.

Why self time: stages nest (a step contains a forward pass), and a sum over nested spans counts the inner ones twice. Here the outer stage
stands still while an inner one runs, so the stages of a request add up to its time.

On a GPU each boundary waits for the device: what would overlap is then seen one after the other. With `wait=False` nothing waits, and a
stage is what the host did. With `ranges=True` each stage is also a range of torch's profiler (which Nsight Systems shows as NVTX), so
that `bench.trace` can tell what the device did of it, and when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

Named = str | Callable[..., str]


class Span(NamedTuple):
    """Seconds since the stopwatch was started."""

    stage: str
    start: float
    end: float


class Stages:
    """`stage` and `watch` say what is going on; the rest belongs to `other`. spans: in order of time, without gaps."""

    def __init__(self, device: str = "cpu", other: str = "other", *, wait: bool = True, ranges: bool = False) -> None:
        self._on_gpu = device.startswith("cuda") and wait
        self._device = device
        self._stack = [other]
        self._restore: list[tuple[Any, str]] = []
        self._ranges = ranges
        self.names = {other}
        self.start()

    @property
    def other(self) -> str:
        return self._stack[0]

    def start(self) -> None:
        """Forget what was and begin at zero."""
        self.spans: list[Span] = []
        self._zero = self._at = self._now()

    def stop(self) -> dict[str, float]:
        """Seconds by stage since `start`."""
        self._charge()
        seconds: dict[str, float] = {}
        for span in self.spans:
            seconds[span.stage] = seconds.get(span.stage, 0.0) + span.end - span.start
        return seconds

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        self._charge()
        self._stack.append(name)
        self.names.add(name)
        try:
            with self.range(name):
                yield
        finally:
            self._charge()
            self._stack.pop()

    def range(self, name: str) -> AbstractContextManager[object]:
        """The profiler's range of a stage, by itself; nothing without `ranges`."""
        if not self._ranges:
            return nullcontext()
        from torch.profiler import record_function

        return record_function(name)

    def watch(self, owner: Any, method: str, name: Named) -> None:
        """Every call of `owner.method` is a stage from now on. name: may depend on the arguments of the call."""
        original = getattr(owner, method)

        def watched(*args: Any, **kwargs: Any) -> Any:
            with self.stage(name if isinstance(name, str) else name(*args, **kwargs)):
                return original(*args, **kwargs)

        setattr(owner, method, watched)
        self._restore.append((owner, method))

    def unwatch(self) -> None:
        for owner, method in reversed(self._restore):
            delattr(owner, method)
        self._restore.clear()

    def _charge(self) -> None:
        now = self._now()
        self.spans.append(Span(self._stack[-1], self._at - self._zero, now - self._zero))
        self._at = now

    def _now(self) -> float:
        if self._on_gpu:
            import torch

            torch.cuda.synchronize(self._device)
        return time.perf_counter()
