"""What to read off a run, and off two beside each other: rows of a table, formatted once for everybody who shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """better: which direction is good, "" where neither is."""

    key: str
    label: str
    unit: Literal["ms", "1", "tok/s", "1/s", "%", "tok", "blocks"]
    better: Literal["low", "high", ""]
    says: str


FIGURES = (
    Figure("ttft_mean", "Time to first token, mean", "ms", "low", "TTFT: arrival to first output token"),
    Figure("ttft_max", "Time to first token, worst", "ms", "low", ""),
    Figure("itl_mean", "Gap between tokens, mean", "ms", "low", "ITL: inter-token latency, over all gaps of all requests"),
    Figure("itl_max", "Gap between tokens, worst", "ms", "low", "the longest freeze that a reader saw"),
    Figure("latency_mean", "Latency of a request, mean", "ms", "low", "arrival to last token"),
    Figure("queue_mean", "Waiting before the batch, mean", "ms", "low", "arrival to first admission"),
    Figure("duration", "All done after", "ms", "low", ""),
    Figure("output_tokens_per_s", "Output tokens a second", "tok/s", "high", "over the whole run"),
    Figure("in_time", "Requests within the objective", "%", "high", "TTFT and TPOT both; refused ones count as late"),
    Figure("goodput", "Goodput, requests a second", "1/s", "high", "only those within the objective count"),
    Figure("preemptions", "Preemptions", "1", "low", ""),
    Figure("computed_tokens", "Positions computed", "tok", "low", "KV written: prompts and outputs, drafts included"),
    Figure("again_tokens", "Positions computed again", "tok", "low", "of those: thrown away by a preemption, computed once more"),
    Figure("cached_tokens", "Prompt tokens found, not computed", "tok", "high", "in the prefix cache, or by forking a sibling"),
    Figure("peak_blocks", "KV blocks in use, most", "blocks", "", ""),
    Figure("mean_batch", "Requests in a step, mean", "1", "", ""),
    Figure("steps", "Steps", "1", "", ""),
    Figure("utilization", "Time spent computing", "%", "", "the rest is waiting for requests"),
)


def figures(sides: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows {key, label, says, values: [text, …], change: text, better: index of the better side or None}; change is B against A."""
    rows = []
    for figure in FIGURES:
        numbers = [side["totals"][figure.key] for side in sides]
        row: dict[str, Any] = {"key": figure.key, "label": figure.label, "says": figure.says, "change": "", "better": None}
        row["values"] = [show(number, figure.unit) for number in numbers]
        if len(numbers) == 2 and None not in numbers:
            a, b = numbers
            row["change"] = _change(a, b, figure.unit)
            if figure.better and row["values"][0] != row["values"][1]:
                row["better"] = int((b < a) == (figure.better == "low"))
        rows.append(row)
    return rows


def show(number: float | None, unit: str) -> str:
    if number is None:
        return "–"
    if unit == "%":
        return f"{100 * number:.0f} %"
    if unit == "ms":
        return f"{number / 1e3:.2f} s" if number >= 10_000 else f"{number:,.0f} ms" if number >= 100 else f"{number:.1f} ms"
    if unit == "1/s":
        return f"{number:.2f}"
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"


def _change(a: float, b: float, unit: str) -> str:
    """What makes B of A: a factor where it is much, per cent where it is little, the plain difference from zero."""
    if show(a, unit) == show(b, unit):
        return "same"
    if unit == "%":
        return f"{100 * (b - a):+.0f} points".replace("-", "−")
    if not a or not b:
        return f"{b - a:+,.0f}".replace("-", "−")
    if b >= 2 * a or a >= 2 * b:
        return f"× {b / a:.1f}" if b > a else f"÷ {a / b:.1f}"
    return f"{100 * (b / a - 1):+.0f} %".replace("-", "−")
