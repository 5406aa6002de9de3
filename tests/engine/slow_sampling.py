"""Sampling options once more, one token at a time and in plain Python: slow and obvious. float32 where the engine's order of roundings is
part of the answer."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from infer_lab.sampling_params import SamplingParams

INF = float("inf")


def slow_logits(
    logits: Sequence[float], params: SamplingParams, prompt: Sequence[int], output: Sequence[int], stops: Iterable[int] = ()
) -> list[np.float32]:
    """Masks, then bias, then penalties."""
    f = np.float32
    result = []
    for token, logit in enumerate(logits):
        x = f(logit)
        if params.allowed_token_ids is not None and token not in params.allowed_token_ids:
            x = f(-INF)
        if token in params.banned_token_ids:
            x = f(-INF)
        if len(output) < params.min_tokens and token in stops:
            x = f(-INF)
        if token in params.logit_bias:
            x = x + f(params.logit_bias[token])
        if params.repetition_penalty != 1.0 and (token in prompt or token in output):
            x = x / f(params.repetition_penalty) if x > 0 else x * f(params.repetition_penalty)
        x = x - f(params.frequency_penalty) * f(list(output).count(token))
        if token in output:
            x = x - f(params.presence_penalty)
        result.append(x)
    return result


def slow_distribution(logits: Sequence[float], params: SamplingParams) -> tuple[list[float], float]:
    """Probabilities after temperature, min_p, top_k, top_p; and how near the nearest decision was (below 1e-5 it may fall otherwise)."""
    best = max(logits)
    if params.temperature == 0:
        winner = list(logits).index(best)
        return [float(token == winner) for token in range(len(logits))], INF
    scores = [(float(x) - float(best)) / params.temperature for x in logits]
    order = sorted(range(len(scores)), key=lambda token: (-scores[token], token))
    order = [token for token in order if scores[token] > -INF]
    near = INF
    if params.min_p > 0:
        floor = math.log(params.min_p)
        near = min([abs(scores[token] - floor) for token in order[1:]], default=INF)
        order = [token for token in order if scores[token] >= floor] or order[:1]
    if params.top_k > 0:
        order = order[: params.top_k]
    if params.top_p < 1:
        total = sum(math.exp(scores[token]) for token in order)
        kept, mass = [], 0.0
        for token in order:
            if kept and mass >= params.top_p:
                break
            kept.append(token)
            mass += math.exp(scores[token]) / total
            near = min(near, abs(mass - params.top_p))
        order = kept
    total = sum(math.exp(scores[token]) for token in order)
    return [math.exp(scores[token]) / total if token in order else 0.0 for token in range(len(scores))], near
