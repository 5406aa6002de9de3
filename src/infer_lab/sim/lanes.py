"""A trace as shapes: one lane a request, time to the right. Path data in milliseconds and lane heights, to be stretched by whoever draws.

Why here: the page that is built and the page that runs draw from the same paths, so they cannot differ.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infer_lab.sim.trace import AGAIN, DECODE, DRAFTS, PREFILL

TOP_AND_BOTTOM = {PREFILL: (0.06, 0.94), AGAIN: (0.06, 0.94), DECODE: (0.3, 0.7), DRAFTS: (0.18, 0.82)}
"""Of a lane, by what a step computes: prompts fill it, a decoded token is a slimmer bar. Waiting is a thread in the middle."""
_THREAD = (0.46, 0.54)


def lanes(requests: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """For each request, path data by kind: prefill, decode, drafts, again, waiting, preempted, swapped."""
    found: list[dict[str, list[str]]] = [{} for _ in requests]
    for number, request in enumerate(requests):
        for start, end, kind in request.get("spans", ()):
            found[number].setdefault(kind, []).append(_box(start, end, *_THREAD))
    for step in steps:
        start, end = step["at"], step["at"] + step["ms"]
        for number, kind, *_ in step["runs"]:
            found[number].setdefault(kind, []).append(_box(start, end, *TOP_AND_BOTTOM[kind]))
    return [{kind: "".join(boxes) for kind, boxes in lane.items()} for lane in found]


def load(steps: Sequence[Mapping[str, Any]], budget: int, usable_blocks: int) -> dict[str, str]:
    """How full each step was: of its token budget, prompt tokens above the others; and the pool's blocks in use."""
    tokens: dict[str, list[str]] = {PREFILL: [], AGAIN: [], DECODE: []}
    kv = []
    for step in steps:
        start, end = step["at"], step["at"] + step["ms"]
        bottom = 1.0
        for kinds, shown in (((DECODE, DRAFTS), DECODE), ((AGAIN,), AGAIN), ((PREFILL,), PREFILL)):
            count = sum(run[3] for run in step["runs"] if run[1] in kinds)
            if count:
                top = bottom - count / budget
                tokens[shown].append(_box(start, end, top, bottom))
                bottom = top
        if step["used"] and step["ms"]:
            kv.append(_box(start, end, 1 - step["used"] / usable_blocks, 1.0))
    return {kind: "".join(boxes) for kind, boxes in tokens.items() if boxes} | ({"kv": "".join(kv)} if kv else {})


def ticks(end_ms: float, most: int = 8) -> list[float]:
    """Round times from 0 on, at most so many of them; none so near the end that its label would not fit."""
    step = next(size * 10**power for power in range(6) for size in (1, 2, 5) if end_ms / (size * 10**power) < most)
    return [float(step * index) for index in range(int(0.95 * end_ms / step) + 1)]


def _box(left: float, right: float, top: float, bottom: float) -> str:
    return f"M{left:.7g} {top:.3g}H{right:.7g}V{bottom:.3g}H{left:.7g}z"
