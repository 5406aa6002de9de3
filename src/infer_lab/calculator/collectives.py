"""What GPUs say to each other: tensor, expert and pipeline parallelism as bytes, and the time of the collectives that carry them.

Times are the usual latency-bandwidth model: S bytes take `latency + S / bandwidth`, with `bandwidth` what one GPU sends in one
direction (half of NVLink's headline figure). Which algorithm is best depends on the size: rings send the fewest bytes but take 2(n − 1)
turns; trees take 2·log₂ n; one-shot (every GPU reads all others at once) takes one turn and sends the most.
"""

from __future__ import annotations

import math

from infer_lab.calculator.arguments import Count, count, positive, whole
from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError, UserError
from infer_lab.formulas import Worked, formula
from infer_lab.units import Number, Quantity


@formula("2 · ({n} − 1) / {n}")
def all_reduce_factor(n: int) -> Worked:
    """Times its payload that each GPU of a ring sends in an all-reduce over `n` GPUs."""
    if n < 1:
        raise UserError(f"a ring has at least one GPU, got {n}")
    return Worked(Quantity(2 * (n - 1) / n, "x"), {"n": n})


@formula("{tokens} · {hidden} · {bytes}")
def tp_payload(model: ModelConfig, tokens: Count, bytes_per_element: Number = 2) -> Worked:
    """Bytes of the activations that one tensor-parallel all-reduce sums: one row of the hidden size a token.

    There are two of them in a layer: after attention and after the FFN.
    """
    n = count(tokens, "tokens")
    value = whole(n * model.hidden_size * bytes_per_element)
    return Worked(Quantity(value, "B"), {"tokens": n, "hidden": model.hidden_size, "bytes": bytes_per_element})


@formula("2 · ({n} − 1) · ({latency} + {payload} / {n} / {bandwidth})")
def ring_all_reduce_time(payload: Count, n: int, bandwidth: Count, latency: Count = 0) -> Worked:
    """All-reduce by a ring: reduce-scatter, then all-gather, n − 1 turns each, a turn carrying 1/n of the payload."""
    size, rate, turn = _message(payload, n, bandwidth, latency)
    seconds = 2 * (n - 1) * (turn.base + size.base / n / rate.base)
    return Worked(Quantity(seconds, "s"), {"n": n, "latency": turn, "payload": size, "bandwidth": rate})


@formula("2 · ⌈log₂ {n}⌉ · {latency} + 2 · {payload} / {bandwidth}")
def tree_all_reduce_time(payload: Count, n: int, bandwidth: Count, latency: Count = 0) -> Worked:
    """All-reduce by a pipelined tree: summed up to the root, sent back down; few turns, a few more bytes than a ring."""
    size, rate, turn = _message(payload, n, bandwidth, latency)
    turns = 2 * math.ceil(math.log2(n))
    seconds = turns * turn.base + (2 * size.base / rate.base if n > 1 else 0.0)
    return Worked(Quantity(seconds, "s"), {"n": n, "latency": turn, "payload": size, "bandwidth": rate})


@formula("{latency} + ({n} − 1) · {payload} / {bandwidth}")
def one_shot_all_reduce_time(payload: Count, n: int, bandwidth: Count, latency: Count = 0) -> Worked:
    """All-reduce in one turn: every GPU reads everybody's payload and sums it itself. What engines do for decode-sized messages."""
    size, rate, turn = _message(payload, n, bandwidth, latency)
    seconds = (turn.base + (n - 1) * size.base / rate.base) if n > 1 else 0.0
    return Worked(Quantity(seconds, "s"), {"n": n, "latency": turn, "payload": size, "bandwidth": rate})


@formula("{tokens} · {chosen} · {hidden} · {bytes} · ({n} − 1) / {n}")
def all_to_all_bytes(model: ModelConfig, tokens: Count, ep: int, bytes_per_element: Number = 2) -> Worked:
    """Bytes that one GPU sends when its `tokens` tokens go to their experts on `ep` GPUs; the results come back with as many.

    A token with several experts on one GPU is counted for each; engines that send it once, or to a few nodes only, send less.
    """
    if not model.experts:
        raise NotApplicableError(f"{model.name} has no experts to send tokens to")
    n = count(tokens, "tokens")
    if ep < 1 or model.experts.num_experts % ep:
        raise NotApplicableError(f"{model.name}: {model.experts.num_experts} experts do not spread evenly over ep={ep}")
    chosen = model.experts.num_experts_per_token
    value = n * chosen * model.hidden_size * bytes_per_element * (ep - 1) / ep
    inputs = {"tokens": n, "chosen": chosen, "hidden": model.hidden_size, "bytes": bytes_per_element, "n": ep}
    return Worked(Quantity(whole(value), "B"), inputs)


@formula("({stages} − 1) / ({microbatches} + {stages} − 1)")
def pipeline_bubble(stages: int, microbatches: int = 1) -> Worked:
    """Share of the time that a stage of a pipeline stands idle when a batch goes through as equal microbatches (GPipe, arXiv 1811.06965).

    An engine that keeps at least as many independent batches in flight as there are stages has no such bubble.
    """
    p, m = count(stages, "stages", 1), count(microbatches, "microbatches", 1)
    return Worked(Quantity((p - 1) / (m + p - 1)), {"stages": p, "microbatches": m})


def _message(payload: Count, n: int, bandwidth: Count, latency: Count) -> tuple[Quantity, Quantity, Quantity]:
    if not isinstance(n, int) or n < 1:
        raise UserError(f"a collective has a whole number of GPUs, at least 1; got {n!r}")
    size, rate = positive(payload, "payload", "B", zero=True), positive(bandwidth, "bandwidth", "B/s")
    return size, rate, positive(latency, "latency", "s", zero=True)
