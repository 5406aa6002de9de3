"""Speculative decoding: how many tokens a step yields, what it costs, and where it stops paying.

The model of Leviathan, Kalman, Matias 2023 (arXiv 2211.17192): each of k drafted tokens is accepted with the same probability, one after
the other, and the target adds one token of its own. `draft_cost` is the time of one draft token and `verify_cost` that of verifying k + 1
tokens, both as multiples of a plain decode step. At small batch verifying is free (1): the step waits for weights that it reads anyway.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, count, positive, share
from infer_lab.calculator.operations import decode_flops
from infer_lab.calculator.roofline import decode_step_bytes, decode_step_floor
from infer_lab.calculator.weights import decode_weight_bytes
from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError
from infer_lab.formulas import Worked, formula
from infer_lab.hardware import Gpu
from infer_lab.units import Number, Quantity, quantity


@formula("(1 − {acceptance}^{k_plus_1}) / (1 − {acceptance})")
def speculative_yield(acceptance: Count, draft_tokens: Count) -> Worked:
    """Tokens that one target step yields on average. acceptance: of one drafted token, given that those before it were accepted."""
    a, k = share(acceptance, "acceptance"), count(draft_tokens, "draft_tokens")
    inputs = {"acceptance": a, "k_plus_1": k + 1}
    if a == 1:
        return Worked(Quantity(k + 1, "tok"), inputs, "{k_plus_1}")
    return Worked(Quantity((1 - a ** (k + 1)) / (1 - a), "tok"), inputs)


@formula("{yield} / ({k} · {draft_cost} + {verify_cost})")
def speculative_speedup(acceptance: Count, draft_tokens: Count, draft_cost: Count = 0, verify_cost: Count = 1) -> Worked:
    """Times as many tokens a second as plain decoding: tokens of a round over its time in plain steps. Below 1 it is a loss."""
    tokens, k = speculative_yield(acceptance, draft_tokens), count(draft_tokens, "draft_tokens")
    draft, verify = positive(draft_cost, "draft_cost", zero=True).base, positive(verify_cost, "verify_cost").base
    inputs = {"yield": tokens.base, "k": k, "draft_cost": draft, "verify_cost": verify}
    return Worked(Quantity(tokens.base / (k * draft + verify), "x"), inputs)


@formula("the a with yield(a) = {k} · {draft_cost} + {verify_cost}")
def break_even_acceptance(draft_tokens: Count, draft_cost: Count = 0, verify_cost: Count = 1) -> Worked:
    """The acceptance at which drafting k tokens neither wins nor loses. NotApplicableError where even full acceptance loses."""
    k = count(draft_tokens, "draft_tokens", 1)
    draft, verify = positive(draft_cost, "draft_cost", zero=True).base, positive(verify_cost, "verify_cost").base
    cost = k * draft + verify
    inputs = {"k": k, "draft_cost": draft, "verify_cost": verify}
    if cost >= k + 1:
        raise NotApplicableError(f"a round costs {cost:.3g} plain steps and yields at most {k + 1} tokens: no acceptance makes it pay")
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if sum(middle**i for i in range(k + 1)) < cost else (low, middle)
    return Worked(Quantity(high if cost > 1 else 0.0), inputs)


@formula("argmax over k = 0 … {most} of (1 − {acceptance}^(k + 1)) / (1 − {acceptance}) / (k · {draft_cost} + {verify_cost})")
def best_draft_tokens(acceptance: Count, draft_cost: Count = 0, verify_cost: Count = 1, most: int = 16) -> Worked:
    """The number of drafted tokens, up to `most`, with the largest speed-up; 0 where drafting never pays. (Plain decoding costs 1.)"""
    a = share(acceptance, "acceptance")
    draft, verify = positive(draft_cost, "draft_cost", zero=True).base, positive(verify_cost, "verify_cost").base

    def speed(k: int) -> float:
        return sum(a**i for i in range(k + 1)) / (k * draft + verify) if k else 1.0

    best = max(range(most + 1), key=lambda k: (speed(k), -k))
    return Worked(Quantity(best, "tok"), {"most": most, "acceptance": a, "draft_cost": draft, "verify_cost": verify})


@formula("max({bytes} / {bandwidth}, {flops} / {peak}) / {step}")
def verify_cost(
    gpu: Gpu,
    model: ModelConfig,
    batch: Count,
    context: Count,
    draft_tokens: Count,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
    peak: Count = 0,
    dtype: str = "bf16",
) -> Worked:
    """Time to verify k drafted tokens of each request, over the time of a plain step, both at their floors.

    The cache is read once for all k + 1 tokens of a request; operations grow k + 1 times; an MoE model reads more of its experts.
    """
    b, k = count(batch, "batch", 1), count(draft_tokens, "draft_tokens")
    step = decode_step_floor(gpu, model, b, context, bytes_per_element, kv_bytes_per_element, bandwidth, peak, dtype)
    read = decode_step_bytes(model, b, context, bytes_per_element, kv_bytes_per_element)
    if model.experts:
        once, more = (decode_weight_bytes(model, bytes_per_element, tokens=tokens) for tokens in (b, b * (k + 1)))
        read = read + (more - once)
    flops = decode_flops(model, b * (k + 1), context)
    top = quantity(peak, "FLOP/s") if peak else gpu.peak_flops(dtype)
    rate = quantity(bandwidth, "B/s") if bandwidth else gpu.bandwidth
    seconds = max(read / rate, flops / top)
    inputs = {"bytes": read, "bandwidth": rate, "flops": flops, "peak": top, "step": step}
    return Worked(Quantity((seconds / step).base, "x"), inputs)
