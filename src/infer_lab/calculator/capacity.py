"""Capacity of a service: from requests per second and their lengths to the batch, the latencies and the number of replicas.

A replica (one GPU, or `tp` of them) serves prefill and decode in turns. In the steady state, with `rate` requests a second on it:

- prefill takes a share of its time, `rate · prefill time`; decode gets the rest, so a token takes `step / (1 − share)` on average;
- by Little's law the batch is what arrives during a request's stay in decode: `rate · output · time per token`. A step takes longer the
  larger its batch, so both are found together: the smallest batch that keeps up;
- prompts wait for each other as in an M/D/1 queue: Poisson arrivals, one prompt at a time.

Steps are at the roofline's floor, divided by `efficiency`: the share of it that the engine reaches (measure it). These are means, not
tails: leave room for bursts by planning with the peak rate. Prompt and output are mean lengths; context is prompt + output / 2.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, count, positive, share
from infer_lab.calculator.kv_cache import max_concurrency
from infer_lab.calculator.roofline import decode_step_floor, prefill_floor
from infer_lab.config import ModelConfig
from infer_lab.errors import OverloadError, UnreachableTargetError
from infer_lab.formulas import Worked, formula, untraced
from infer_lab.hardware import Gpu
from infer_lab.units import Number, Quantity, quantity

LARGEST_BATCH, MOST_REPLICAS = 2**16, 2**14


@formula("{rate} · {prefill} / {efficiency}")
def prefill_share(
    gpu: Gpu,
    model: ModelConfig,
    rate: Count,
    prompt: Count,
    cached: Count = 0,
    bytes_per_element: Number = 2,
    tp: int = 1,
    efficiency: Count = 1,
    dtype: str = "bf16",
) -> Worked:
    """Share of a replica's time that goes to prefill. `cached` tokens of each prompt come from the prefix cache."""
    arrivals, reached = positive(rate, "rate", "1/s", zero=True), positive(share(efficiency, "efficiency"), "efficiency").base
    hit = _cached(prompt, cached)
    each = prefill_floor(gpu, model, count(prompt, "prompt", 1) - hit, hit, bytes_per_element, tp=tp, dtype=dtype)
    inputs = {"rate": arrivals, "prefill": each, "efficiency": reached}
    return Worked(Quantity(arrivals.base * each.base / reached), inputs)


@formula("smallest batch with batch ≥ {rate} · {output} · {step} / {efficiency} / (1 − {prefill})")
def replica_batch(
    gpu: Gpu,
    model: ModelConfig,
    rate: Count,
    prompt: Count,
    output: Count,
    cached: Count = 0,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    tp: int = 1,
    efficiency: Count = 1,
    dtype: str = "bf16",
) -> Worked:
    """Requests that decode at once on one replica when `rate` requests a second arrive there. OverloadError where no batch keeps up."""
    arrivals, new = positive(rate, "rate", "1/s", zero=True), count(output, "output", 1)
    busy = float(prefill_share(gpu, model, rate, prompt, cached, bytes_per_element, tp, efficiency, dtype))
    context, reached = count(prompt, "prompt", 1) + new // 2, float(quantity(efficiency))
    if busy >= 1:
        raise OverloadError(
            f"{arrivals.base:.4g} prompts a second of {count(prompt, 'prompt'):,} tokens take {busy:.0%} of a replica's time"
        )

    def step(batch: int) -> float:
        return decode_step_floor(gpu, model, batch, context, bytes_per_element, kv_bytes_per_element, dtype=dtype, tp=tp).base

    def keeps_up(batch: int) -> bool:
        return batch >= arrivals.base * new * step(batch) / reached / (1 - busy)

    with untraced():
        high = 1
        while not keeps_up(high):
            high *= 2
            if high > LARGEST_BATCH:
                raise OverloadError(
                    f"{arrivals.base:.4g} requests a second of {new:,} tokens are {arrivals.base * new:,.0f} tokens a second; one replica"
                    f" makes at most {LARGEST_BATCH * (1 - busy) * reached / step(LARGEST_BATCH):,.0f} beside its prefill, at any batch"
                )
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if keeps_up(middle) else (middle, high)
    floor = decode_step_floor(gpu, model, high, context, bytes_per_element, kv_bytes_per_element, dtype=dtype, tp=tp)
    inputs = {"rate": arrivals, "output": new, "step": floor, "efficiency": reached, "prefill": busy}
    return Worked(Quantity(high, "req"), inputs)


@formula("{step} / {efficiency} / (1 − {prefill})")
def decode_time_per_token(
    gpu: Gpu,
    model: ModelConfig,
    rate: Count,
    prompt: Count,
    output: Count,
    cached: Count = 0,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    tp: int = 1,
    efficiency: Count = 1,
    dtype: str = "bf16",
) -> Worked:
    """Mean time between a request's tokens (TPOT) on one replica, the pauses for other requests' prefill spread over them."""
    batch = replica_batch(gpu, model, rate, prompt, output, cached, bytes_per_element, kv_bytes_per_element, tp, efficiency, dtype)
    with untraced():
        busy = float(prefill_share(gpu, model, rate, prompt, cached, bytes_per_element, tp, efficiency, dtype))
    context = count(prompt, "prompt", 1) + count(output, "output", 1) // 2
    step = decode_step_floor(gpu, model, int(batch), context, bytes_per_element, kv_bytes_per_element, dtype=dtype, tp=tp)
    reached = float(quantity(efficiency))
    inputs = {"step": step, "efficiency": reached, "prefill": busy}
    return Worked(Quantity(step.base / reached / (1 - busy), "s"), inputs)


@formula("{prefill} · (1 + {busy} / (2 · (1 − {busy})))")
def time_to_first_token(
    gpu: Gpu,
    model: ModelConfig,
    rate: Count,
    prompt: Count,
    cached: Count = 0,
    bytes_per_element: Number = 2,
    tp: int = 1,
    efficiency: Count = 1,
    dtype: str = "bf16",
) -> Worked:
    """Mean time to the first token (TTFT) on one replica: the prompt's own prefill, and the wait for those before it (M/D/1)."""
    busy = float(prefill_share(gpu, model, rate, prompt, cached, bytes_per_element, tp, efficiency, dtype))
    if busy >= 1:
        raise OverloadError(f"prefill alone takes {busy:.0%} of a replica's time, so prompts wait without end")
    with untraced():
        hit = _cached(prompt, cached)
        each = prefill_floor(gpu, model, count(prompt, "prompt", 1) - hit, hit, bytes_per_element, tp=tp, dtype=dtype)
    own = each.base / float(quantity(efficiency))
    return Worked(Quantity(own * (1 + busy / (2 * (1 - busy))), "s"), {"prefill": Quantity(own, "s"), "busy": busy})


@formula("smallest n with batch ≤ {fits}, TPOT ≤ {tpot} and TTFT ≤ {ttft} at {rate} / n")
def replicas_needed(
    gpu: Gpu,
    model: ModelConfig,
    rate: Count,
    prompt: Count,
    output: Count,
    ttft: Count,
    tpot: Count,
    cached: Count = 0,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    tp: int = 1,
    efficiency: Count = 1,
    dtype: str = "bf16",
    util: float = 0.9,
    driver: int = 0,
    overhead: Count = 0,
) -> Worked:
    """Replicas that carry `rate` requests a second within mean TTFT and TPOT targets, with room in the cache for every running request.

    A request is given room for prompt + output, so nothing is preempted. DoesNotFitError when the weights do not fit, or no request does;
    UnreachableTargetError when no number of replicas meets a target.
    """
    arrivals = positive(rate, "rate", "1/s")
    first, between = positive(ttft, "ttft", "s"), positive(tpot, "tpot", "s")
    tokens = count(prompt, "prompt", 1) + count(output, "output", 1)
    fits = int(max_concurrency(gpu, model, tokens, util, bytes_per_element, kv_bytes_per_element, tp, overhead, driver, 16))
    inputs = {"fits": fits, "tpot": between, "ttft": first, "rate": arrivals}
    with untraced():
        failed = ""

        def enough(n: int) -> bool:
            nonlocal failed
            failed = misses(
                gpu, model, arrivals / n, prompt, output, first, between, fits, cached, bytes_per_element, kv_bytes_per_element, tp,
                efficiency, dtype,
            )  # fmt: skip
            return not failed

        high = 1
        while not enough(high):
            high *= 2
            if high > MOST_REPLICAS:
                raise UnreachableTargetError(
                    f"no number of replicas of {tp} × {gpu.name} meets this, however little each has to do. {failed}"
                )
        low = high // 2
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if enough(middle) else (middle, high)
    return Worked(Quantity(high), inputs)


def misses(gpu: Gpu, model: ModelConfig, rate: Quantity, prompt: Count, output: Count, ttft: Quantity, tpot: Quantity, fits: int,
           cached: Count = 0, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2, tp: int = 1, efficiency: Count = 1,
           dtype: str = "bf16") -> str:  # fmt: skip
    """What stands in the way of one replica that gets `rate`, in words that begin with its kind (prefill, decode, cache, TTFT, TPOT); "" if
    nothing does."""
    shared = (gpu, model, rate, prompt)
    try:
        first = time_to_first_token(*shared, cached, bytes_per_element, tp, efficiency, dtype)
    except OverloadError as error:
        return f"prefill: {error}"
    try:
        decode = (output, cached, bytes_per_element, kv_bytes_per_element, tp, efficiency, dtype)
        batch = int(replica_batch(*shared, *decode))
    except OverloadError as error:
        return f"decode: {error}"
    if batch > fits:
        return f"cache: {batch:,} requests run at once and {fits:,} fit"
    if first > ttft:
        return f"TTFT: {_ms(first)}, and {_ms(ttft)} is the target"
    token = decode_time_per_token(*shared, *decode)
    return f"TPOT: {_ms(token)}, and {_ms(tpot)} is the target" if token > tpot else ""


def _ms(time: Quantity) -> str:
    return time.to("ms").format(".1f")


def _cached(prompt: Count, cached: Count) -> int:
    """Cached tokens; the last prompt token is always computed."""
    return min(count(cached, "cached"), count(prompt, "prompt", 1) - 1)
