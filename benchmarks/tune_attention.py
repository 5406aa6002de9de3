"""Find the fastest configuration of the attention, norm and sampling kernels on the GPU of this machine, and ship it.

Why a program of its own: tuning takes minutes and belongs neither at import nor in a request. Candidates are compiled on all cores first,
then timed one by one with a cold L2. --ship merges the best into src/infer_lab/kernels/configs/<device>.json, where kernels look them up.

    python benchmarks/tune_attention.py --families hopper decode --ship
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from attention_cases import Decode, Prefill, dense_prefill, paged_decode_case, paged_prefill
from elementwise_cases import norm_case, sampling_case

from infer_lab.bench import graphed, measure
from infer_lab.kernels import _common
from infer_lab.kernels.hopper_prefill import HopperConfig
from infer_lab.kernels.paged_decode import DecodeConfig
from infer_lab.kernels.precompile import compile_in_parallel
from infer_lab.kernels.rmsnorm import NormConfig
from infer_lab.kernels.sampling import SamplingConfig


@dataclass(frozen=True)
class Job:
    """One candidate at one workload. entry: (kernel, key) under which the winner is shipped; workloads of one entry are added up."""

    entry: tuple[str, str]
    workload: str
    build: Callable[[str], Callable[[], Any]]
    config: Any
    graph: bool = False
    compiles: Any = None  # jobs with equal values here run the same compiled kernel


def hopper_jobs() -> list[Job]:
    jobs = []
    shapes = {64: Prefill(1, 8192, 32, 8, 64), 128: Prefill(1, 8192, 32, 8, 128), 256: Prefill(1, 8192, 16, 4, 256)}
    tiles = {
        64: (HopperConfig(128, 2), HopperConfig(128, 3), HopperConfig(64, 4)),
        128: (HopperConfig(128, 2), HopperConfig(128, 2, 240, 24), HopperConfig(64, 4)),
        256: (HopperConfig(64, 2), HopperConfig(32, 4)),
    }
    for d, choices in tiles.items():
        for config in choices:
            build = functools.partial(dense_prefill, shapes[d], config=config)
            jobs.append(Job(("hopper_prefill", f"d{d}"), "s8192", build, config))
    return jobs


def hopper_paged_jobs() -> list[Job]:
    """For information: how the chosen tiles do on pages."""
    jobs = []
    for page, (n, stages) in itertools.product((16, 64, 128), ((128, 2),)):
        config = HopperConfig(n, stages)
        build = functools.partial(paged_prefill, Prefill(1, 8192, 32, 8, 128), page=page, config=config)
        jobs.append(Job(("hopper_paged", f"page{page}"), "s8192", build, config))
    return jobs


NARROW = {
    "many": (Decode(64, 4096, 32, 8, 128), Decode(256, 768, 32, 8, 128)), "some": (Decode(16, 4096, 32, 8, 128),),
    "few": (Decode(1, 32768, 32, 8, 128), Decode(1, 4096, 32, 8, 128)),
}  # fmt: skip
"""Four query heads on a KV head, in 16 rows."""
WIDE = {
    "many": (Decode(512, 2048, 32, 1, 128),), "some": (Decode(64, 4096, 32, 1, 128),),
    "few": (Decode(8, 32768, 32, 1, 128), Decode(1, 32768, 32, 1, 128), Decode(8, 4096, 32, 1, 128)),
}  # fmt: skip
"""32 rows: a single KV head, or a few draft tokens to verify. Parts are larger, so merging many of them costs more."""


def decode_jobs(target: _common.Target, rows: int) -> list[Job]:
    jobs = []
    tiles = [(64, 4, stages) for stages in (3, 5, 7)] + [(128, warps, stages) for warps, stages in itertools.product((4, 8), (3, 5))]
    kinds = ((16, None), (8, _common.FP8)) if rows == 16 else ((16, None),)
    least_keys = {"few": (128, 256) if rows == 16 else (256, 512, 1024)}
    for (bits, kind), (size, members) in itertools.product(kinds, (NARROW if rows == 16 else WIDE).items()):
        for (n, warps, stages), programs, least in itertools.product(tiles, (1, 2, 3, 4), least_keys.get(size, (256,))):
            if 2 * ((stages - 1) // 2 + 1) * n * 128 * bits // 8 > target.shared_memory or least < n or (size == "many" and programs == 3):
                continue
            config = DecodeConfig(n, warps, stages, programs, least)
            for shape in members:
                build = functools.partial(paged_decode_case, shape, cache_dtype=kind, config=config, target=target)
                entry, name = ("paged_decode", f"d128-{bits}bit-rows{rows}-{size}"), f"b{shape.batch}s{shape.seq}"
                jobs.append(Job(entry, name, build, config, graph=True, compiles=(rows, bits, n, warps, stages, size)))
    return jobs


def norm_jobs() -> list[Job]:
    jobs = []
    sizes = ((64, "few"), (2048, "many"), (16384, "huge"))
    for (rows, size), (per, warps) in itertools.product(sizes, ((1, 2), (1, 4), (1, 8), (1, 16), (2, 8), (4, 16))):
        config = NormConfig(per, warps)
        build = functools.partial(norm_case, dtype=torch.bfloat16, rows=rows, hidden=4096, config=config)
        jobs.append(Job(("rmsnorm", f"h4096-{size}"), f"{rows}x4096", build, config, graph=True))
    return jobs


def sampling_jobs() -> list[Job]:
    jobs = []
    for rows, (block, warps) in itertools.product((64, 1), ((2048, 4), (4096, 4), (4096, 8), (8192, 8))):
        config = SamplingConfig(block, warps)
        build = functools.partial(sampling_case, rows=rows, vocab=131072, top_k=0, top_p=0.9, config=config)
        jobs.append(Job(("sampling", "any"), f"b{rows}", build, config, True, (block, warps)))
    return jobs


def compile_job(build: Callable[[str], Callable[[], Any]]) -> None:
    build("meta")()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--families", nargs="+", default=["hopper", "paged", "decode", "decode-wide", "norm", "sampling"])
    parser.add_argument("--log", type=Path, help="every timing, one JSON document a line")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--ship", action="store_true", help="merge the best into the configurations that the kernels use")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("tune_attention: this machine has no CUDA device; kernels use their heuristics where no tuned file exists", file=sys.stderr)
        return 2
    target, start = _common.target_of(torch.device("cuda")), time.monotonic()
    families: dict[str, Callable[[], list[Job]]] = {
        "hopper": hopper_jobs, "paged": hopper_paged_jobs, "norm": norm_jobs, "sampling": sampling_jobs,
        "decode": functools.partial(decode_jobs, target, 16), "decode-wide": functools.partial(decode_jobs, target, 32),
    }  # fmt: skip
    jobs = [job for name in options.families for job in families[name]()]
    keys = [(j.entry, j.compiles or (j.workload, j.config)) for j in jobs]
    first = {key: job for key, job in reversed(list(zip(keys, jobs, strict=True)))}
    answers = compile_in_parallel([functools.partial(compile_job, j.build) for j in first.values()], target.capability[0] * 10, target)
    error_of = dict(zip(first, answers, strict=True))
    errors = [error_of[key] for key in keys]
    print(f"compiled {len(first)} launches in {time.monotonic() - start:.0f} s, {sum(e is not None for e in answers)} failed", flush=True)
    lines, times = [], {}
    for job, error in zip(jobs, errors, strict=True):
        if error is not None:
            print("  failed:", job.entry, job.config, error)
            continue
        try:
            fn = job.build("cuda")
            fn()
            timing = measure(graphed(fn) if job.graph else fn, "cuda", warmup=2, repeats=options.repeats, flush_l2=True)
        except Exception as e:
            print("  failed:", job.entry, job.config, str(e)[:150], flush=True)
            continue
        times.setdefault(job.entry, {}).setdefault(job.config, {})[job.workload] = timing.median * 1e6
        lines.append(json.dumps({"entry": job.entry, "workload": job.workload, "config": str(job.config), "us": timing.median * 1e6}))
        if options.log:
            options.log.write_text("\n".join(lines) + "\n")
    best: dict[tuple[str, str], Any] = {}
    for entry, by_config in times.items():
        workloads = sorted({w for t in by_config.values() for w in t})
        least = {w: min(t[w] for t in by_config.values() if w in t) for w in workloads}
        # the configuration with the smallest mean loss against each workload's own best
        loss = {c: sum(t.get(w, float("inf")) / least[w] for w in workloads) / len(workloads) for c, t in by_config.items()}
        for c in sorted(loss, key=lambda c: loss[c])[:4]:
            print(entry, f"{loss[c]:.3f}", c, {w: round(t, 1) for w, t in by_config[c].items()}, flush=True)
        print(
            entry,
            "each workload's best",
            {w: (round(least[w], 1), str(min((t[w], str(c)) for c, t in by_config.items() if w in t)[1])) for w in workloads},
        )
        best[entry] = min(loss, key=lambda c: loss[c])
    print(f"done after {time.monotonic() - start:.0f} s")
    if options.ship:
        path = _common.CONFIG_DIR / f"{target.slug}.json"
        document = json.loads(path.read_text()) if path.exists() else {"kernels": {}}
        for (kernel, key), config in best.items():
            document["kernels"].setdefault(kernel, {})[key] = {f: getattr(config, f) for f in config.__dataclass_fields__}
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
