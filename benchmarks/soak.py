"""Thousands of short requests with aborts and preemption: the engine must end as empty as it began.

Why: a block that is not given back, or a row that is kept, costs nothing in a test and everything in a week. The model is tiny and its
weights are random, so that the time goes into the engine. At the end every block is free, no request is left, and memory has not grown
since the first fifth (host: by more than GROWTH_MB; device: at all).

    python benchmarks/soak.py                        # 20,000 requests
    python benchmarks/soak.py --requests 500 --device cpu
    python benchmarks/soak.py --quick

The last line of output is one JSON document; exit code 1 if something leaked.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from infer_lab import LLM, SamplingParams
from infer_lab.config import ModelConfig
from infer_lab.engine.build import LoadedModel, resolve_device, resolve_dtype
from infer_lab.errors import UserError
from infer_lab.models.checkpoint import Checkpoint
from infer_lab.models.llama import LlamaModel

SHAPE = ModelConfig("soak", "llama", 2, 256, 512, 4, 2, 64, 2048, 512, rope_theta=10_000.0, tie_word_embeddings=True)
GROWTH_MB = 48
REPORTS = 10


def tiny(device: str) -> LoadedModel:
    """Random weights of a shape that all kernels take."""
    where = resolve_device(device)
    dtype = resolve_dtype("auto", where)
    model = LlamaModel(SHAPE, dtype=dtype, device=where)
    model.randomize(0)
    return LoadedModel("soak", Checkpoint(SHAPE, tensors=None), model.eval(), where, dtype)


def params_of(draw: random.Random) -> SamplingParams:
    """Mostly plain; each option that gives a row a state of its own comes now and then."""
    rare: dict[str, Any] = {}
    if draw.random() < 0.1:
        rare |= {"repetition_penalty": 1.1, "frequency_penalty": 0.2}
    if draw.random() < 0.05:
        rare |= {"logprobs": 2}
    if draw.random() < 0.1:
        rare |= {"stop_token_ids": tuple(draw.randrange(SHAPE.vocab_size) for _ in range(8))}
    temperature = draw.choice((0.0, 0.6, 1.0))
    if temperature and draw.random() < 0.3:
        rare |= {"top_k": 20, "top_p": 0.9}
    return SamplingParams(temperature=temperature, max_tokens=draw.randint(1, 24), ignore_eos=True, **rare)


def prompt_of(draw: random.Random, shared: list[list[int]]) -> list[int]:
    """Half begin like others, so that blocks are shared."""
    own = [draw.randrange(SHAPE.vocab_size) for _ in range(draw.randint(1, 60))]
    return draw.choice(shared) + own if draw.random() < 0.5 else own


def serve(llm: LLM, requests: int, in_flight: int) -> Iterator[dict[str, float]]:
    """Keeps `in_flight` streams open; drops some half way. Counts, after each tenth of the requests."""
    draw = random.Random(0)
    shared = [[draw.randrange(SHAPE.vocab_size) for _ in range(64)] for _ in range(16)]
    streams: list[Any] = []
    begun = ended = aborted = tokens = preempted = 0
    while ended < requests:
        while begun < requests and len(streams) < in_flight:
            streams.append(llm.stream(prompt_of(draw, shared), params_of(draw)))
            begun += 1
        alive = []
        for stream in streams:
            if draw.random() < 0.01:
                stream.close()
                aborted += 1
                ended += 1
            else:
                update = next(stream)
                tokens += len(update.token_ids)
                if update.output is not None:
                    preempted += update.output.metrics.num_preemptions
                    ended += 1
                else:
                    alive.append(stream)
                    continue
            if ended % (requests // REPORTS or 1) == 0:
                yield {"ended": ended, "aborted": aborted, "tokens": tokens, "preemptions": preempted, **memory(llm)}
        streams = alive


def memory(llm: LLM) -> dict[str, float]:
    """MB that the process holds, and MB that torch has allocated on the device."""
    gc.collect()
    host = 0.0
    with suppress(OSError):
        host = int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
    device = torch.cuda.memory_allocated(llm.device) / 1e6 if llm.device.type == "cuda" else 0.0
    return {"host_mb": round(host, 1), "device_mb": round(device, 3)}


def leaks(llm: LLM, early: dict[str, float], late: dict[str, float]) -> list[str]:
    """What is not as it was."""
    scheduler = llm.engine.scheduler
    scheduler.reset_prefix_cache()
    pool = scheduler.kv.pool
    found = [] if pool.num_free == pool.num_usable else [f"{pool.num_usable - pool.num_free} of {pool.num_usable} blocks are not free"]
    if scheduler.has_unfinished():
        found.append("requests are left in the scheduler")
    if late["host_mb"] - early["host_mb"] > GROWTH_MB:
        found.append(f"the process grew from {early['host_mb']} to {late['host_mb']} MB")
    if late["device_mb"] > early["device_mb"] + 1:
        found.append(f"memory on the device grew from {early['device_mb']} to {late['device_mb']} MB")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--quick", action="store_true", help="100 requests, to see that it runs")
    options = parser.parse_args(argv)
    requests = 100 if options.quick else options.requests
    start = time.perf_counter()
    try:
        loaded = tiny(options.device)
        # a pool of less than the requests want together, so that some must give way
        in_flight = 128 if loaded.device.type == "cuda" else 16
        llm = LLM("soak", loaded=loaded, device=options.device, max_num_seqs=in_flight, num_kv_blocks=in_flight * 3, block_size=16,
                  max_num_batched_tokens=1024, admission="chunk", watermark=0.0, seed=0)  # fmt: skip
    except UserError as error:
        print(f"soak.py: {error}", file=sys.stderr)
        return 2
    reports: list[dict[str, float]] = []
    for report in serve(llm, requests, in_flight):
        reports.append(report)
        print(f"{time.perf_counter() - start:6.1f} s  {report}", file=sys.stderr, flush=True)
    last = reports[-1]
    found = leaks(llm, reports[min(1, len(reports) - 1)], last)
    if not last["preemptions"] or not last["aborted"]:
        found.append("no request was preempted, or none aborted: this run shows nothing")
    for leak in found:
        print(f"LEAK: {leak}", file=sys.stderr)
    print(json.dumps({"seconds": round(time.perf_counter() - start, 1), "leaks": found, **last}))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
