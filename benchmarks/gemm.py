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

import sys
from functools import partial

import torch
from _kernel_bench import Case, KernelBench, jobs_of  # sorts first, as it must: it chooses the interpreter
from gemm_cases import Product, ours, peers

from infer_lab.bench import Timing
from infer_lab.errors import InferLabError

KERNELS = ("_gemm", "_unpack", "_w8a8", "_hopper_fp8_kernel", "w4a16", "w8a16", "skinny_gemm", "fp8_gemm", "int8_gemm", "pack")
SOURCES = ("benchmarks/gemm_cases.py", *(f"src/infer_lab/kernels/{name}.py" for name in KERNELS))
LARGE, MIDDLE, SMALL = (28672, 8192), (14336, 4096), (4096, 4096)
PRODUCTS = (
    *(Product("w4a16", m, *shape) for shape in (LARGE, MIDDLE) for m in (1, 2, 4, 8, 16, 32, 64, 128, 256)),
    *(Product("skinny_gemm", m, *shape) for shape in (LARGE, MIDDLE, SMALL) for m in (1, 16)),
    *(Product("w8a16", m, *shape) for shape in (LARGE, MIDDLE, SMALL) for m in (1, 16)),
    Product("fp8_gemm", 8192, 8192, 8192), Product("int8_gemm", 8192, 8192, 8192), Product("fp8_gemm", 16, 28672, 8192),
)  # fmt: skip
QUICK = (
    Product("w4a16", 3, 128, 256, torch.float16), Product("skinny_gemm", 3, 128, 128, torch.float16),
    Product("w8a16", 3, 128, 256, torch.float16), Product("fp8_gemm", 32, 64, 128, torch.float16),
    Product("int8_gemm", 32, 64, 128, torch.float16),
)  # fmt: skip
NAMES = {
    "w4a16": "W4A16 product", "w8a16": "W8A16 product", "skinny_gemm": "16-bit skinny product", "fp8_gemm": "FP8 W8A8 product",
    "int8_gemm": "INT8 W8A8 product",
}  # fmt: skip
RIVALS = {
    "w4a16": ("cublas", "int4pack"), "w8a16": ("cublas",), "skinny_gemm": ("cublas",), "int8_gemm": ("cublas", "int-mm"),
    "fp8_gemm": ("cublas", "scaled-mm", "scaled-mm-fast"),
}  # fmt: skip
# Relative norm against float32: bf16 rounding is 2e-3 (scaled weights, above 32 tokens, add one more), FP8 sums 1e-4, INT8 sums exact.
TOLERANCE = 4e-3


class Wrong(InferLabError):
    """A result that is not the product: no time is worth reporting."""


def run(bench: KernelBench, product: Product, peer_times: dict[str, Timing]) -> None:
    """peer_times: those of earlier products, by name; a peer whose work is the same is timed once."""
    work = f"{product.n}x{product.k}-m{product.m}"
    case = Case(
        product.name, NAMES[product.op], f"M{product.m}, {product.n} × {product.k}", product.nbytes, product.flops,
        peak=2 if product.op in ("fp8_gemm", "int8_gemm") else 1, work=work,
    )  # fmt: skip
    calls, reference = ours(product, bench.device, product.copies(bench.device))
    answer, expected = calls[0](None).float(), reference()
    error = ((answer - expected).norm() / expected.norm()).item()
    if not error < TOLERANCE:
        raise Wrong(f"{product.name}: relative error {error:.2e} against float32, allowed {TOLERANCE:.0e}")
    del answer, expected, reference
    bench.time(case, "ours", [partial(call, None) for call in calls])
    del calls
    known = {who: peer_times[f"{who}-{work}"] for who in RIVALS[product.op] if f"{who}-{work}" in peer_times}
    case.times |= known
    for who, fns in peers(product, bench.device, known).items():
        bench.time(case, who, fns)
    peer_times |= {f"{who}-{work}": timing for who, timing in case.times.items() if who != "ours"}
    bench.keep(case)
    bench.say(f"  error {error:.1e}")


def curves(bench: KernelBench, products: tuple[Product, ...]) -> None:
    """Time against batch size, for the shapes of the weight-only product."""
    for n, k in dict.fromkeys((p.n, p.k) for p in products if p.op == "w4a16"):
        rows = [p for p in products if (p.op, p.n, p.k) == ("w4a16", n, k)]
        x, record = ("tokens", "tok", [p.m for p in rows]), bench.record
        times = {
            "w4a16": ("W4A16, groups of 128", [record.values[p.name]["value"] for p in rows], "measured"),
            "cublas": ("cuBLAS bf16", [record.values[f"cublas-{n}x{k}-m{p.m}"]["value"] for p in rows], "peer"),
            "floor": ("floor of W4A16", [record.cases[p.name]["floor_us"] for p in rows], "limit"),
        }
        for name, (title, y, kind) in times.items():
            record.add_series(f"{name}-{n}x{k}", title, x, ("time", "us", y), kind)


def builder(product: Product):
    return lambda device: partial(ours(product, device, 1)[0][0], None)


def main(argv: list[str] | None = None) -> int:
    bench = KernelBench("gemm", "Matrix products beside their peers", __doc__, SOURCES, argv, NAMES)
    products = tuple(p for p in (QUICK if bench.quick else PRODUCTS) if bench.wants(p.op))
    bench.record.workload |= {"group": 128, "weights": "random, rotated over more than 256 MiB", "timing": "CUDA graph replays"}
    bench.compile(jobs_of(builder(p) for p in products))
    bench.measure_limits()
    peer_times: dict[str, Timing] = {}
    try:
        for product in products:
            run(bench, product, peer_times)
    except Wrong as error:
        bench.say(f"error: {error}")
        return 1
    curves(bench, products)
    return bench.finish()


if __name__ == "__main__":
    sys.exit(main())
