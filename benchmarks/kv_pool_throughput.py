"""Output tokens per second against the size of the KV pool, with the same backlog of requests each time.

Why: a pool that holds more requests runs a larger batch, and a batch shares each read of the weights. So throughput rises with the pool
until the pool is no longer what the scheduler waits for. The program measures where, and what a small pool costs in preemptions.

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

import torch

from infer_lab import LLM, SamplingParams
from infer_lab.bench import Record, engine_rows
from infer_lab.bench.limits import LimitSizes, matmul, read_stream
from infer_lab.bench.timer import percentile
from infer_lab.calculator import decode_step_bytes, kv_bytes_per_token, pages, prefill_flops
from infer_lab.config import ModelConfig
from infer_lab.core.record import StepRecord
from infer_lab.core.request import Request
from infer_lab.errors import UserError
from infer_lab.units import Quantity

SOURCES = ("benchmarks/kv_pool_throughput.py", *(path for path in engine_rows.SOURCES if "bench/engine_" not in path))


PATIENCE_S = 4.0


@dataclass(frozen=True, slots=True)
class Workload:
    """`requests` arrive together, each with `prompt` random tokens, and get `output` tokens. pools: sizes, in whole requests that fit."""

    model: str
    requests: int
    prompt: int
    output: int
    pools: tuple[int, ...]
    block_size: int = 16

    @property
    def blocks_per_request(self) -> int:
        return int(pages(self.prompt + self.output, self.block_size))

    @staticmethod
    def of(device: str, quick: bool) -> Workload:
        if quick:
            return Workload("dummy:smollm2-135m", 4, 16, 4, (1, 2, 4))
        if device.startswith("cuda"):
            return Workload("dummy:llama-3-8b", 128, 512, 64, (4, 8, 16, 32, 64, 128, 256))
        return Workload("dummy:smollm2-135m", 8, 64, 16, (1, 2, 4, 8, 16))


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pool. seconds: of each run. running: mean requests in a decode step. decode_steps: seconds of steps without a prompt token."""

    pool: int
    tokens: int
    seconds: tuple[float, ...]
    running: float
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


def backlog(work: Workload, vocab: int) -> list[Request]:
    """The same requests for every pool."""
    draw = random.Random(0)
    params = SamplingParams(max_tokens=work.output, ignore_eos=True)
    return [
        Request(str(i), [draw.randrange(vocab) for _ in range(work.prompt)], work.output, ignore_eos=True, params=params)
        for i in range(work.requests)
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
    """The backlog, up to three times, as long as PATIENCE_S allows."""
    seconds: list[float] = []
    steps: list[tuple[StepRecord, float]] = []
    while len(seconds) < 3 and sum(seconds) < PATIENCE_S:
        taken, more = run(llm, backlog(work, llm.model_config.vocab_size))
        seconds.append(taken)
        steps += zip(more, durations(more), strict=True)
    decodes = [(step, taken) for step, taken in steps if step.decode_tokens and not step.prefill_tokens]
    if not decodes:
        raise UserError("no step was a pure decode; give more output tokens")
    return Outcome(
        pool=pool,
        tokens=work.requests * work.output,
        seconds=tuple(seconds),
        running=sum(step.batch_size for step, _ in decodes) / len(decodes),
        preemptions=round(sum(step.num_preempted for step, _ in steps) / len(seconds)),
        usage=max(step.kv_usage for step, _ in steps),
        decode_steps=tuple(taken for _, taken in decodes),
    )


def durations(steps: Sequence[StepRecord]) -> list[float]:
    """Seconds of each step. One that was launched while the one before it still ran begins when that one ends."""
    ends = [-math.inf, *(step.applied_at for step in steps)]
    return [step.applied_at - max(step.scheduled_at, before) for step, before in zip(steps, ends, strict=False)]


def predicted_tok_s(model: ModelConfig, work: Workload, pool: int, width: int, bandwidth: Quantity, peak: Quantity) -> float:
    """A wave of as many requests as fit: their prompts at peak, then one token each per step at the read bandwidth. No overheads."""
    batch = min(pool, work.requests)
    context = work.prompt + work.output // 2
    step = decode_step_bytes(model, batch, context, width, width) / bandwidth
    prompt = prefill_flops(model, work.prompt) / peak
    return float((batch * work.output / (work.output * step + batch * prompt)).to("tok/s").value)


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
    first = LLM(work.model, num_kv_blocks=2 * work.blocks_per_request + 1, **engine_options)
    model, loaded, width = first.model_config, first.loaded, first.dtype.itemsize
    workload = {
        "model": work.model, "dtype": str(first.dtype).removeprefix("torch."), "requests": work.requests, "prompt_tokens": work.prompt,
        "output_tokens": work.output, "block_size": work.block_size, "max_num_batched_tokens": first.config.max_num_batched_tokens,
        "max_num_seqs": first.config.max_num_seqs, "quick": options.quick,
    }  # fmt: skip
    record = Record("kv-pool-throughput", f"Throughput against KV pool, {model.name}", device, sources=SOURCES, workload=workload)
    say("warming up, measuring the machine's limits")
    run(first, backlog(replace(work, requests=2), model.vocab_size))
    first.close()
    sizes = LimitSizes.of(device, options.quick)
    bandwidth, peak = read_stream(device, sizes).median, matmul(device, sizes, loaded.dtype).median
    outcomes = []
    for pool in work.pools:
        say(f"pool of {pool} requests … ", end="")
        with LLM(work.model, loaded=loaded, num_kv_blocks=pool * work.blocks_per_request + 1, **engine_options) as llm:
            outcomes.append(run_pool(llm, work, pool))
        last = outcomes[-1]
        shown = f"{last.tok_s:,.1f} tok/s, {last.running:.1f} running, step {last.step_ms:.2f} ms"
        say(f"{shown}, {last.preemptions} preemptions, {len(last.seconds)} runs")
    fill(record, work, model, width, outcomes, bandwidth, peak)
    path = str(record.write()) if options.record else None
    summary = {o.pool: round(o.tok_s, 1) for o in outcomes}
    print(json.dumps({"device": record.environment.slug, "tok_s_by_pool": summary, "record": path}))
    return 0


def fill(
    record: Record, work: Workload, model: ModelConfig, width: int, outcomes: list[Outcome], bandwidth: Quantity, peak: Quantity
) -> None:
    """Everything that the course cites."""
    tokens_per_request = work.blocks_per_request * work.block_size
    for label, o in (("smallest_pool", outcomes[0]), ("largest_pool", outcomes[-1]), *((f"pool_{o.pool}", o) for o in outcomes)):
        record.add_samples(f"tok_s_{label}", o.rates, "tok/s")
        record.add_value(f"running_{label}", o.running, "1", note="mean requests in a decode step")
        record.add_value(f"preemptions_{label}", o.preemptions, "1")
        record.add_value(f"pool_tokens_{label}", o.pool * tokens_per_request, "tok")
        record.add_value(f"pool_bytes_{label}", kv_bytes_per_token(model, width) * (o.pool * tokens_per_request), "GB")
        record.add_samples(f"step_ms_{label}", [1e3 * s for s in o.decode_steps], "ms", note="steps that computed no prompt token")
    best = max(o.tok_s for o in outcomes)
    knee = next(o for o in outcomes if o.tok_s >= 0.9 * best)
    record.add_value("knee_requests", knee.pool, "1", note="smallest pool, in requests, within 10 % of the best throughput")
    record.add_value("gain", outcomes[-1].tok_s / outcomes[0].tok_s, "x", note="largest pool over smallest")
    record.add_value("read_bandwidth", bandwidth)
    record.add_value("matmul_peak", peak)
    x = ("KV pool", "tok", [o.pool * tokens_per_request for o in outcomes])
    predicted = [predicted_tok_s(model, work, o.pool, width, bandwidth, peak) for o in outcomes]
    record.add_series("measured", "output tokens per second", x, ("throughput", "tok/s", [o.tok_s for o in outcomes]))
    record.add_series("predicted", "from bytes, bandwidth and peak", x, ("throughput", "tok/s", predicted), kind="predicted")
    record.add_series("running", "mean running requests", x, ("requests", "1", [o.running for o in outcomes]))


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
