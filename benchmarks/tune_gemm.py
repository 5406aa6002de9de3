"""Find the fastest launch of each matrix-product kernel for the shapes of the goals table, on the GPU of this machine.

Why a program of its own: tuning takes minutes and belongs neither at import nor in a request. It tries the tiles below, prints the best,
and with --ship merges them into src/infer_lab/kernels/configs/<device>.json, where the kernels look them up. Compiling is most of the
work, so candidates are compiled on all cores first and timed alone afterwards: CUDA graphs over weights larger than the L2 together.

    python benchmarks/tune_gemm.py --ops w4a16 skinny_gemm --ship
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from _kernel_bench import in_turn
from gemm_cases import Product, ours, peers

from infer_lab.kernels import _common
from infer_lab.kernels._common import cdiv, next_power_of_2
from infer_lab.kernels._gemm import BATCH_BOUNDS, GemmConfig
from infer_lab.kernels._w8a8 import W8A8Config
from infer_lab.kernels.precompile import compile_in_parallel

# (weight rows of a tile, columns of a step, warps) for few tokens and for many
FEW = {
    "w4a16": ((64, 128, 4), (64, 256, 4), (128, 128, 4), (128, 256, 4), (64, 256, 2), (128, 256, 2)),
    "w8a16": ((64, 128, 4), (128, 128, 4), (128, 128, 8)),
    "skinny_gemm": ((64, 64, 4), (64, 128, 4), (128, 64, 4), (128, 128, 8)),
}
MANY = {
    "w4a16": ((128, 128, 4), (128, 64, 4), (256, 128, 8), (256, 64, 8)),
    "w8a16": ((128, 128, 4), (128, 128, 8), (256, 128, 8)),
    "skinny_gemm": ((64, 128, 4), (128, 64, 4)),
}


def splits(tiles: int, steps: int) -> Iterator[int]:
    """Parts of K that leave each program two steps and the chip neither starved nor crowded."""
    yield from (s for s in (1, 2, 4, 8) if 100 <= tiles * s < 1200 and steps >= 2 * s)


def candidates(op: str, m: int, n: int, k: int) -> Iterator[dict[str, Any]]:
    if op in ("fp8_gemm", "int8_gemm"):
        yield from w8a8_candidates(op, m, n, k)
        return
    block_m = min(max(8, next_power_of_2(m)), 128)
    for block_n, block_k, warps in FEW[op] if m <= 16 else MANY[op]:
        for stages in (2, 3, 4):
            shared = stages * (block_n * block_k * {"w4a16": 0.5, "w8a16": 1}.get(op, 2) + block_m * block_k * 2)
            if shared > 225_000 or (m <= 16 and shared < 20_000):
                continue
            for split in splits(cdiv(n, block_n), k // block_k) if m <= block_m else (1,):
                yield asdict(GemmConfig(block_n, block_m, block_k, split, warps, stages))


def w8a8_candidates(op: str, m: int, n: int, k: int) -> Iterator[dict[str, Any]]:
    few = min(m, n)
    if few < 128:
        for block_a, block_k, warps in ((64, 128, 4), (128, 128, 4), (64, 256, 4), (128, 128, 8)):
            for stages in (3, 4, 6):
                for split in splits(cdiv(max(m, n), block_a), k // block_k):
                    yield asdict(W8A8Config(block_a, max(16, next_power_of_2(few)), block_k, split, warps, stages))
        return
    for band in (8, 16):
        for stages in (4, 5):
            for hopper in (False, True) if op == "fp8_gemm" else (False,):
                common = {"bulk": True, "specialize": True, "hopper": hopper, "persistent": 1}
                yield asdict(W8A8Config(128, 128, 128, 1, 4, stages, band=band, **common))


def config_of(op: str, config: dict[str, Any]) -> Any:
    return (W8A8Config if op in ("fp8_gemm", "int8_gemm") else GemmConfig)(**config)


def run_meta(case: Product, config: dict[str, Any]) -> None:
    ours(case, "meta", 1)[0][0](config_of(case.op, config))


def compile_all(cases: list[Product]) -> None:
    target = _common.target_of(torch.device("cuda"))
    unique = {(c.op, json.dumps(config)): (c, config) for c in cases for config in candidates(c.op, c.m, c.n, c.k)}
    jobs = [functools.partial(run_meta, case, config) for case, config in unique.values()]
    start = time.monotonic()
    failures = [answer for answer in compile_in_parallel(jobs, target.capability[0] * 10 + target.capability[1], target) if answer]
    print(f"compiled {len(jobs)} launches in {time.monotonic() - start:.0f} s, {len(failures)} failed {failures[:2]}", flush=True)


def time_case(case: Product, top: int, only_faster: bool) -> tuple[dict[str, Any] | None, list[str]]:
    """The fastest configuration, and a JSON line for each that ran or failed. only_faster: None unless it beats cuBLAS here and now."""
    calls, _ = ours(case, "cuda", case.copies("cuda"))
    timed, lines = [], []
    for config in candidates(case.op, case.m, case.n, case.k):
        row = {"op": case.op, "m": case.m, "n": case.n, "k": case.k, "config": config}
        try:
            bound = [functools.partial(call, config_of(case.op, config)) for call in calls]
            timed.append((in_turn(bound, "cuda", repeats=9).median, config))
            lines.append(json.dumps(row | {"us": timed[-1][0] * 1e6}))
        except Exception as error:  # a launch that does not fit is an answer
            lines.append(json.dumps(row | {"error": str(error)[:200]}))
    timed.sort(key=lambda t: t[0])
    for seconds, config in timed[:top]:
        print(f"{case.name}: {seconds * 1e6:8.2f} us  {' '.join(f'{a}={b}' for a, b in config.items())}", flush=True)
    if only_faster:
        cublas = in_turn(peers(case, "cuda", ("int4pack",))["cublas"], "cuda", repeats=9).median
        print(f"{case.name}: {cublas * 1e6:8.2f} us  cuBLAS", flush=True)
        if timed[0][0] > cublas:
            return None, lines
    return timed[0][1], lines


def ship(best: dict[Product, dict[str, Any]]) -> None:
    path = _common.CONFIG_DIR / f"{_common.target_of(torch.device('cuda')).slug}.json"
    document = json.loads(path.read_text()) if path.exists() else {"kernels": {}}
    for case, config in best.items():
        bound = next(b for b in BATCH_BOUNDS if case.m <= b)
        document["kernels"].setdefault(case.op, {})[f"n{case.n}-k{case.k}-m{bound}"] = config
    path.write_text(json.dumps(document, indent=1) + "\n")
    print(f"shipped {len(best)} configurations in {path.name}")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ops", nargs="+", default=["w4a16", "w8a16", "skinny_gemm"], choices=[*FEW, "fp8_gemm", "int8_gemm"])
    parser.add_argument("--m", nargs="+", type=int, default=[8, 16], help="batch sizes: the largest of the range each is for")
    parser.add_argument("--shapes", nargs="+", default=["28672x8192", "14336x4096", "4096x4096"], help="weights as NxK")
    parser.add_argument("--as-engine", action="store_true", help="w4a16 with zero points and w8a16 in groups, as the engine packs them")
    parser.add_argument("--top", type=int, default=2, help="how many of the best to print")
    parser.add_argument("--log", type=Path, help="every timing, one JSON document a line")
    parser.add_argument("--only-faster", action="store_true", help="ship only what beats cuBLAS: the engine takes a shipped skinny_gemm")
    parser.add_argument("--ship", action="store_true", help="merge the best into the configurations that the kernels use")
    options = parser.parse_args(argv)
    if not torch.cuda.is_available():
        print("error: this machine has no CUDA device; kernels use their heuristics where no tuned file exists", file=sys.stderr)
        return 2
    shapes = [tuple(map(int, s.split("x"))) for s in options.shapes]
    cases = [Product(op, m, n, k, as_engine=options.as_engine) for op in options.ops for n, k in shapes for m in options.m]
    compile_all(cases)
    best, lines = {}, []
    for case in cases:
        found, more = time_case(case, options.top, options.only_faster)
        lines += more
        if found is not None:
            best[case] = found
        if options.log:
            options.log.write_text("\n".join(lines) + "\n")
    if options.ship:
        ship(best)
    return 0


if __name__ == "__main__":
    sys.exit(main())
