"""Measures a running engine through its public interface: throughput of a job, time of a decode step, time to the first token.

Times of tokens are those that every output carries, so a batch is timed without a hand in the engine; a figure is a median of many.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import torch

from infer_lab.bench.engine_rows import Figure, Row, Timed
from infer_lab.bench.engine_work import Case, Floor, Job, uniform
from infer_lab.bench.limits import LimitSizes, matmul, read_stream
from infer_lab.bench.timeline import decode_timeline
from infer_lab.errors import UserError
from infer_lab.llm import LLM
from infer_lab.outputs import RequestOutput
from infer_lab.sampling_params import SamplingParams

_MOST_WARM_UPS = 3
Say = Callable[[str], None]


def limits(device: str, dtype: Any, quick: bool) -> Row:
    """What the machine reads and multiplies in a second, now: the two figures that floors are made of."""
    sizes = LimitSizes.of(device, quick)
    read, product = read_stream(device, sizes), matmul(device, sizes, dtype)
    if device.startswith("cuda"):
        torch.cuda.empty_cache()  # an engine sizes its cache by what is free
    return Row("limit", {"case": "this machine"}, {
        "read-stream": Figure(read.samples, read.unit), "matmul": Figure(product.samples, product.unit),
    })  # fmt: skip


def floor_of(llm: LLM, limit: Row) -> Floor:
    """kv: bytes of a cached token as this engine stores it, scales included."""
    kv = llm.kv_cache.nbytes / (llm.engine.scheduler.config.num_blocks * llm.engine.scheduler.config.block_size)
    read, product = limit.figures["read-stream"], limit.figures["matmul"]
    assert (read.unit, product.unit) == ("GB/s", "TFLOP/s")
    scheme, itemsize = llm.config.scheme, llm.dtype.itemsize
    packed = scheme and scheme.weight_bytes(llm.model_config, itemsize, llm.loaded.checkpoint.stored_bits)
    doubled = scheme is not None and scheme.name in ("fp8", "int8")
    return Floor.of(llm.model_config, itemsize, kv, read.median * 1e9, product.median * 1e12, packed, doubled)


def settings_of(llm: LLM) -> dict[str, Any]:
    """What a reader must know of the engine to compare a figure with another."""
    scheduler = llm.engine.scheduler.config
    return {
        "kv_pool_tokens": (scheduler.num_blocks - 1) * scheduler.block_size, "max_num_seqs": scheduler.max_num_seqs,
        "max_num_batched_tokens": scheduler.max_num_batched_tokens, "block_size": scheduler.block_size,
        "max_model_len": llm.max_model_len, "dtype": str(llm.dtype).removeprefix("torch."),
    }  # fmt: skip


def run(llm: LLM, job: Job, progress: bool | None = False) -> tuple[float, list[RequestOutput]]:
    """All requests arrive now, and nothing is cached; seconds until the last is finished."""
    params = [SamplingParams(temperature=job.temperature, max_tokens=n, ignore_eos=True) for n in job.outputs]
    llm.engine.scheduler.reset_prefix_cache()
    start = time.perf_counter()
    outputs = llm.generate(job.prompts, params, progress=progress)
    seconds = time.perf_counter() - start
    short = [output for output, n in zip(outputs, job.outputs, strict=True) if len(output.token_ids) != n]
    if short:
        raise UserError(f"{len(short)} requests did not get the tokens that they asked for; the figures would mean nothing")
    return seconds, outputs


def throughput(llm: LLM, job: Job, floor: Floor, *, runs: int, patience_s: float, timeline: bool, say: Say) -> Row:
    """Output tokens a second of the whole job, up to `runs` times, or until they took patience_s together."""
    for attempt in range(_MOST_WARM_UPS):
        with compilations() as compiled:
            seconds, _ = run(llm, job, None)
        say(f"warm-up {attempt + 1}: {seconds:.2f} s, {len(compiled)} kernels compiled")
        if not compiled or seconds > patience_s:
            break
    times: list[float] = []
    first_tokens: list[float] = []
    preemptions = 0
    with compilations() as compiled:
        while len(times) < runs and sum(times) < patience_s:
            seconds, outputs = run(llm, job, None)
            times.append(seconds)
            first_tokens += [output.metrics.ttft_s for output in outputs]
            preemptions += sum(output.metrics.num_preemptions for output in outputs)
            say(f"run {len(times)}: {seconds:.2f} s, {job.num_output_tokens / seconds:,.0f} output tok/s")
    prefill, decode = floor.prefill_all(job), floor.decode_all(job)
    shortest = floor.seconds(prefill) + floor.seconds(decode)
    about = {
        "requests": len(job.prompts), "prompt_tokens": job.num_prompt_tokens, "output_tokens": job.num_output_tokens,
        "runs": len(times), "compiled_meanwhile": len(compiled), "preemptions": preemptions, **settings_of(llm),
    }  # fmt: skip
    how = "every prompt's operations at the measured peak, then every read of decoding at the measured bandwidth"
    figures = {
        "output": Figure([job.num_output_tokens / s for s in times], "tok/s", job.num_output_tokens / shortest, how),
        "total": Figure([(job.num_output_tokens + job.num_prompt_tokens) / s for s in times], "tok/s"),
        "wall": Figure(times, "s", shortest),
        "first-token": Figure(first_tokens, "s", note="arrival to first token, all requests arriving together"),
        "decode-floor": Figure([floor.seconds(decode)], "s", note="of the wall time: what decoding reads"),
        "prefill-floor": Figure([floor.seconds(prefill)], "s", note="of the wall time: what the prompts compute"),
    }
    work, steps = prefill + decode, decode_timeline(llm, job) if timeline else ()
    timed = Timed("wall", f"{len(job.prompts)} requests at once", work.nbytes, work.flops)
    return Row(f"r{len(job.prompts)}", about, figures, timed, steps)


def latency(llm: LLM, case: Case, floor: Floor, *, timeline: bool = False) -> Row:
    """Time of a decode step with the whole batch in it."""
    vocab = llm.model_config.vocab_size
    run(llm, uniform(vocab, case.batch, min(case.prompt, 16), min(case.output, 8), seed=1))
    job = uniform(vocab, case.batch, case.prompt, case.output)
    _, outputs = run(llm, job)
    gaps, first = full_batch_gaps(outputs)
    work = floor.decode([round(case.prompt + first + len(gaps) / 2)] * case.batch)
    figures = {
        "step": Figure([1e3 * gap for gap in gaps], "ms", 1e3 * floor.seconds(work), "of one decode step"),
        "mean": Figure([1e3 * sum(gaps) / len(gaps)], "ms", 1e3 * floor.seconds(work), "all these steps together, by their number"),
        "rate": Figure([case.batch / gap for gap in gaps], "tok/s", note="output tokens a second while all decode"),
        "first-token": Figure([1e3 * out.metrics.ttft_s for out in outputs], "ms", note="arrival to first token"),
    }
    about = {"batch": case.batch, "prompt": case.prompt, "output": case.output, **settings_of(llm)}
    timed = Timed("mean", f"batch {case.batch}, prompt {case.prompt:,}", work.nbytes, work.flops)
    return Row(case.name, about, figures, timed, decode_timeline(llm, job) if timeline else ())


def full_batch_gaps(outputs: Sequence[RequestOutput]) -> tuple[list[float], int]:
    """Seconds between tokens while every request decodes, and how many tokens the last one to begin had before.

    Seen from the request that got its first token last; the gaps after the first end of another are left out, as is the first gap of
    all, in which the engine turns from prompts to decoding (if others remain)."""
    last = max(outputs, key=lambda output: output.metrics.ttft_s)
    end = min(output.metrics.e2e_s for output in outputs)
    times = accumulate(last.metrics.itl_s, initial=last.metrics.ttft_s)
    gaps = [gap for gap, at in zip(last.metrics.itl_s, list(times)[1:], strict=True) if at <= end * (1 + 1e-6)]
    if not gaps:
        raise UserError("no step had the whole batch in it; ask for more output tokens, or for a larger KV pool")
    return (gaps[1:], 2) if len(gaps) > 1 else (gaps, 1)


def prefill(llm: LLM, tokens: int, floor: Floor, *, repeats: int) -> Row:
    """Time to the first token of one request that has the engine for itself."""
    vocab = llm.model_config.vocab_size
    times = []
    for seed in range(repeats + 1):
        _, outputs = run(llm, uniform(vocab, 1, tokens, 1, seed=seed))
        times.append(outputs[0].metrics.ttft_s)
    kept, work = times[1:], floor.prefill(tokens)
    figures = {
        "first-token": Figure([1e3 * s for s in kept], "ms", 1e3 * floor.seconds(work), "arrival to first token"),
        "rate": Figure([tokens / s for s in kept], "tok/s", note="prompt tokens a second"),
    }
    return Row(
        f"p{tokens}", {"prompt": tokens, **settings_of(llm)}, figures, Timed("first-token", f"prompt {tokens:,}", work.nbytes, work.flops)
    )


@contextmanager
def compilations() -> Iterator[list[str]]:
    """The kernels that this process compiles, or loads from Triton's cache on disk, meanwhile: either stalls a step."""
    compiled: list[str] = []
    try:
        from triton import knobs
    except ImportError:  # no Triton, no kernels
        yield compiled
        return
    before = knobs.compilation.listener

    def listen(*, src: Any, **about: Any) -> None:
        compiled.append(str(src.name))
        if before is not None:
            before(src=src, **about)

    knobs.compilation.listener = listen
    try:
        yield compiled
    finally:
        knobs.compilation.listener = before
