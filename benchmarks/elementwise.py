"""Norm, activation, rotary embedding with the KV write, log-probabilities and sampling beside their peers, in one run on one machine.

python benchmarks/elementwise.py                      # on the GPU
python benchmarks/elementwise.py --record             # and write measurements/<device>/elementwise.json
python benchmarks/elementwise.py --device cpu --quick # tiny sizes in the CPU interpreter, to see that it runs

Peers: the same operations in torch compiled by Inductor, and sampling by sorting in plain torch. Each sample starts with a cold L2; medians
with the 10th and 90th percentile. The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

if "cpu" in sys.argv:  # the interpreter must be chosen before a kernel is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
from elementwise_cases import logprobs_case, norm_case, randn, rope_case, sampling_case, silu_case

from infer_lab.bench import Record, Timing, graphed, measure
from infer_lab.bench.limits import LimitSizes, copy, read_stream
from infer_lab.kernels import _common

SOURCES = (
    "benchmarks/elementwise.py", "benchmarks/elementwise_cases.py", "src/infer_lab/bench/timer.py", "src/infer_lab/kernels/rmsnorm.py",
    "src/infer_lab/kernels/silu_mul.py", "src/infer_lab/kernels/rope_kv_write.py", "src/infer_lab/kernels/logprobs.py",
    "src/infer_lab/kernels/sampling.py", "src/infer_lab/kernels/_sampling_kernels.py",
)  # fmt: skip


def torch_norm(device: str, dtype: torch.dtype, rows: int, hidden: int) -> Callable[[], Any]:
    x, residual, weight = randn(device, dtype, rows, hidden), randn(device, dtype, rows, hidden), randn(device, dtype, hidden)

    def run(x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        stored = x + residual
        y = stored.float()
        return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + 1e-5) * weight.float()).to(x.dtype), stored

    fast: Any = run if device == "cpu" else torch.compile(run, dynamic=False)
    return lambda: fast(x, residual, weight)


def torch_silu(device: str, dtype: torch.dtype, rows: int, width: int) -> Callable[[], Any]:
    x = randn(device, dtype, rows, 2 * width)

    def run(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.silu(gate) * up

    fast: Any = run if device == "cpu" else torch.compile(run, dynamic=False)
    return lambda: fast(x)


def torch_sampling(device: str, rows: int, vocab: int, top_k: int, top_p: float) -> Callable[[], Any]:
    """What a plain implementation does: sort, cumulative sum, mask, scatter back, draw."""
    logits = randn(device, torch.float32, rows, vocab)

    def run() -> torch.Tensor:
        x, order = logits.sort(-1, descending=True)
        if top_k:
            x = x.masked_fill(torch.arange(vocab, device=x.device) >= top_k, float("-inf"))
        p = torch.softmax(x, -1)
        p = p.masked_fill(p.cumsum(-1) - p > top_p, 0.0)
        return order.gather(-1, torch.multinomial(p, 1))

    return run


def torch_logprobs(device: str, rows: int, vocab: int) -> Callable[[], Any]:
    logits, ids = randn(device, torch.float32, rows, vocab), torch.zeros(rows, 1, dtype=torch.int64, device=device)
    return lambda: torch.log_softmax(logits, -1).gather(-1, ids)


def cases(quick: bool) -> list[tuple[str, str, Callable[[str], Callable[[], Any]], float]]:
    """(name, ours or the peer, builder, bytes that must move at least)."""
    dtype = torch.float16 if quick else torch.bfloat16
    norms = ((3, 64),) if quick else ((64, 4096), (2048, 4096), (16384, 4096))
    silus = ((3, 64),) if quick else ((64, 14336), (4096, 14336))
    samples = ((2, 300, 0, 0.9),) if quick else ((64, 131072, 0, 0.9), (1, 131072, 0, 0.9), (64, 131072, 50, 1.0), (64, 131072, 50, 0.9))
    part = functools.partial
    out: list[tuple[str, str, Callable[[str], Callable[[], Any]], float]] = []
    for r, h in norms:
        size = 4.0 * r * h * 2
        out.append((f"norm_{r}x{h}", "ours", part(norm_case, dtype=dtype, rows=r, hidden=h), size))
        out.append((f"norm_{r}x{h}", "inductor", part(torch_norm, dtype=dtype, rows=r, hidden=h), size))
    for r, w in silus:
        out.append((f"silu_{r}x{w}", "ours", part(silu_case, dtype=dtype, rows=r, width=w), 3.0 * r * w * 2))
        out.append((f"silu_{r}x{w}", "inductor", part(torch_silu, dtype=dtype, rows=r, width=w), 3.0 * r * w * 2))
    for t in (4,) if quick else (64, 4096):
        heads, kv, d = (2, 1, 64) if quick else (32, 8, 128)
        size = 2.0 * t * (heads + 2 * kv) * d * 2
        out.append((f"rope_kv_{t}", "ours", part(rope_case, dtype=dtype, tokens=t, heads=heads, kv_heads=kv, d=d), size))
    for r, v, k, p in samples:
        name = f"sample_b{r}" + (f"_k{k}" if k else "") + (f"_p{round(p * 100)}" if p < 1 else "")
        out.append((name, "ours", part(sampling_case, rows=r, vocab=v, top_k=k, top_p=p), 4.0 * r * v))
        out.append((name, "sort", part(torch_sampling, rows=r, vocab=v, top_k=k, top_p=p), 4.0 * r * v))
    for r, v in ((2, 300),) if quick else ((64, 131072),):
        out.append((f"logprobs_b{r}", "ours", part(logprobs_case, rows=r, vocab=v), 4.0 * r * v))
        out.append((f"logprobs_b{r}", "torch", part(torch_logprobs, rows=r, vocab=v), 4.0 * r * v))
    return out


def compile_case(build: Callable[[str], Callable[[], Any]]) -> None:
    build("meta")()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/elementwise")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    options = parser.parse_args(argv)
    device, start = options.device, time.perf_counter()
    if device.startswith("cuda") and not torch.cuda.is_available():
        print("error: no CUDA device was found here; --device cpu --quick runs the kernels in the interpreter", file=sys.stderr)
        return 2
    if device == "cpu" and not options.quick:
        print("error: the CPU runs these kernels in an interpreter, whose speed means nothing: say --quick", file=sys.stderr)
        return 2
    if options.quick and options.record and device.startswith("cuda"):
        print("error: the figures of --quick mean nothing; leave out --quick to record", file=sys.stderr)
        return 2
    todo = cases(options.quick)
    workload = {"cases": sorted({name for name, *_ in todo}), "l2": "flushed each time", "quick": options.quick}
    torch.manual_seed(0)
    record = Record("elementwise", "Elementwise and sampling kernels beside their peers", device, sources=SOURCES, workload=workload)
    found: dict[str, float] = {}
    if device.startswith("cuda"):
        from infer_lab.kernels.precompile import compile_in_parallel

        target = _common.target_of(torch.device("cuda"))
        jobs = [functools.partial(compile_case, build) for _, who, build, _ in todo if who == "ours"]
        compile_in_parallel(jobs, target.capability[0] * 10 + target.capability[1], target)
        print(f"compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    size = LimitSizes.of(device, options.quick)
    for limit, rate in (("limit_read_stream", read_stream(device, size)), ("limit_copy", copy(device, size))):
        record.add_samples(limit, rate.samples, rate.unit)
        found[f"{limit} ({rate.unit})"] = round(float(rate.median.value), 1)

    def keep(name: str, timing: Timing, size: float) -> None:
        record.add_timing(f"{name}_time", timing, "us")
        record.add_samples(f"{name}_rate", [size / 1e9 / s for s in timing.samples], "GB/s")
        found[f"{name} (us)"] = round(timing.median * 1e6, 2)
        print(
            f"  {name}: {timing.median * 1e6:.1f} us, {size / 1e9 / timing.median:.0f} GB/s of what must move", file=sys.stderr, flush=True
        )

    on_gpu = device.startswith("cuda")
    for i, (name, who, build, moved) in enumerate(todo, 1):
        print(f"[{i}/{len(todo)}] {name} {who}", file=sys.stderr, flush=True)
        fn = build(device)
        keep(f"{name}_{who}", measure(fn, device, warmup=5 if on_gpu else 1, repeats=60 if on_gpu else 2, flush_l2=on_gpu), moved)
        if on_gpu and who == "ours":  # the GPU's own time, without the launches
            keep(f"{name}_graph", measure(graphed(fn), device, warmup=5, repeats=60, flush_l2=True), moved)
    path = str(record.write()) if options.record else None
    print(json.dumps({"device": record.environment.slug, **found, "record": path}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
