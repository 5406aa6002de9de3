"""Flash prefill and paged decode beside what a user would pick instead, in one run on one machine.

python benchmarks/attention.py                      # on the GPU
python benchmarks/attention.py --record             # and write measurements/<device>/attention.json
python benchmarks/attention.py --device cpu --quick # tiny sizes in the CPU interpreter, to see that it runs

Peers: SDPA (cuDNN, FlashAttention-2), FlexAttention, and FlashAttention-3 where `fa3_fwd_interface` is installed. Each sample starts with a
cold L2; medians with the 10th and 90th percentile. The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

if "cpu" in sys.argv:  # the interpreter must be chosen before a kernel is imported
    os.environ.setdefault("TRITON_INTERPRET", "1")

import torch
from attention_cases import Decode, Prefill, dense_prefill, paged_decode_case, paged_prefill

from infer_lab.bench import Record, Timing, measure
from infer_lab.bench.limits import LimitSizes, matmul, read_stream
from infer_lab.kernels import _common

SOURCES = (
    "benchmarks/attention.py", "benchmarks/attention_cases.py", "src/infer_lab/bench/timer.py", "src/infer_lab/kernels/flash_prefill.py",
    "src/infer_lab/kernels/hopper_prefill.py", "src/infer_lab/kernels/_hopper_prefill_kernel.py", "src/infer_lab/kernels/paged_decode.py",
    "src/infer_lab/kernels/_paged_decode_kernel.py",
)  # fmt: skip
PREFILLS = (Prefill(2, 4096, 32, 8, 128), Prefill(1, 8192, 32, 8, 128), Prefill(1, 16384, 32, 8, 128), Prefill(1, 8192, 32, 8, 64))
DECODES = (Decode(64, 4096, 32, 8, 128), Decode(16, 4096, 32, 8, 128), Decode(1, 32768, 32, 8, 128), Decode(1, 4096, 32, 8, 128))
QUICK_PREFILLS = (Prefill(1, 64, 2, 1, 64, torch.float16),)
QUICK_DECODES = (Decode(2, 48, 2, 1, 64, torch.float16),)


def sdpa(backend: str, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    def run() -> torch.Tensor:
        with sdpa_kernel(getattr(SDPBackend, backend)):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)

    return run


def flex(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2], device=q.device)
    compiled: Any = torch.compile(flex_attention)
    return lambda: compiled(q, k, v, block_mask=mask, enable_gqa=True)


def flash3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> Callable[[], torch.Tensor] | None:
    try:
        from fa3_fwd_interface import flash_attn_func  # type: ignore[import-not-found]
    except ImportError:
        return None

    def run() -> torch.Tensor:
        out = flash_attn_func(q, k, v, causal=causal)
        return out[0] if isinstance(out, tuple) else out

    return run


class Bench:
    """Times one thing after the other, prints a line each, keeps everything for the record."""

    def __init__(self, device: str, quick: bool, record: Record) -> None:
        self.device, self.record = device, record
        self.repeats = 3 if quick else 40
        self.found: dict[str, float] = {}

    def rate(self, name: str, fn: Callable[[], object], work: float, unit: str) -> Timing | None:
        """work per second in `unit`; a peer that fails is reported and left out."""
        try:
            timing = measure(fn, self.device, warmup=1 if self.repeats < 10 else 5, repeats=self.repeats, flush_l2=self.device != "cpu")
        except Exception as error:
            print(f"  {name}: not here ({type(error).__name__}: {str(error)[:100]})", file=sys.stderr, flush=True)
            return None
        self.record.add_samples(f"{name}_rate", [work / s for s in timing.samples], unit)
        self.record.add_timing(f"{name}_time", timing, "us")
        self.found[f"{name} ({unit})"] = round(work / timing.median, 2)
        print(f"  {name}: {timing.median * 1e6:.1f} us, {work / timing.median:.1f} {unit}", file=sys.stderr, flush=True)
        return timing

    def prefill(self, shape: Prefill) -> None:
        tera = shape.flops / 1e12
        for page in (0, 16, 64):
            fn = paged_prefill(shape, self.device, page) if page else dense_prefill(shape, self.device)
            self.rate(f"{shape.name}_{f'paged{page}' if page else 'ours'}", fn, tera, "TFLOP/s")
        b, s, d = shape.batch, shape.seq, shape.head_dim
        q = torch.randn(b, s, shape.heads, d, dtype=shape.dtype, device=self.device)
        k, v = (torch.randn(b, s, shape.kv_heads, d, dtype=shape.dtype, device=self.device) for _ in range(2))
        qt, kt, vt = (x.transpose(1, 2).contiguous() for x in (q, k, v))
        if self.device == "cpu":
            self.rate(f"{shape.name}_sdpa", sdpa("MATH", qt, kt, vt, True), tera, "TFLOP/s")
            return
        self.rate(f"{shape.name}_cudnn", sdpa("CUDNN_ATTENTION", qt, kt, vt, True), tera, "TFLOP/s")
        self.rate(f"{shape.name}_fa2", sdpa("FLASH_ATTENTION", qt, kt, vt, True), tera, "TFLOP/s")
        self.rate(f"{shape.name}_flex", flex(qt, kt, vt), tera, "TFLOP/s")
        if (fa3 := flash3(q, k, v, True)) is not None:
            self.rate(f"{shape.name}_fa3", fa3, tera, "TFLOP/s")

    def decode(self, shape: Decode) -> None:
        kinds: tuple[tuple[str, torch.dtype | None], ...] = (("ours", None), ("fp8", _common.FP8), ("int8", torch.int8))
        for page in (16, 64):
            for label, kind in kinds:
                if label != "ours" and page == 64:
                    continue
                giga = shape.kv_bytes((kind or shape.dtype).itemsize) / 1e9
                name = f"{shape.name}_{label}" + (f"_page{page}" if page != 16 else "")
                self.rate(name, paged_decode_case(shape, self.device, page, kind), giga, "GB/s")
        b, s, d = shape.batch, shape.seq, shape.head_dim
        giga = shape.kv_bytes(shape.dtype.itemsize) / 1e9
        q = torch.randn(b, shape.heads, 1, d, dtype=shape.dtype, device=self.device)
        k, v = (torch.randn(b, shape.kv_heads, s, d, dtype=shape.dtype, device=self.device) for _ in range(2))
        if self.device == "cpu":
            self.rate(f"{shape.name}_sdpa", sdpa("MATH", q, k, v, False), giga, "GB/s")
            return
        self.rate(f"{shape.name}_cudnn", sdpa("CUDNN_ATTENTION", q, k, v, False), giga, "GB/s")
        self.rate(f"{shape.name}_fa2", sdpa("FLASH_ATTENTION", q, k, v, False), giga, "GB/s")
        kd, vd = (x.transpose(1, 2).contiguous() for x in (k, v))
        if (fa3 := flash3(q.transpose(1, 2).contiguous(), kd, vd, False)) is not None:
            self.rate(f"{shape.name}_fa3", fa3, giga, "GB/s")


def compile_all(prefills: Sequence[Prefill], decodes: Sequence[Decode]) -> None:
    from infer_lab.kernels.precompile import compile_in_parallel

    target = _common.target_of(torch.device("cuda"))
    jobs: list[Callable[[], Any]] = []
    for p in prefills:
        jobs += [functools.partial(run_meta, "prefill", p, page, None, target) for page in (0, 16, 64)]
    for d in decodes:
        jobs += [
            functools.partial(run_meta, "decode", d, page, kind, target) for page in (16, 64) for kind in (None, _common.FP8, torch.int8)
        ]
    compile_in_parallel(jobs, target.capability[0] * 10 + target.capability[1], target)


def run_meta(kind: str, shape: Any, page: int, cache: torch.dtype | None, target: _common.Target) -> None:
    if kind == "decode":
        paged_decode_case(shape, "meta", page, cache, target=target)()
    else:
        (paged_prefill(shape, "meta", page) if page else dense_prefill(shape, "meta"))()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/attention")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    parser.add_argument("--only", choices=("prefill", "decode"), help="one half")
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
    prefills, decodes = (QUICK_PREFILLS, QUICK_DECODES) if options.quick else (PREFILLS, DECODES)
    workload = {
        "prefill": [f"B{p.batch} S{p.seq} heads {p.heads}/{p.kv_heads} d{p.head_dim}" for p in prefills],
        "decode": [f"B{d.batch} S{d.seq} heads {d.heads}/{d.kv_heads} d{d.head_dim}" for d in decodes],
        "dtype": "float16" if options.quick else "bfloat16", "pages": "shuffled", "l2": "flushed each time", "quick": options.quick,
    }  # fmt: skip
    torch.manual_seed(0)
    record = Record("attention", "Attention kernels beside their peers", device, sources=SOURCES, workload=workload)
    bench = Bench(device, options.quick, record)
    if device.startswith("cuda"):
        compile_all(prefills, decodes)
        print(f"compiled in {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    size = LimitSizes.of(device, options.quick)
    for name, rate in (("limit_read_stream", read_stream(device, size)), ("limit_matmul", matmul(device, size, prefills[0].dtype))):
        record.add_samples(name, rate.samples, rate.unit)
        bench.found[f"{name} ({rate.unit})"] = round(float(rate.median.value), 1)
    steps: list[tuple[str, Callable[[Any], None], Any]] = []
    steps += [(p.name, bench.prefill, p) for p in prefills if options.only != "decode"]
    steps += [(d.name, bench.decode, d) for d in decodes if options.only != "prefill"]
    for i, (name, step, shape) in enumerate(steps, 1):
        print(f"[{i}/{len(steps)}] {name}", file=sys.stderr, flush=True)
        step(shape)
    path = str(record.write()) if options.record else None
    print(json.dumps({"device": record.environment.slug, **bench.found, "record": path}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
