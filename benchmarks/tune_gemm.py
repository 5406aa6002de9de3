"""Find the fastest launch of each matrix-product kernel for the shapes of the goals table, on the GPU of this machine.

Why a program of its own: tuning takes minutes and belongs neither at import nor in a request. It tries the tiles below, prints the best,
and with --ship merges them into src/infer_lab/kernels/configs/<device>.json, where the kernels look them up. Compiling is most of the
work, so candidates are compiled by all cores first and timed alone afterwards: CUDA graphs over weights larger than the L2 together.

    python benchmarks/tune_gemm.py --ops w4a16 skinny_gemm --ship
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from infer_lab.bench.timer import measure
from infer_lab.errors import UserError
from infer_lab.kernels import _common
from infer_lab.kernels._gemm import GemmConfig, make_locks
from infer_lab.kernels.fp8_gemm import W8A8Config, fp8_gemm
from infer_lab.kernels.int8_gemm import int8_gemm
from infer_lab.kernels.pack import PackedWeight
from infer_lab.kernels.skinny_gemm import skinny_gemm
from infer_lab.kernels.w4a16 import w4a16
from infer_lab.kernels.w8a16 import w8a16

SHAPES = ((28672, 8192), (14336, 4096), (4096, 14336), (4096, 4096), (6144, 4096), (28672, 4096))
ROTATE_BYTES = 256 * 2**20  # copies of a weight together, well beyond the L2


@dataclass(frozen=True)
class Job:
    op: str
    m: int
    n: int
    k: int
    config: dict[str, Any]


def packed(n: int, k: int, bits: int, group: int | None, block_k: int) -> PackedWeight:
    """Random words: every bit pattern is a valid weight, and timing needs no meaning."""
    planes = 16 // bits
    shape = (-(-n // 64), -(-k // block_k), 64, block_k // planes)
    data = torch.randint(-32768, 32767, shape, dtype=torch.int16, device="cuda")
    groups = -(-k // group) if group else 1
    scales = torch.rand(groups, shape[0] * 64, device="cuda", dtype=torch.float32).mul_(0.01).bfloat16()
    return PackedWeight(data, scales, None, n, k, group or max(k, 129), bits, block_k, make_locks(n, "cuda"))


def copies_of(nbytes: int) -> int:
    return max(2, min(32, -(-ROTATE_BYTES // nbytes)))


def calls(op: str, m: int, n: int, k: int, block_k: int, count: int | None) -> list[Callable[[Any], torch.Tensor]]:
    """One function of a configuration for each copy of the weight."""
    if op in ("w4a16", "w8a16"):
        bits = 4 if op == "w4a16" else 8
        kernel = w4a16 if bits == 4 else w8a16
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        weights = [
            packed(n, k, bits, 128 if bits == 4 else None, 256 if bits == 4 else block_k)
            for _ in range(count or copies_of(n * k * bits // 8))
        ]
        return [lambda c, w=w: kernel(x, w, config=c) for w in weights]
    if op == "skinny_gemm":
        x = torch.randn(m, k, device="cuda", dtype=torch.bfloat16)
        locks = make_locks(n, "cuda")
        ws = [torch.randn(n, k, device="cuda", dtype=torch.bfloat16) for _ in range(count or copies_of(2 * n * k))]
        return [lambda c, w=w: skinny_gemm(x, w, locks=locks, config=c) for w in ws]
    kernel8 = fp8_gemm if op == "fp8_gemm" else int8_gemm
    dtype = torch.float8_e4m3fn if op == "fp8_gemm" else torch.int8
    locks = make_locks(max(n, m), "cuda")

    def eight_bit(rows: int) -> torch.Tensor:
        return (torch.randn(rows, k, device="cuda") * 40).clamp(-127, 127).to(dtype)

    x8, xs, ws8 = eight_bit(m), torch.rand(m, device="cuda"), torch.rand(n, device="cuda")
    return [lambda c, w=w: kernel8(x8, xs, w, ws8, locks=locks, config=c) for w in (eight_bit(n) for _ in range(count or copies_of(n * k)))]


def splits(tiles: int, steps: int, programs: range = range(100, 2000)) -> Iterator[int]:
    for s in (1, 2, 4, 8, 16):
        if tiles * s in programs and steps >= 2 * s:
            yield s


def candidates(op: str, m: int, n: int, k: int) -> Iterator[dict[str, Any]]:
    bm = min(max(8, 1 << (m - 1).bit_length()), 256)
    if op in ("fp8_gemm", "int8_gemm"):
        yield from w8a8_candidates(m, n, k)
        return
    if op == "w4a16":
        tiles = [(64, 128, 4), (64, 256, 4), (128, 128, 4), (128, 256, 4), (128, 256, 8), (64, 256, 2), (128, 256, 2), (128, 128, 2)]
        wide = [(128, 128, 4), (128, 64, 4), (128, 256, 4), (64, 256, 4), (256, 128, 8), (256, 64, 8)]
    elif op == "w8a16":
        tiles = [(64, 128, 4), (128, 128, 4), (128, 128, 8), (64, 256, 4), (32, 256, 4)]
        wide = [(128, 128, 4), (128, 128, 8), (256, 128, 8)]
    else:
        tiles = [(64, 64, 4), (64, 128, 4), (128, 64, 4), (128, 128, 8), (32, 128, 4), (32, 256, 4), (16, 256, 2), (16, 512, 4)]
        wide = [(64, 128, 4), (128, 64, 4)]
    per_byte = {"w4a16": 2, "w8a16": 1}.get(op, 0.5)
    for bn, bk, warps in tiles if bm <= 16 else wide:
        for block_m in {bm, min(bm, 128)} if bm > 16 else {bm}:
            for stages in (2, 3, 4, 6):
                shared = stages * (bn * bk / per_byte + block_m * bk * 2)
                if shared > 225_000 or (bm <= 16 and shared < 20_000):
                    continue
                for split in splits(-(-n // bn) * -(-m // block_m), k // bk) if m <= block_m else (1,):
                    yield asdict(GemmConfig(bn, block_m, bk, split, warps, stages))


def w8a8_candidates(m: int, n: int, k: int) -> Iterator[dict[str, Any]]:
    few = min(m, n)
    if few < 128:
        bb = max(16, 1 << (few - 1).bit_length())
        for ba, bk, warps in ((64, 128, 4), (128, 128, 4), (64, 256, 4), (128, 128, 8)):
            for stages in (3, 4, 6):
                for split in splits(-(-max(m, n) // ba), k // bk):
                    yield asdict(W8A8Config(ba, bb, bk, split, warps, stages))
        return
    for band in (8, 16):
        for stages in (3, 4, 5, 6):
            for persistent in (0, 1):
                yield asdict(W8A8Config(128, 128, 128, 1, 4, stages, bulk=True, specialize=True, persistent=persistent, band=band))
            if stages < 6:
                yield asdict(W8A8Config(128, 128, 128, 1, 8, stages, bulk=True, band=band))
    yield asdict(W8A8Config(128, 128, 128, 1, 8, 4))
    yield asdict(W8A8Config(256, 128, 128, 1, 8, 3, bulk=True))


def config_of(job: Job) -> Any:
    return (W8A8Config if job.op in ("fp8_gemm", "int8_gemm") else GemmConfig)(**job.config)


def compile_jobs(jobs: list[Job]) -> dict[int, str]:
    """In a worker: compile each launch into Triton's disk cache without running it. Returns the failures by index."""
    from triton.runtime.jit import JITFunction

    run = JITFunction.run
    JITFunction.run = lambda self, *a, grid, warmup, **kw: run(self, *a, grid=grid, warmup=True, **kw)  # type: ignore[method-assign]
    failures, ready = {}, {}
    for i, job in enumerate(jobs):
        key = (job.op, job.m, job.n, job.k, job.config["block_k"])
        try:
            if key not in ready:
                ready.clear()
                ready[key] = calls(*key, count=1)
            ready[key][0](config_of(job))
        except Exception as error:
            failures[i] = str(error).splitlines()[0][:100] if str(error) else repr(error)[:100]
    return failures


def seconds(functions: list[Callable[[Any], torch.Tensor]], config: Any, launches: int = 12) -> float:
    """Median time of one launch, from replays of a graph that walks over the copies."""
    for f in functions[:2]:
        f(config)
    torch.cuda.synchronize()
    count = -(-launches // len(functions)) * len(functions)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(count):
            functions[i % len(functions)](config)
    return measure(graph.replay, "cuda", warmup=2, repeats=9).per(count).median


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", nargs="+", default=["w4a16", "w8a16", "skinny_gemm", "fp8_gemm"])
    parser.add_argument("--m", nargs="+", type=int, default=[1, 16], help="batch sizes (default 1 16)")
    parser.add_argument("--shapes", nargs="+", default=[f"{n}x{k}" for n, k in SHAPES[:4]], help="weights as NxK")
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--log", type=Path, help="every timing, one JSON document a line")
    parser.add_argument("--ship", action="store_true", help="merge the best into the configurations that the kernels use")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("tune_gemm: this machine has no CUDA device; the kernels use their heuristics where no tuned file exists", file=sys.stderr)
        return 2
    shapes = [tuple(map(int, s.split("x"))) for s in args.shapes]
    jobs = [Job(op, m, n, k, c) for op in args.ops for n, k in shapes for m in args.m for c in candidates(op, m, n, k)]
    start = time.monotonic()
    unique = list({(j.op, j.m > 256, json.dumps(j.config)): j for j in jobs}.values())
    workers = max(1, (os.cpu_count() or 2) - 1)
    chunks = [unique[i::workers] for i in range(workers)]
    failures: dict[str, str] = {}
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        for chunk, bad in zip(chunks, pool.map(compile_jobs, chunks), strict=True):
            failures |= {f"{chunk[i].op} {chunk[i].config}": why for i, why in bad.items()}
    print(f"compiled {len(unique)} launches in {time.monotonic() - start:.0f} s, {len(failures)} failed", flush=True)
    for name, why in list(failures.items())[:5]:
        print("  failed:", name, why)
    best = time_jobs(jobs, args.top, args.log)
    print(f"done after {time.monotonic() - start:.0f} s")
    if args.ship:
        ship(best)
    return 0


def time_jobs(jobs: list[Job], top: int, log: Path | None) -> dict[tuple[str, int, int, int], dict[str, Any]]:
    best = {}
    lines = []
    groups: dict[tuple[str, int, int, int], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.op, job.m, job.n, job.k), []).append(job)
    for (op, m, n, k), members in groups.items():
        timed, functions, current = [], [], 0
        for job in sorted(members, key=lambda j: j.config["block_k"]):
            if job.config["block_k"] != current:
                current = job.config["block_k"]
                functions = calls(op, m, n, k, current, None)
            try:
                timed.append((seconds(functions, config_of(job)), job.config))
            except Exception as error:
                lines.append(json.dumps(asdict(job) | {"error": str(error)[:200]}))
        if not timed:
            raise UserError(f"no candidate of {op} ran at m={m} n={n} k={k}")
        timed.sort(key=lambda t: t[0])
        lines += [json.dumps({"op": op, "m": m, "n": n, "k": k, "us": t * 1e6, "config": c}) for t, c in timed]
        best[op, m, n, k] = timed[0][1]
        for t, c in timed[:top]:
            print(f"{op:12s} m={m:<4d} {n}x{k}: {t * 1e6:8.2f} us  {' '.join(f'{a}={b}' for a, b in c.items())}", flush=True)
        if log:
            log.write_text("\n".join(lines) + "\n")
    return best


def ship(best: dict[tuple[str, int, int, int], dict[str, Any]]) -> None:
    slug = _common.target_of(torch.device("cuda")).slug
    path = _common.CONFIG_DIR / f"{slug}.json"
    document = json.loads(path.read_text()) if path.exists() else {"kernels": {}}
    for (op, m, n, k), config in best.items():
        document["kernels"].setdefault(op, {})[f"n{n}-k{k}-m{m}"] = config
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"shipped {len(best)} configurations in {path.name}")


if __name__ == "__main__":
    sys.exit(main())
