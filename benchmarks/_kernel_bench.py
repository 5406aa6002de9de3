"""What the kernel benchmarks share: their options, the limits of the machine, timing ours beside peers, and the record.

A time is of the call replayed as a CUDA graph, so that launches (tens of microseconds on some hosts) do not hide the kernel; peers are
timed the same way. Each sample starts with a cold L2 unless the caller rotates over copies that do not fit it.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

if "cpu" in sys.argv:  # the interpreter must be chosen before a kernel is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

import torch

from infer_lab.bench import Record, Timing, graphed, measure
from infer_lab.bench.limits import LimitSizes, copy, matmul, read_stream
from infer_lab.units import Quantity

PEERS = {
    "cublas": "cuBLAS bf16", "cudnn": "cuDNN SDPA", "fa2": "FlashAttention-2 SDPA", "fa3": "FlashAttention-3", "flex": "FlexAttention",
    "inductor": "Inductor", "int-mm": "torch._int_mm", "int4pack": "torch int4pack", "ours-16-bit": "ours, 16-bit KV",
    "ours-dense": "ours, dense",
    "scaled-mm": "torch._scaled_mm", "scaled-mm-fast": "torch._scaled_mm, fast accumulation", "sdpa": "SDPA", "sort": "torch, by sorting",
    "torch": "torch",
}  # fmt: skip
"""What a reader is told of whom we are compared with, by the short names that stand in the records' value names."""


@dataclass
class Case:
    """A piece of work under way. nbytes, flops: the fewest that it needs. peak: how many times the 16-bit matrix limit its units reach."""

    name: str
    operation: str
    shape: str
    nbytes: float
    flops: float
    peak: float = 1.0
    moved_by: str = "limit-read-stream"  # or "limit-copy", for work that writes as much as it reads
    work: str = ""  # names the peers' times, `<peer>-<work>`, where cases of different kernels share them
    times: dict[str, Timing] = field(default_factory=dict)  # by who, "ours" among them


class KernelBench:
    """Times one thing after the other, prints a line each, and keeps everything for the record."""

    def __init__(
        self, name: str, title: str, doc: str | None, sources: Iterable[str], argv: Sequence[str] | None, only: Iterable[str]
    ) -> None:
        self.options = _options(name, doc, argv, sorted(only))
        self.device, self.quick = self.options.device, self.options.quick
        self.on_gpu = self.device.startswith("cuda")
        self.dtype = torch.float16 if self.quick else torch.bfloat16
        self.start = time.perf_counter()
        torch.manual_seed(0)
        sources = (f"benchmarks/{name}.py", "benchmarks/_kernel_bench.py", "src/infer_lab/bench/timer.py", *sources)
        self.record = Record(name, title, self.device, sources=sources, workload={"dtype": str(self.dtype)[6:], "quick": self.quick})
        self.found: dict[str, float] = {}
        self.limits: dict[str, float] = {}  # bytes/s and operations/s

    def wants(self, operation: str) -> bool:
        return not self.options.only or operation in self.options.only

    def compile(self, jobs: Sequence[Callable[[], Any]]) -> None:
        """Every kernel at once on all cores, before anything is timed."""
        if not self.on_gpu:
            return
        from infer_lab.kernels import _common
        from infer_lab.kernels.precompile import compile_in_parallel

        target = _common.target_of(torch.device("cuda"))
        compile_in_parallel(list(jobs), target.capability[0] * 10 + target.capability[1], target)
        self.say(f"compiled in {time.perf_counter() - self.start:.0f} s")

    def measure_limits(self) -> None:
        size = LimitSizes.of(self.device, self.quick)
        for name, rate, scale in (
            ("limit-read-stream", read_stream(self.device, size), 1e9),
            ("limit-copy", copy(self.device, size), 1e9),
            ("limit-matmul", matmul(self.device, size, self.dtype), 1e12),
        ):
            self.record.add_samples(name, rate.samples, rate.unit)
            self.limits[name] = float(rate.median.value) * scale
            self.found[f"{name} {rate.unit}"] = round(float(rate.median.value), 1)
            self.say(f"{name}: {float(rate.median.value):,.0f} {rate.unit}")

    def floor(self, case: Case) -> float:
        """Seconds below which the measured limits do not let the work go."""
        return max(case.nbytes / self.limits[case.moved_by], case.flops / (self.limits["limit-matmul"] * case.peak))

    def time(self, case: Case, who: str, fn: Callable[[], object] | Sequence[Callable[[], object]]) -> None:
        """Times `fn`, or calls in turn over copies of their data; samples of an earlier round are kept. A peer that fails is reported and
        left out; ours must not fail."""
        try:
            timing, before = self._timing(fn), case.times.get(who)
            case.times[who] = timing if before is None else Timing(before.samples + timing.samples, timing.clock)
        except Exception as error:
            if who == "ours":
                raise
            self.say(f"  {case.name} {who}: not here ({type(error).__name__}: {str(error)[:100]})")
            return
        seconds, floor = case.times[who].median, self.floor(case)
        bound = case.flops / case.nbytes > 100
        rate = f"{case.flops / seconds / 1e12:.0f} TFLOP/s" if bound else f"{case.nbytes / seconds / 1e12:.2f} TB/s"
        self.say(f"  {case.name} {who}: {seconds * 1e6:.1f} us, {rate}, {floor / seconds:.0%} of the floor's speed")

    def keep(self, case: Case) -> None:
        """The case with all its times into the record."""
        names = {who: case.name if who == "ours" else f"{who}-{case.work}" if case.work else f"{case.name}-{who}" for who in case.times}
        for who, timing in case.times.items():
            if names[who] not in self.record.values:
                self.record.add_timing(names[who], timing, "us")
            self.found[f"{names[who]} us"] = round(timing.median * 1e6, 2)
        self.record.add_case(
            case.name, case.operation, case.shape, nbytes=case.nbytes, flops=case.flops, floor=Quantity(self.floor(case), "s"),
            ours=case.name, peers={PEERS[who]: name for who, name in names.items() if who != "ours"},
        )  # fmt: skip

    def finish(self) -> int:
        """Writes the record if asked to; the last line is one JSON document."""
        self.record.workload["cases"] = list(self.record.cases)
        path = str(self.record.write()) if self.options.record else None
        print(json.dumps({"device": self.record.environment.slug, **self.found, "record": path}))
        return 0

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def _timing(self, fn: Callable[[], object] | Sequence[Callable[[], object]]) -> Timing:
        if callable(fn):
            if not self.on_gpu:
                return measure(fn, self.device, warmup=1, repeats=3)
            return measure(graphed(fn, self.device), self.device, warmup=5, repeats=40, flush_l2=True)
        return in_turn(fn, self.device, repeats=20)


def in_turn(calls: Sequence[Callable[[], object]], device: str, repeats: int, launches: int = 8) -> Timing:
    """Seconds of one call: replays of a CUDA graph that walks over all of them; on a CPU, plain calls of the first."""
    if not device.startswith("cuda"):
        return measure(calls[0], device, warmup=1, repeats=3)
    count = -(-launches // len(calls)) * len(calls)
    walk = graphed(lambda: [calls[i % len(calls)]() for i in range(count)], device, warmup=1)
    return measure(walk, device, warmup=3, repeats=repeats).per(count)


def _options(name: str, doc: str | None, argv: Sequence[str] | None, only: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help=f"write the measurement record <device>/{name}")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=only, help="some of the operations")
    options = parser.parse_args(argv)
    on_gpu = options.device.startswith("cuda")
    if on_gpu and not torch.cuda.is_available():
        _refuse("no CUDA device was found here; --device cpu --quick runs the kernels in the interpreter")
    if not on_gpu and not options.quick:
        _refuse("the CPU runs these kernels in an interpreter, whose speed means nothing: say --quick")
    if options.record and (options.only or (options.quick and on_gpu)):
        _refuse("a record holds every case at full size: leave out --quick and --only")
    return options


def _refuse(why: str) -> None:
    print(f"error: {why}", file=sys.stderr)
    raise SystemExit(2)


def jobs_of(builders: Iterable[Callable[[str], Callable[[], Any]]]) -> list[Callable[[], Any]]:
    """Builders of calls by device, as compile jobs: run once without data."""
    return [functools.partial(_run_meta, build) for build in builders]


def _run_meta(build: Callable[[str], Callable[[], Any]]) -> None:
    build("meta")()
