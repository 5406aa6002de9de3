"""The roofline: no step is faster than its bytes over bandwidth, nor than its operations over peak (Williams, Waterman, Patterson 2009).

Two lower bounds and nothing else: no launch overhead, no imperfect overlap, no communication. What a machine reaches of them is measured.
`tp` divides weights, KV heads and operations over GPUs that each do their share at the same time; what they say to each other is in
`collectives`.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, check_tp, count, whole
from infer_lab.calculator.kv_cache import kv_bytes_per_request, kv_bytes_per_token
from infer_lab.calculator.operations import decode_flops, prefill_flops
from infer_lab.calculator.weights import decode_weight_bytes
from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError
from infer_lab.formulas import Worked, formula, untraced
from infer_lab.hardware import Gpu
from infer_lab.units import Number, Quantity, quantity

LARGEST_BATCH = 2**24


@formula("{bandwidth}")
def bandwidth(gpu: Gpu) -> Worked:
    """Nominal memory bandwidth of the card."""
    return Worked(gpu.bandwidth, {"bandwidth": gpu.bandwidth})


@formula("{peak}")
def peak_flops(gpu: Gpu, dtype: str = "bf16") -> Worked:
    """Nominal dense peak of the card."""
    peak = gpu.peak_flops(dtype)
    return Worked(peak, {"peak": peak})


@formula("{peak} / {bandwidth}")
def ridge(gpu: Gpu, dtype: str = "bf16", peak: Count = 0, bandwidth: Count = 0) -> Worked:
    """Operations per byte at which the card turns from memory-bound to compute-bound. Dense peak; 0 takes the sheet's figures."""
    top, rate = _limits(gpu, dtype, peak, bandwidth)
    return Worked((top / rate).to("FLOP/B"), {"peak": top, "bandwidth": rate})


@formula("{weights} + {batch} · {context} · {per_token}")
def decode_step_bytes(
    model: ModelConfig, batch: Count, context: Count, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2, tp: int = 1
) -> Worked:
    """The fewest bytes that one decode step reads: the weights once, and every cached token of every request once.

    Of an MoE model's experts, those that the batch is sent to; of a windowed layer's cache, the window.
    """
    b, s = count(batch, "batch"), count(context, "context")
    weights = decode_weight_bytes(model, bytes_per_element, tp, max(b, 1))
    if model.num_windowed_layers:
        each = kv_bytes_per_request(model, s, kv_bytes_per_element, tp)
        total = whole(weights.base + b * each.base)
        return Worked(Quantity(total, "B"), {"weights": weights, "batch": b, "kv": each}, "{weights} + {batch} · {kv}")
    per_token = kv_bytes_per_token(model, kv_bytes_per_element, tp)
    total = whole(weights.base + b * s * per_token.base)
    return Worked(Quantity(total, "B"), {"weights": weights, "batch": b, "context": s, "per_token": per_token})


@formula("{flops} / {bytes}")
def decode_intensity(
    model: ModelConfig, batch: Count, context: Count, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2
) -> Worked:
    """Operations per byte of a decode step; below the card's ridge the step waits for memory."""
    flops = decode_flops(model, batch, context)
    read = decode_step_bytes(model, batch, context, bytes_per_element, kv_bytes_per_element)
    return Worked(flops / read, {"flops": flops, "bytes": read})


@formula("max({bytes} / {bandwidth}, {flops} / {peak})")
def decode_step_floor(
    gpu: Gpu,
    model: ModelConfig,
    batch: Count,
    context: Count,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
    peak: Count = 0,
    dtype: str = "bf16",
    tp: int = 1,
) -> Worked:
    """No decode step on this card can be faster: bytes over bandwidth or operations over peak, whichever is longer.

    bandwidth, peak: take the place of the sheet's figures, e.g. measured ones (0: the sheet's).
    """
    read = decode_step_bytes(model, batch, context, bytes_per_element, kv_bytes_per_element, tp)
    flops = decode_flops(model, batch, context)
    top, rate = _limits(gpu, dtype, peak, bandwidth)
    seconds = max(read / rate, flops / tp / top)
    inputs = {"bytes": read, "bandwidth": rate, "flops": flops, "peak": top, "tp": tp}
    return Worked(seconds.to("s"), inputs, "max({bytes} / {bandwidth}, {flops} / {tp} / {peak})" if tp > 1 else "")


@formula("{batch} / {step}")
def decode_throughput_ceiling(
    gpu: Gpu,
    model: ModelConfig,
    batch: Count,
    context: Count,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
    peak: Count = 0,
    dtype: str = "bf16",
    tp: int = 1,
) -> Worked:
    """Tokens per second that a batch cannot exceed: every request gets one token a step, and no step beats its floor."""
    step = decode_step_floor(gpu, model, batch, context, bytes_per_element, kv_bytes_per_element, bandwidth, peak, dtype, tp)
    b = count(batch, "batch")
    return Worked(Quantity(b / step.base, "tok/s"), {"batch": b, "step": step})


@formula("⌈({weights} / {bandwidth}) / ({flops} / {peak} − {kv} / {bandwidth})⌉")
def ridge_batch(
    gpu: Gpu,
    model: ModelConfig,
    context: Count,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
    peak: Count = 0,
    dtype: str = "bf16",
    tp: int = 1,
) -> Worked:
    """Smallest batch whose decode step is compute-bound: there the operations of the batch take as long as its bytes.

    NotApplicableError where no batch is: each request brings KV traffic that takes longer than its operations, however large the batch.
    """
    check_tp(model, tp)
    top, rate = _limits(gpu, dtype, peak, bandwidth)
    each = decode_flops(model, 1, context)
    kv = kv_bytes_per_request(model, context, kv_bytes_per_element, tp)
    compute, memory = (each / tp / top).to("s"), (kv / rate).to("s")
    if compute <= memory:
        raise NotApplicableError(
            f"no batch makes decoding at {count(context, 'context'):,} tokens of context compute-bound here: each request reads"
            f" {kv.to('MB').format('.4g')} of KV, {memory.to('us').format('.3g')}, for {compute.to('us').format('.3g')} of operations"
        )

    def spare(batch: int) -> float:
        """Seconds by which operations outlast bytes; convex in the batch, so its sign changes once."""
        weights = decode_weight_bytes(model, bytes_per_element, tp, batch)
        return batch * (compute.base - memory.base) - (weights / rate).base

    with untraced():
        low, high = 0, 1
        while spare(high) < 0:
            low, high = high, high * 2
            if high > LARGEST_BATCH:
                raise NotApplicableError(f"no batch below {LARGEST_BATCH:,} makes decoding compute-bound here")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if spare(middle) < 0 else (low, middle)
    weights = decode_weight_bytes(model, bytes_per_element, tp, high)
    inputs = {"weights": weights, "bandwidth": rate, "flops": each / tp, "peak": top, "kv": kv}
    return Worked(Quantity(high, "req"), inputs)


@formula("{weights} + {tokens} · {per_token}")
def prefill_bytes(
    model: ModelConfig, tokens: Count, cached: Count = 0, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2, tp: int = 1
) -> Worked:
    """The fewest bytes that prefilling one prompt moves: the weights once, the cached prefix read and the new tokens' KV written."""
    n, c = count(tokens, "tokens", 1), count(cached, "cached")
    weights = decode_weight_bytes(model, bytes_per_element, tp, n)
    per_token = kv_bytes_per_token(model, kv_bytes_per_element, tp)
    total = whole(weights.base + (n + c) * per_token.base)
    return Worked(Quantity(total, "B"), {"weights": weights, "tokens": n + c, "per_token": per_token})


@formula("max({bytes} / {bandwidth}, {flops} / {peak})")
def prefill_floor(
    gpu: Gpu,
    model: ModelConfig,
    tokens: Count,
    cached: Count = 0,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
    peak: Count = 0,
    dtype: str = "bf16",
    tp: int = 1,
) -> Worked:
    """No prefill of this prompt can be faster; it is the floor of the time to the first token."""
    moved = prefill_bytes(model, tokens, cached, bytes_per_element, kv_bytes_per_element, tp)
    flops = prefill_flops(model, tokens, cached)
    top, rate = _limits(gpu, dtype, peak, bandwidth)
    seconds = max(moved / rate, flops / tp / top)
    inputs = {"bytes": moved, "bandwidth": rate, "flops": flops, "peak": top, "tp": tp}
    return Worked(seconds.to("s"), inputs, "max({bytes} / {bandwidth}, {flops} / {tp} / {peak})" if tp > 1 else "")


def _limits(gpu: Gpu, dtype: str, peak: Count, bandwidth: Count) -> tuple[Quantity, Quantity]:
    """Peak and bandwidth: those given, or where 0 the sheet's."""
    top = quantity(peak, "FLOP/s") if peak else gpu.peak_flops(dtype)
    return top, quantity(bandwidth, "B/s") if bandwidth else gpu.bandwidth
