"""What the torch-free core costs: a step with 256 running requests, hashing a long prompt, a full queue, memory, the simulator.

Times are CPU seconds of the one thread that runs it, so that a busy machine changes them little.

python benchmarks/core_overhead.py              # measure and show
python benchmarks/core_overhead.py --check      # exit code 1 if a limit is passed (on a quiet machine)
python benchmarks/core_overhead.py --record     # and write the record (INFER_LAB_MEASUREMENTS=measurements publishes it)
python benchmarks/core_overhead.py --quick      # tiny sizes, to see that it runs; the figures mean nothing
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass

from infer_lab.bench.record import Record
from infer_lab.bench.timer import percentile
from infer_lab.core.block_hash import BlockKey, extend_block_keys
from infer_lab.core.config import SchedulerConfig
from infer_lab.core.plan import StepOutput
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.sim.cost_model import LinearCost
from infer_lab.sim.results import SimulationResult
from infer_lab.sim.simulation import Simulation
from infer_lab.sim.traffic import lognormal, poisson, until

CORE = ("block_hash", "block_pool", "kv_manager", "lifecycle", "planner", "policy", "scheduler")
SOURCES = (*(f"src/infer_lab/core/{name}.py" for name in CORE), *(f"src/infer_lab/sim/{name}.py" for name in ("instance", "simulation")))
STEP_LIMIT_MS, HASH_LIMIT_MS, QUEUE_LIMIT, GROWTH_LIMIT_KB = 1.0, 30.0, 1.15, 64


@dataclass(frozen=True, slots=True)
class Sizes:
    running: int = 256
    blocks: int = 100_000
    steps: int = 2000
    queued: int = 10_000
    prompt: int = 50_000
    short_requests: int = 100_000
    simulated_s: float = 3600.0


QUICK = Sizes(running=8, blocks=1000, steps=30, queued=100, prompt=1000, short_requests=200, simulated_s=5.0)
RATES = (2, 8)
"""Requests a second of the simulated hours."""


def step(scheduler: Scheduler) -> float:
    """One step of a worker that answers at once; CPU seconds that the scheduler took."""
    start = time.thread_time()
    plan = scheduler.schedule()
    planned = time.thread_time()
    output = StepOutput(plan.step_id, {s.request_id: (7,) for s in plan.scheduled if s.samples})
    received = time.thread_time()
    scheduler.apply(plan, output)
    return time.thread_time() - received + planned - start


def decoding(sizes: Sizes, queued: int) -> Scheduler:
    """A scheduler in which every running request decodes, with so many more waiting."""
    r = random.Random(0)
    config = SchedulerConfig(num_blocks=sizes.blocks + 1, max_num_batched_tokens=8192, max_num_seqs=sizes.running, max_model_len=16_384)
    scheduler = Scheduler(config)
    for i in range(sizes.running):
        scheduler.add(Request(f"running{i}", [r.randrange(32_000) for _ in range(r.randrange(100, 2000))], sizes.steps + 1000))
    for i in range(queued):
        scheduler.add(Request(f"queued{i}", [r.randrange(32_000) for _ in range(100)], 100, tenant=f"tenant{i % 100}"))
    while scheduler.num_running < sizes.running or any(request.num_output_tokens < 2 for request in scheduler.running):
        step(scheduler)
    return scheduler


def decode_steps(sizes: Sizes, in_a_row: int = 100) -> tuple[list[float], list[float]]:
    """CPU seconds of decode steps without and with a queue, by turns, so that a change of the machine's speed meets both."""
    without, with_queue = decoding(sizes, 0), decoding(sizes, sizes.queued)
    gc.collect()
    alone: list[float] = []
    crowded: list[float] = []
    while len(alone) < sizes.steps:
        alone += [step(without) for _ in range(in_a_row)]
        crowded += [step(with_queue) for _ in range(in_a_row)]
    return alone, crowded


def hash_prompt(sizes: Sizes, repeats: int = 20) -> list[float]:
    """CPU seconds to make the block keys of a whole prompt."""
    r = random.Random(0)
    tokens = [r.randrange(128_000) for _ in range(sizes.prompt)]
    samples = []
    for _ in range(repeats):
        keys: list[BlockKey] = []
        start = time.thread_time()
        extend_block_keys(keys, tokens, (("adapter", "a"),), 16)
        samples.append(time.thread_time() - start)
    return samples


def short_requests(count: int) -> Iterator[None]:
    """Serve short requests of ever new names, tenants and prompts; yields after each tenth of them."""
    r = random.Random(0)
    scheduler = Scheduler(SchedulerConfig(num_blocks=257, max_num_batched_tokens=1024, max_num_seqs=64, step_records=16))
    for number in range(count):
        prompt = [r.randrange(32_000) for _ in range(r.randrange(8, 40))]
        scheduler.add(Request(f"short{number}", prompt, r.randrange(1, 4), tenant=f"tenant{number}"))
        if number % 97 == 0:
            scheduler.abort(f"short{number}")
        if number % 16 == 15:
            step(scheduler)
        if (number + 1) % max(1, count // 10) == 0:
            while scheduler.has_unfinished():
                step(scheduler)
            yield


def memory_growth(sizes: Sizes) -> int:
    """Bytes that the last eight tenths of the requests left behind."""
    tracemalloc.start()
    held = []
    for _ in short_requests(sizes.short_requests):
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    return held[-1] - held[1]


def simulated_hour(sizes: Sizes, rate: float) -> tuple[float, SimulationResult]:
    """CPU seconds to simulate one engine under Poisson chat traffic, with steps of about 25 ms (20 ms, and what tokens and KV add)."""
    config = SchedulerConfig(num_blocks=20_000, max_num_batched_tokens=4096, max_num_seqs=256, step_records=16)
    arrivals = until(poisson(rate, lognormal(500, 200)), sizes.simulated_s)
    start = time.thread_time()
    result = Simulation(config, LinearCost(0.020, 5e-5, 1e-7)).run(arrivals)
    return time.thread_time() - start, result


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write the measurement record <cpu>/core-overhead")
    parser.add_argument("--check", action="store_true", help="exit code 1 if a limit is passed")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs")
    options = parser.parse_args(argv)
    sizes = QUICK if options.quick else Sizes()

    def say(text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    say(f"steps with {sizes.running} running requests and {sizes.blocks} blocks, with and without {sizes.queued} queued …")
    alone, crowded = ([1e3 * seconds for seconds in samples] for samples in decode_steps(sizes))
    say(f"hashing {sizes.prompt} tokens …")
    hashing = [1e3 * s for s in hash_prompt(sizes)]
    say(f"{sizes.short_requests} short requests …")
    growth = memory_growth(sizes)
    say(f"simulating {sizes.simulated_s:g} s of traffic …")
    hours = {rate: simulated_hour(sizes, rate) for rate in RATES}

    ratio = percentile(crowded, 50) / percentile(alone, 50)
    results = {
        "step_ms": percentile(alone, 50),
        "step_p99_ms": percentile(alone, 99),
        "step_with_queue_ms": percentile(crowded, 50),
        "queue_ratio": ratio,
        "hash_ms": percentile(hashing, 50),
        "memory_growth_kb": growth / 1000,
        **{f"simulated_hour_{rate}_s": spent for rate, (spent, _) in hours.items()},
    }
    passed = {
        f"a step takes less than {STEP_LIMIT_MS} ms": results["step_ms"] < STEP_LIMIT_MS,
        f"a queue of {sizes.queued} does not slow it": ratio < QUEUE_LIMIT,
        f"hashing {sizes.prompt} tokens takes less than {HASH_LIMIT_MS} ms": results["hash_ms"] < HASH_LIMIT_MS,
        f"{sizes.short_requests} short requests leave nothing behind": growth < GROWTH_LIMIT_KB * 1000,
    }
    for claim, holds in passed.items():
        say(f"{'holds' if holds else 'FAILS'}: {claim}")
    if options.record:
        record = Record("core-overhead", "What the engine core costs", "cpu", workload=_workload(sizes), sources=SOURCES)
        record.add_samples("step", alone, "ms", note=f"schedule and apply, {sizes.running} requests decoding, {sizes.blocks} blocks")
        record.add_value("step_p99", results["step_p99_ms"], "ms", note="the slowest hundredth of the same steps begins here")
        record.add_samples("step_with_queue", crowded, "ms", note=f"the same with {sizes.queued} requests waiting")
        record.add_value("queue_ratio", ratio, "x", note="median with the queue over median without")
        record.add_samples("hash_prompt", hashing, "ms", note=f"block keys of {sizes.prompt} tokens")
        record.add_value("memory_growth", growth, "B", note=f"left behind by the last 80 % of {sizes.short_requests} short requests")
        for rate, (spent, result) in hours.items():
            about = f"{rate} requests/s, {sizes.simulated_s:g} s of traffic on one engine"
            record.add_value(f"simulated_hour_{rate}", spent, "s", note=f"CPU time of the simulation: {about}")
            record.add_value(f"simulated_steps_{rate}", result.num_steps, "1", note=f"steps: {about}")
            record.add_value(f"simulated_requests_{rate}", len(result.requests), "1", note=f"finished: {about}")
            record.add_value(
                f"simulated_step_{rate}", 1e3 * sum(result.busy_s) / result.num_steps, "ms", note=f"mean simulated step: {about}"
            )
        say(f"written: {record.write()}")
    print(json.dumps({name: round(value, 4) for name, value in results.items()}))
    return 1 if options.check and not all(passed.values()) else 0


def _workload(sizes: Sizes) -> dict[str, float]:
    return {name: getattr(sizes, name) for name in sizes.__slots__}


if __name__ == "__main__":
    raise SystemExit(main())
