"""Output tokens per second against the size of the KV pool, while requests wait at every size.

Why: a pool that holds more requests runs a larger batch, and a batch shares each read of the weights. So throughput rises with the pool
(the first regime) until something else takes the time, here arithmetic (the second): then it is flat although requests still wait for
blocks. The knee lies between. The pool is set in blocks; a share of the card (vLLM's gpu_memory_utilization) comes to the same thing.

Each request reserves the blocks of its whole answer, so as many run as the pool holds and none is preempted. One pool is run once more
with blocks that grow, the engine's default: more run at first, and some are preempted.

    python benchmarks/kv_pool_throughput.py                        # dummy:llama-3-8b on a GPU, a small model on a CPU
    python benchmarks/kv_pool_throughput.py --record               # and write measurements/<device>/kv-pool-throughput.json
    python benchmarks/kv_pool_throughput.py --device cpu --quick
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import torch

from infer_lab import LLM, SamplingParams
from infer_lab.bench import Record, engine_rows
from infer_lab.bench.limits import LimitSizes, matmul, read_stream
from infer_lab.bench.timer import percentile
from infer_lab.calculator import decode_flops, decode_weight_bytes, kv_bytes, kv_bytes_per_token, pages, prefill_flops
from infer_lab.config import ModelConfig
from infer_lab.core.record import StepRecord
from infer_lab.core.request import Request
from infer_lab.errors import UserError
from infer_lab.units import Quantity

SOURCES = ("benchmarks/kv_pool_throughput.py", *(path for path in engine_rows.SOURCES if "bench/engine_" not in path))


PATIENCE_S = 2.5
FLAT = 1.1  # twice the pool gives less than this: the knee


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests of `prompt` random tokens arrive together and get `output` tokens each.

    pools: sizes, in whole requests that fit, each twice the one before. waves: how many times the pool arrives. growing: the pool that is
    run with growing blocks too.
    """

    model: str
    waves: int
    prompt: int
    output: int
    pools: tuple[int, ...]
    growing: int
    block_size: int = 16

    @property
    def blocks_per_request(self) -> int:
        return int(pages(self.prompt + self.output, self.block_size))

    def options(self, pool: int, growing: bool = False) -> dict[str, Any]:
        """Of an engine whose pool is its only limit: twice as many sequences may run as whole requests fit."""
        admission = {"admission": "prompt"} if growing else {"admission": "request", "watermark": 0.0}
        return {"num_kv_blocks": pool * self.blocks_per_request + 1, "max_num_seqs": 2 * pool, **admission}

    @staticmethod
    def of(device: str, quick: bool) -> Workload:
        if quick:
            return Workload("dummy:smollm2-135m", 2, 16, 4, (1, 2, 4), 2)
        if device.startswith("cuda"):
            return Workload("dummy:llama-3-8b", 3, 128, 128, (4, 8, 16, 32, 64, 128, 256, 512), 64)
        return Workload("dummy:smollm2-135m", 2, 64, 16, (1, 2, 4, 8, 16), 8)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pool. seconds: of each run. running: mean requests in a decode step. waiting: share of the time in which others waited.
    decode_steps: seconds of steps without a prompt token."""

    pool: int
    tokens: int
    seconds: tuple[float, ...]
    running: float
    waiting: float
    preemptions: int
    usage: float
    decode_steps: tuple[float, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Output tokens per second of each run."""
        return tuple(self.tokens / seconds for seconds in self.seconds)

    @property
    def tok_s(self) -> float:
        return percentile(self.rates, 50)

    @property
    def step_ms(self) -> float:
        return 1e3 * percentile(self.decode_steps, 50)


@dataclass(frozen=True, slots=True)
class Wave:
    """Seconds that a pool of requests takes at the machine's limits, without overheads, from the first prompt token to the last answer.

    weights, cache: reads of all decode steps. products: their operations on the weights. prompts: the operations of the prompts."""

    weights: float
    cache: float
    products: float
    prompts: float

    @staticmethod
    def of(model: ModelConfig, work: Workload, pool: int, width: int, bandwidth: Quantity, peak: Quantity) -> Wave:
        held = pool * (work.prompt + work.output // 2)
        return Wave(
            weights=work.output * seconds(decode_weight_bytes(model, width) / bandwidth),
            cache=work.output * seconds(kv_bytes(model, held, width) / bandwidth),
            products=work.output * seconds(decode_flops(model, pool, 0) / peak),
            prompts=pool * seconds(prefill_flops(model, work.prompt) / peak),
        )

    @property
    def total(self) -> float:
        """One kernel after the other: a product takes its bytes or its operations, whichever is longer; attention reads the cache."""
        return max(self.weights, self.products) + self.cache + self.prompts

    @property
    def arithmetic(self) -> float:
        """Share of the time in which operations at peak would fill it."""
        return (self.products + self.prompts) / self.total


def seconds(time: Quantity) -> float:
    return float(time.to("s").value)


def knee(pools: Sequence[int], rates: Sequence[float]) -> int | None:
    """The smallest pool beyond which twice the pool never gives FLAT times as much; None if the last doubling still does."""
    steep = [i for i in range(len(rates) - 1) if rates[i + 1] >= FLAT * rates[i]]
    first = steep[-1] + 1 if steep else 0
    return pools[first] if first < len(rates) - 1 else None


def backlog(work: Workload, vocab: int, count: int) -> list[Request]:
    """The first `count` of the requests, the same ones for every pool."""
    draw = random.Random(0)
    params = SamplingParams(max_tokens=work.output, ignore_eos=True)
    return [
        Request(str(i), [draw.randrange(vocab) for _ in range(work.prompt)], work.output, ignore_eos=True, params=params)
        for i in range(count)
    ]


def run(llm: LLM, requests: list[Request]) -> tuple[float, list[StepRecord]]:
    """All requests arrive now; seconds until the last is finished, and what each step did."""
    scheduler = llm.engine.scheduler
    scheduler.reset_prefix_cache()
    steps = []
    start = time.perf_counter()
    for request in requests:
        scheduler.add(request)
    while scheduler.has_unfinished():
        llm.engine.step()
        if scheduler.step_records and (not steps or scheduler.step_records[-1] is not steps[-1]):
            steps.append(scheduler.step_records[-1])
    if llm.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start, steps


def run_pool(llm: LLM, work: Workload, pool: int) -> Outcome:
    """`waves` times as many requests as the pool holds; all that up to three times, as long as PATIENCE_S allows."""
    requests = work.waves * pool
    seconds: list[float] = []
    steps: list[tuple[StepRecord, float]] = []
    while len(seconds) < 3 and sum(seconds) < PATIENCE_S:
        taken, more = run(llm, backlog(work, llm.model_config.vocab_size, requests))
        seconds.append(taken)
        steps += zip(more, durations(more), strict=True)
    decodes = [(step, taken) for step, taken in steps if step.decode_tokens and not step.prefill_tokens]
    if not decodes:
        raise UserError("no step was a pure decode; give more output tokens")
    return Outcome(
        pool=pool,
        tokens=requests * work.output,
        seconds=tuple(seconds),
        running=sum(step.batch_size for step, _ in decodes) / len(decodes),
        waiting=sum(taken for step, taken in steps if step.num_waiting) / sum(taken for _, taken in steps),
        preemptions=round(sum(step.num_preempted for step, _ in steps) / len(seconds)),
        usage=max(step.kv_usage for step, _ in steps),
        decode_steps=tuple(taken for _, taken in decodes),
    )


def durations(steps: Sequence[StepRecord]) -> list[float]:
    """Seconds of each step. One that was launched while the one before it still ran begins when that one ends."""
    ends = [-math.inf, *(step.applied_at for step in steps)]
    return [step.applied_at - max(step.scheduled_at, before) for step, before in zip(steps, ends, strict=False)]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write the measurement record <device>/kv-pool-throughput")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    parser.add_argument("--model", help="another model, e.g. smollm2 or dummy:llama-3.2-1b")
    options = parser.parse_args(argv)
    try:
        return measure_pools(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def measure_pools(options: argparse.Namespace) -> int:
    device = options.device
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise UserError("no CUDA device was found here; --device cpu runs a small model on the CPU")
    if options.quick and options.record and device.startswith("cuda"):
        raise UserError("the figures of --quick mean nothing; leave out --quick to record a GPU's throughput")
    work = Workload.of(device, options.quick)
    if options.model:
        work = replace(work, model=options.model)
    say(f"loading {work.model}")
    engine_options = {"device": device, "max_model_len": work.prompt + work.output, "block_size": work.block_size, "seed": 0}
    first = LLM(work.model, **engine_options, **work.options(2))
    model, loaded, width = first.model_config, first.loaded, first.dtype.itemsize
    workload = {
        "model": work.model, "dtype": str(first.dtype).removeprefix("torch."), "waves": work.waves, "prompt_tokens": work.prompt,
        "output_tokens": work.output, "admission": "request", "pool_with_growing_blocks": work.growing, "block_size": work.block_size,
        "max_num_batched_tokens": first.config.max_num_batched_tokens, "quick": options.quick,
    }  # fmt: skip
    record = Record("kv-pool-throughput", f"Throughput against KV pool, {model.name}", device, sources=SOURCES, workload=workload)
    say("warming up, measuring the machine's limits")
    run(first, backlog(work, model.vocab_size, 4))
    first.close()
    sizes = LimitSizes.of(device, options.quick)
    bandwidth, peak = read_stream(device, sizes).median, matmul(device, sizes, loaded.dtype).median
    outcomes = []
    for pool, growing in (*((pool, False) for pool in work.pools), (work.growing, True)):
        say(f"pool of {pool} requests{', growing blocks' if growing else ''} … ", end="")
        with LLM(work.model, loaded=loaded, **engine_options, **work.options(pool, growing)) as llm:
            outcomes.append(run_pool(llm, work, pool))
        last = outcomes[-1]
        shown = f"{last.tok_s:,.1f} tok/s, {last.running:.1f} running, step {last.step_ms:.2f} ms"
        say(f"{shown}, {last.preemptions} preemptions, others waited {last.waiting:.0%} of the time, {len(last.seconds)} runs")
    grown = outcomes.pop()
    waves = [Wave.of(model, work, o.pool, width, bandwidth, peak) for o in outcomes]
    fill(record, work, outcomes, grown, waves, kv_bytes_per_token(model, width))
    record.add_value("read_bandwidth", bandwidth)
    record.add_value("matmul_peak", peak)
    path = str(record.write()) if options.record else None
    summary = {o.pool: round(o.tok_s, 1) for o in outcomes}
    print(json.dumps({"device": record.environment.slug, "tok_s_by_pool": summary, "record": path}))
    return 0


def fill(record: Record, work: Workload, outcomes: list[Outcome], grown: Outcome, waves: list[Wave], kv_bytes: Quantity) -> None:
    """Everything that the course cites."""
    tokens_per_request = work.blocks_per_request * work.block_size
    predicted = [o.pool * work.output / wave.total for o, wave in zip(outcomes, waves, strict=True)]
    rows = [(f"pool_{o.pool}", o) for o in outcomes] + [(f"growing_pool_{grown.pool}", grown)]
    for label, o in (("smallest_pool", outcomes[0]), ("largest_pool", outcomes[-1]), *rows):
        record.add_samples(f"tok_s_{label}", o.rates, "tok/s")
        record.add_value(f"running_{label}", o.running, "1", note="mean requests in a decode step")
        record.add_value(f"waiting_{label}", o.waiting, "1", note="share of the time in which other requests waited")
        record.add_value(f"preemptions_{label}", o.preemptions, "1")
        record.add_value(f"pool_tokens_{label}", o.pool * tokens_per_request, "tok")
        record.add_value(f"pool_bytes_{label}", kv_bytes * (o.pool * tokens_per_request), "GB")
        record.add_samples(f"step_ms_{label}", [1e3 * s for s in o.decode_steps], "ms", note="steps that computed no prompt token")
    for o, wave, rate in zip(outcomes, waves, predicted, strict=True):
        record.add_value(f"reached_pool_{o.pool}", o.tok_s / rate, "1", note="of the rate that bytes, operations and limits predict")
        record.add_value(f"arithmetic_pool_{o.pool}", wave.arithmetic, "1", note="predicted: operations at peak, over the predicted time")
    for o, larger in pairwise(outcomes):
        record.add_value(f"doubling_pool_{o.pool}", larger.tok_s / o.tok_s, "x", note="what twice this pool gives")
    found = knee([o.pool for o in outcomes], [o.tok_s for o in outcomes])
    if found is not None:
        record.add_value(
            "knee_requests", found, "1", note="smallest pool, in requests, beyond which twice the pool gives less than 10 % more"
        )
    expected = knee([o.pool for o in outcomes], predicted)
    if expected is not None:
        record.add_value("knee_requests_predicted", expected, "1", note="the same of the predicted rates")
    record.add_value("gain", outcomes[-1].tok_s / outcomes[0].tok_s, "x", note="largest pool over smallest")
    x = ("KV pool", "tok", [o.pool * tokens_per_request for o in outcomes])
    record.add_series("measured", "output tokens per second", x, ("throughput", "tok/s", [o.tok_s for o in outcomes]))
    record.add_series("predicted", "from bytes, operations and limits", x, ("throughput", "tok/s", predicted), kind="predicted")
    record.add_series("running", "mean running requests", x, ("requests", "1", [o.running for o in outcomes]))
    record.add_series("arithmetic", "share of arithmetic", x, ("share", "1", [wave.arithmetic for wave in waves]), kind="predicted")


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
