"""Speculative decoding: tokens a step, speed-up, and where it stops paying."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, curve
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.errors import NotApplicableError

FIELDS = (
    Field("acceptance", "Acceptance", "0.8", "share", low=0, high=1, hint="of a drafted token, those before it accepted"),
    Field("k", "Drafted tokens", "4", low=1, high=64, hint="in a round"),
    Field("draft", "Draft cost", "0.05", "number", low=0, high=10, hint="one drafted token, in plain steps; 0 for n-gram lookup"),
    Field("verify", "Verification", "computed", "choice", options=(("computed", "computed from the roofline"), ("given", "given"))),
    Field("cost", "Verification cost", "1", "number", low=0.5, high=100, hint="in plain steps", when=("verify", ("given",))),
    *choices.model_fields(),
    *choices.gpu_fields(),
    Field("batch", "Batch", "8", low=1, high=10**5, hint="requests decoding together"),
    Field("context", "Context", "2048", low=0, high=10**8, hint="cached tokens of each"),
)


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    acceptance, k, draft = values["acceptance"], values["k"], values["draft"]
    verify = _verify(values, k)
    if values["verify"] == "computed":
        sheet.work(c.verify_cost, choices.gpu_of(values), choices.model_of(values), values["batch"], values["context"], k)
    tokens = sheet.work(c.speculative_yield, acceptance, k)
    speed = sheet.work(c.speculative_speedup, acceptance, k, draft, verify)
    sheet.answer("Speed-up", speed, "x", ".3g", note="tokens a second, against plain decoding")
    sheet.answer("Tokens a round", tokens, "tok", ".3g", note=f"of at most {k + 1}")
    sheet.answer("A round costs", f"{k * draft + verify:.3g} steps", note=f"{k} · {draft:g} of drafting, {verify:.3g} of verification")
    try:
        even = sheet.work(c.break_even_acceptance, k, draft, verify)
        sheet.answer("Pays from", f"acceptance {float(even):.2f}", note=f"with {k} drafted tokens")
    except NotApplicableError as error:
        sheet.answer("Pays from", "never", note=f"with {k} drafted tokens")
        sheet.warnings.append(str(error)[0].upper() + str(error)[1:] + ".")
    costs = {n: _verify(values, n) for n in range(1, max(16, k) + 1)}
    best, gain = max(((n, _speed(values, acceptance, n, costs)) for n in range(17)), key=lambda found: (found[1], -found[0]))
    sheet.answer("Best length", f"{best} drafted" if best else "none", note=f"{gain:.3g}× there" if best else "plain decoding is faster")
    if float(speed) > 1:
        sheet.verdict = f"{k} drafted tokens at {acceptance:.0%} acceptance make decoding {float(speed):.2f} times as fast."
    else:
        sheet.verdict = f"A loss: a round yields {float(tokens):.2f} tokens and costs {k * draft + verify:.2f} plain steps."
    if values["verify"] == "computed" and verify > 1.2:
        sheet.warnings.append(
            f"Verification is not free here: it costs {verify:.2f} plain steps. "
            + (
                "More tokens are sent to more experts."
                if choices.model_of(values).experts and values["batch"] < 64
                else "The batch alone already keeps the arithmetic busy."
            )
        )
    sheet.notes.append(
        "Acceptance is taken as the same for each drafted token. In real text it is not: measure tokens a round, and put that in."
    )
    _plot(sheet, values, float(speed), costs)


def _verify(values: Mapping[str, Any], k: int) -> float:
    if values["verify"] == "given":
        return values["cost"]
    gpu, model = choices.gpu_of(values), choices.model_of(values)
    return float(c.verify_cost(gpu, model, values["batch"], values["context"], k))


def _speed(values: Mapping[str, Any], acceptance: float, k: int, costs: Mapping[int, float]) -> float:
    """Speed-up with k drafted tokens, each length with its own cost of verification."""
    return float(c.speculative_speedup(acceptance, k, values["draft"], costs[k])) if k else 1.0


def _plot(sheet: Sheet, values: Mapping[str, Any], speed: float, costs: Mapping[int, float]) -> None:
    lengths, lines = range(max(12, values["k"]) + 1), []
    for shift in (0.1, 0.0, -0.1):
        acceptance = round(values["acceptance"] + shift, 4)
        if not 0 <= acceptance <= 1:
            continue
        line = curve(lengths, lambda k, a=acceptance: _speed(values, a, int(k), costs))
        lines.append(Line(f"acceptance {acceptance:.0%}", "limit" if shift else "predicted", *line))
    lines.append(Line("plain decoding", "limit", (0.0, float(lengths[-1])), (1.0, 1.0)))
    lines.append(Line(f"you: {speed:.2f}×", "predicted", (float(values["k"]),), (speed,)))
    sheet.plot = Plot("Speed-up by the number of drafted tokens", "drafted tokens a round", "speed-up, ×", tuple(lines))
    sheet.see = "The first drafted tokens bring most; the later ones are rarely reached and always paid."
