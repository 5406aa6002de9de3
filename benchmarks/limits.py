"""What this machine really sustains (reading, copying, multiplying): the limits that measured times are divided by.

python benchmarks/limits.py                  # on the GPU if there is one
python benchmarks/limits.py --record         # and write measurements/<device>/limits.json
python benchmarks/limits.py --device cpu --quick
"""

from __future__ import annotations

import argparse
import json
import sys

import torch

from infer_lab.bench import Record
from infer_lab.bench.limits import LimitSizes, copy, matmul, read_stream

SOURCES = ("benchmarks/limits.py", "src/infer_lab/bench/limits.py", "src/infer_lab/bench/timer.py")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/limits")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    options = parser.parse_args(argv)
    device, size = options.device, LimitSizes.of(options.device, options.quick)
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("error: no CUDA device was found here; --device cpu measures the CPU", file=sys.stderr)
        return 2
    if options.quick and options.record and device.startswith("cuda"):
        print("error: the figures of --quick mean nothing; leave out --quick to record a GPU's limits", file=sys.stderr)
        return 2
    dtype = torch.bfloat16 if device.startswith("cuda") else torch.float32
    workload = {
        "stream_bytes": size.stream_bytes,
        "matrix": size.matrix,
        "dtype": str(dtype).removeprefix("torch."),
        "repeats": size.repeats,
        "quick": options.quick,
    }
    record = Record("limits", "Measured limits of this machine", device, sources=SOURCES, workload=workload)
    torch.manual_seed(0)
    steps = {
        "read_stream": lambda: read_stream(device, size),
        "copy": lambda: copy(device, size),
        f"matmul_{'bf16' if dtype == torch.bfloat16 else 'fp32'}": lambda: matmul(device, size, dtype),
    }
    found: dict[str, float] = {}
    for name, run in steps.items():
        print(f"{name} … ", end="", file=sys.stderr, flush=True)
        rate = run()
        record.add_samples(name, rate.samples, rate.unit)
        found[f"{name} ({rate.unit})"] = float(rate.median.value)
        print(rate.median.format(",.1f"), file=sys.stderr, flush=True)
    path = str(record.write()) if options.record else None
    print(json.dumps({"device": record.environment.slug, **found, "record": path}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
