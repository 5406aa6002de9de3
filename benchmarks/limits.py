"""What this machine really sustains: the limits that measured times are divided by.

Three numbers: a read-only stream (what decode does with weights and KV), a device copy (bytes read plus bytes written), and a
matrix product. Random data, buffers far larger than any cache, warm-up, median and spread.

    python benchmarks/limits.py                  # on the GPU if there is one
    python benchmarks/limits.py --record         # and write measurements/<device>/limits.json
    python benchmarks/limits.py --device cpu --quick
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass

import torch

from infer_lab.bench import Record, Timing, measure
from infer_lab.bench.timer import percentile


@dataclass(frozen=True, slots=True)
class Sizes:
    """stream_bytes: of the buffer that is read or copied. matrix: side of the square product."""

    stream_bytes: int
    matrix: int
    repeats: int


def sizes(device: str, quick: bool) -> Sizes:
    if quick:
        return Sizes(2**24, 256, 5)
    return Sizes(2**32, 8192, 50) if device.startswith("cuda") else Sizes(2**28, 1024, 10)


def read_stream(device: str, size: Sizes) -> Timing:
    """Sums of a buffer: every byte is read once, almost nothing is written. Of two ways to sum, the faster one is nearer to the limit."""
    data = torch.randn(size.stream_bytes // 4, device=device, dtype=torch.float32)
    rows = data.view(-1, 2**14)
    ways = (lambda: torch.sum(data), lambda: torch.sum(rows, dim=1))
    return min((measure(way, device, warmup=5, repeats=size.repeats) for way in ways), key=lambda timing: timing.median)


def copy(device: str, size: Sizes) -> Timing:
    source = torch.randn(size.stream_bytes // 4, device=device, dtype=torch.float32)
    target = torch.empty_like(source)
    return measure(lambda: target.copy_(source), device, warmup=5, repeats=size.repeats)


def matmul(device: str, size: Sizes, dtype: torch.dtype) -> Timing:
    n = size.matrix
    a, b = (torch.randn(n, n, device=device, dtype=torch.float32).to(dtype) for _ in range(2))
    out = torch.empty(n, n, device=device, dtype=dtype)
    return measure(lambda: torch.mm(a, b, out=out), device, warmup=10, repeats=size.repeats)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/limits")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    options = parser.parse_args(argv)
    device, size = options.device, sizes(options.device, options.quick)
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("error: no CUDA device was found here; --device cpu measures the CPU", file=sys.stderr)
        return 2
    if options.quick and options.record and device.startswith("cuda"):
        print("error: the figures of --quick mean nothing; leave out --quick to record a GPU's limits", file=sys.stderr)
        return 2
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    product = f"matmul_{'bf16' if dtype == torch.bfloat16 else 'fp32'}"
    workload = {
        "stream_bytes": size.stream_bytes,
        "matrix": size.matrix,
        "dtype": str(dtype).removeprefix("torch."),
        "repeats": size.repeats,
        "quick": options.quick,
    }
    sources = ["benchmarks/limits.py", "src/infer_lab/bench/timer.py"]
    record = Record("limits", "Measured limits of this machine", device, sources=sources, workload=workload)
    found: dict[str, float] = {}
    torch.manual_seed(0)
    steps = (
        ("read_stream", "B/s", size.stream_bytes, lambda: read_stream(device, size)),
        ("copy", "B/s", 2 * size.stream_bytes, lambda: copy(device, size)),
        (product, "FLOP/s", 2 * size.matrix**3, lambda: matmul(device, size, dtype)),
    )
    for name, unit, work, run in steps:
        print(f"{name} …", file=sys.stderr, flush=True)
        rates = [work / seconds for seconds in run().samples]
        shown, scale = ("GB/s", 1e9) if unit == "B/s" else ("TFLOP/s", 1e12)
        found[name] = percentile(rates, 50) / scale
        record.add_samples(name, [rate / scale for rate in rates], shown)
        print(f"  {found[name]:,.1f} {shown}", file=sys.stderr, flush=True)
    path = str(record.write()) if options.record else None
    print(json.dumps({"device": record.environment.slug, **found, "record": path}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
