"""Matrix products beside what a user would pick instead, in one run on one machine.

    python benchmarks/gemm.py                      # on the GPU
    python benchmarks/gemm.py --record             # and write measurements/<device>/gemm.json
    python benchmarks/gemm.py --device cpu --quick # tiny sizes in the CPU interpreter, to see that it runs

Ours: W4A16 (groups of 128), W8A16, 16-bit skinny products, FP8 and INT8 W8A8. Peers: cuBLAS in bf16 (torch.matmul), torch's int4pack,
torch._scaled_mm (rowwise scales, with and without fast accumulation), torch._int_mm. Every time is of a call in a CUDA graph over copies
of the weight that do not fit the L2 together; every one of our results is compared with float32 first. The floor is the larger of
bytes over the measured read stream and operations over the measured bf16 product (twice that in 8 bits).
The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time

if "cpu" in sys.argv:  # the interpreter must be chosen before a kernel is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
from gemm_cases import Case, ours, peers, time_per_call

from infer_lab.bench import Record, Timing
from infer_lab.bench.limits import LimitSizes, matmul, read_stream
from infer_lab.errors import InferLabError
from infer_lab.kernels import _common

KERNELS = ("_gemm", "_unpack", "_w8a8", "_hopper_fp8_kernel", "w4a16", "w8a16", "skinny_gemm", "fp8_gemm", "int8_gemm", "pack")
SOURCES = ("benchmarks/gemm.py", "benchmarks/gemm_cases.py", *(f"src/infer_lab/kernels/{name}.py" for name in KERNELS))
LARGE, MIDDLE, SMALL = (28672, 8192), (14336, 4096), (4096, 4096)
CASES = (
    *(Case("w4a16", m, *shape) for shape in (LARGE, MIDDLE) for m in (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    *(Case("skinny_gemm", m, *shape) for shape in (LARGE, MIDDLE, SMALL) for m in (1, 16)),
    *(Case("w8a16", m, *shape) for shape in (LARGE, MIDDLE, SMALL) for m in (1, 16)),
    Case("fp8_gemm", 8192, 8192, 8192), Case("int8_gemm", 8192, 8192, 8192), Case("fp8_gemm", 16, 28672, 8192),
)  # fmt: skip
QUICK = (
    Case("w4a16", 3, 128, 256, torch.float16), Case("skinny_gemm", 3, 128, 128, torch.float16), Case("w8a16", 3, 128, 256, torch.float16),
    Case("fp8_gemm", 32, 64, 128, torch.float16), Case("int8_gemm", 32, 64, 128, torch.float16),
)  # fmt: skip
# Relative norm against float32: bf16 rounding is 2e-3 (scaled weights, above 32 tokens, add one more), FP8 sums 1e-4, INT8 sums exact.
TOLERANCE = 4e-3


class Wrong(InferLabError):
    """A result that is not the product: no time is worth reporting."""


class Bench:
    """Checks, times and prints one case after the other, and keeps everything for the record."""

    def __init__(self, device: str, quick: bool, record: Record) -> None:
        self.device, self.record, self.repeats = device, record, 3 if quick else 20
        self.read_gb_s = self.peak_tflops = 1.0
        self.found: dict[str, float] = {}
        self.peer_times: dict[str, Timing] = {}

    def limits(self, quick: bool, dtype: torch.dtype) -> None:
        size = LimitSizes.of(self.device, quick)
        read, peak = read_stream(self.device, size), matmul(self.device, size, dtype)
        self.read_gb_s, self.peak_tflops = float(read.median.value), float(peak.median.value)
        self.record.add_samples("limit-read-stream", read.samples, read.unit)
        self.record.add_samples("limit-matmul", peak.samples, peak.unit)
        self.found |= {"read stream GB/s": round(self.read_gb_s, 1), "matmul TFLOP/s": round(self.peak_tflops, 1)}
        print(f"read stream {self.read_gb_s:,.0f} GB/s, matrix product {self.peak_tflops:,.0f} TFLOP/s", file=sys.stderr, flush=True)

    def floor(self, case: Case) -> float:
        eight = 2 if case.op in ("fp8_gemm", "int8_gemm") else 1
        return max(case.nbytes / (self.read_gb_s * 1e9), case.flops / (self.peak_tflops * 1e12 * eight))

    def run(self, case: Case) -> None:
        calls, reference = ours(case, self.device, case.copies(self.device))
        answer, expected = calls[0](None).float(), reference()
        error = ((answer - expected).norm() / expected.norm()).item()
        if not error < TOLERANCE:
            raise Wrong(f"{case.name}: relative error {error:.2e} against float32, allowed {TOLERANCE:.0e}")
        timing = time_per_call([functools.partial(call, None) for call in calls], self.device, self.repeats)
        del calls, reference, answer, expected
        floor = self.floor(case)
        self.keep(case.name, timing, case)
        self.record.add_value(f"{case.name}-share-of-floor", floor / timing.median, "x", note="floor over measured time")
        line = f"{timing.median * 1e6:8.1f} us, {case.nbytes / timing.median / 1e12:5.2f} TB/s, {floor / timing.median:4.0%} of the floor"
        suffix = f"-{case.n}x{case.k}-m{case.m}"
        known = [name.removesuffix(suffix) for name in self.peer_times if name.endswith(suffix)]
        for peer, fns in peers(case, self.device, known).items():
            try:
                self.peer_times[peer + suffix] = time_per_call(fns, self.device, self.repeats)
            except Exception as problem:
                print(f"  {peer}: not here ({type(problem).__name__}: {str(problem)[:100]})", file=sys.stderr, flush=True)
                continue
            self.keep(peer + suffix, self.peer_times[peer + suffix], case)
        for name, peer_time in self.peer_times.items():
            if name.endswith(suffix):
                ratio, rival = peer_time.median / timing.median, name.removesuffix(suffix)
                self.record.add_value(f"{case.name}-over-{rival}", ratio, "x", note="peer's time over ours")
                self.found[f"{case.name} over {rival}"] = round(ratio, 3)
                line += f", {ratio:.2f} x {rival}"
        print(f"  {case.name}: {line}, error {error:.1e}", file=sys.stderr, flush=True)

    def keep(self, name: str, timing: Timing, case: Case) -> None:
        self.record.add_timing(name, timing, "us")
        self.record.add_samples(f"{name}-rate", [case.flops / s / 1e12 for s in timing.samples], "TFLOP/s")
        self.found[f"{name} us"] = round(timing.median * 1e6, 2)

    def curves(self, cases: tuple[Case, ...]) -> None:
        """Time against batch size, for the shapes of the weight-only product."""
        for n, k in dict.fromkeys((c.n, c.k) for c in cases if c.op == "w4a16"):
            rows = [c for c in cases if (c.op, c.n, c.k) == ("w4a16", n, k)]
            x = ("tokens", "tok", [c.m for c in rows])
            values = self.record.values
            curve = [float(values[c.name]["value"]) for c in rows]
            self.record.add_series(f"w4a16-{n}x{k}", "W4A16, groups of 128", x, ("time", "us", curve))
            bf16 = [float(values[f"cublas-{n}x{k}-m{c.m}"]["value"]) for c in rows]
            self.record.add_series(f"cublas-{n}x{k}", "cuBLAS bf16", x, ("time", "us", bf16), "peer")
            self.record.add_series(f"floor-{n}x{k}", "floor of W4A16", x, ("time", "us", [self.floor(c) * 1e6 for c in rows]), "limit")


def run_meta(case: Case) -> None:
    ours(case, "meta", 1)[0][0](None)


def compile_all(cases: tuple[Case, ...]) -> None:
    from infer_lab.kernels.precompile import compile_in_parallel

    target = _common.target_of(torch.device("cuda"))
    compile_in_parallel([functools.partial(run_meta, c) for c in cases], target.capability[0] * 10 + target.capability[1], target)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/gemm")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    parser.add_argument("--only", nargs="+", choices=sorted({c.op for c in CASES}), help="some of the kernels")
    options = parser.parse_args(argv)
    device, start = options.device, time.perf_counter()
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("error: no CUDA device was found here; --device cpu --quick runs the kernels in the interpreter", file=sys.stderr)
        return 2
    if device == "cpu" and not options.quick:
        print("error: the CPU runs these kernels in an interpreter, whose speed means nothing: say --quick", file=sys.stderr)
        return 2
    if options.record and (options.only or (options.quick and device.startswith("cuda"))):
        print("error: a record holds every case at full size: leave out --quick and --only", file=sys.stderr)
        return 2
    cases = tuple(c for c in (QUICK if options.quick else CASES) if not options.only or c.op in options.only)
    workload = {
        "cases": [c.name for c in cases], "dtype": str(cases[0].dtype).removeprefix("torch."), "group": 128, "quick": options.quick,
        "weights": "random, rotated over more than 256 MiB", "timing": "CUDA graph replays",
    }  # fmt: skip
    torch.manual_seed(0)
    record = Record("gemm", "Matrix products beside their peers", device, sources=SOURCES, workload=workload)
    bench = Bench(device, options.quick, record)
    if device.startswith("cuda"):
        compile_all(cases)
        print(f"compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    bench.limits(options.quick, cases[0].dtype)
    try:
        for i, case in enumerate(cases, 1):
            print(f"[{i}/{len(cases)}] {case.name}", file=sys.stderr, flush=True)
            bench.run(case)
    except Wrong as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    bench.curves(cases)
    path = str(record.write()) if options.record else None
    print(json.dumps({"device": record.environment.slug, **bench.found, "record": path}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
