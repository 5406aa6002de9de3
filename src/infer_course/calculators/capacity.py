"""Capacity planner: load and targets in, replicas out, and what limits them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, at, curve, show
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.calculator.capacity import misses
from infer_lab.errors import DoesNotFitError, UnreachableTargetError
from infer_lab.formulas import untraced
from infer_lab.units import Quantity

FIELDS = (
    Field("rate", "Requests a second", "100", "amount", "1/s", low=1e-6, high=1e6, hint="at the peak that must be carried"),
    Field("prompt", "Prompt tokens", "1000", low=1, high=10**7, hint="mean"),
    Field("cached", "of which cached", "0", low=0, high=10**7, hint="prefix-cache hits, mean"),
    Field("output", "Output tokens", "300", low=1, high=10**6, hint="mean"),
    Field("ttft", "TTFT target", "1000", "amount", "ms", low=0.01, high=1e7, hint="mean time to the first token"),
    Field("tpot", "TPOT target", "40", "amount", "ms", low=0.01, high=1e6, hint="mean time between tokens"),
    *choices.model_fields(),
    *choices.gpu_fields(),
    choices.tp_field(),
    choices.weight_field(),
    choices.kv_field(),
    Field(
        "efficiency",
        "Efficiency",
        "0.7",
        "share",
        low=0.01,
        high=1,
        hint="share of the roofline’s speed that the engine reaches",
    ),
    choices.util_field(),
    choices.overhead_field(),
)
LIMITS = {
    "prefill": "prefill takes all of a replica’s time",
    "decode": "one replica cannot make that many tokens at any batch",
    "cache": "the cache is full before time runs out",
    "TTFT": "the first token would come too late",
    "TPOT": "tokens would come too slowly",
}


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    model, gpu, tp = choices.model_of(values), choices.gpu_of(values), int(values["tp"])
    width, kv = choices.FORMATS[values["weights"]][1], choices.KV_FORMATS[values["kv"]][1]
    rate, prompt, output = values["rate"], values["prompt"], values["output"]
    with at("tp"):
        c.kv_bytes_per_token(model, kv, tp)
    engine = {"cached": values["cached"], "bytes_per_element": width, "tp": tp, "efficiency": values["efficiency"],
              "dtype": choices.compute_dtype(gpu, values["weights"])}  # fmt: skip
    decode = {**engine, "kv_bytes_per_element": kv}
    memory = {"util": values["util"], "driver": 1, "overhead": values["overhead"]}
    targets = (values["ttft"].to("s"), values["tpot"].to("s"))
    try:
        n = int(sheet.work(c.replicas_needed, gpu, model, rate, prompt, output, *targets, **decode, **memory))
    except (DoesNotFitError, UnreachableTargetError) as error:
        sheet.refused = str(error)[0].upper() + str(error)[1:] + "."
        return
    fits = int(
        c.max_concurrency(gpu, model, prompt + output, kv_bytes_per_element=kv, bytes_per_element=width, tp=tp, block_size=16, **memory)
    )
    if fits < 1:
        sheet.refused = f"Not one request of {prompt + output:,} tokens fits beside the weights."
        return
    each = rate / n
    first = sheet.work(c.time_to_first_token, gpu, model, each, prompt, **engine)
    token = sheet.work(c.decode_time_per_token, gpu, model, each, prompt, output, **decode)
    batch, busy = c.replica_batch(gpu, model, each, prompt, output, **decode), c.prefill_share(gpu, model, each, prompt, **engine)
    sheet.answer("GPUs", f"{n * tp:,}", note=f"{n:,} replicas of {tp}" if tp > 1 else f"{gpu.name}, a replica on each")
    sheet.answer("TTFT", first, "ms", ".3g", note=f"target {show(targets[0])}")
    sheet.answer("TPOT", token, "ms", ".3g", note=f"target {show(targets[1])}")
    sheet.answer("Batch", f"{int(batch):,}", note=f"requests decode at once on a replica; the cache holds {fits:,}")
    sheet.answer("Prefill", busy.to("%"), "%", ".2g", note="of a replica’s time")
    sheet.answer("A replica carries", f"{each.base:.3g} requests/s", note=f"{each.base * output:,.0f} output tokens a second")
    why = _limit(gpu, model, rate, prompt, output, targets, fits, decode, n)
    sheet.verdict = f"{n * tp:,} × {gpu.name}. " + (f"With one replica less, {LIMITS[why]}." if why else "One replica is enough.")
    sheet.notes.append(
        "Means in a steady state, at the roofline’s floor over the efficiency; Poisson arrivals, prefill and decode share the card. "
        "Bursts, long tails and failed machines need room on top: plan with the peak, and one replica more than it takes."
    )
    _plot(sheet, gpu, model, prompt, output, values, fits, decode, float(each.base), n)


def _limit(gpu: Any, model: Any, rate: Quantity, prompt: int, output: int, targets: tuple[Quantity, Quantity], fits: int,
           decode: Mapping[str, Any], n: int) -> str:  # fmt: skip
    """What one replica less would fail at: a key of LIMITS; "" for a single replica."""
    if n == 1:
        return ""
    with untraced():
        return misses(gpu, model, rate / (n - 1), prompt, output, *targets, fits, **decode).partition(":")[0]


def _plot(sheet: Sheet, gpu: Any, model: Any, prompt: int, output: int, values: Mapping[str, Any], fits: int, decode: Mapping[str, Any],
          here: float, n: int) -> None:  # fmt: skip
    def token_ms(rate: float) -> float | None:
        token = c.decode_time_per_token(gpu, model, rate, prompt, output, **decode)
        return token.to("ms").value if c.in_flight(rate, output * token).value <= fits else None

    x, y = curve([*(here * k / 10 for k in range(1, 11)), *(here * (1 + k / 20) for k in range(1, 21))], token_ms)
    top = 2.5 * max(values["tpot"].value, token_ms(here) or 0)
    shown = [(a, b) for a, b in zip(x, y, strict=True) if b <= top]
    if len(shown) < 2:
        return
    target = float(values["tpot"].value)
    lines = (
        Line("TPOT on a replica", "predicted", tuple(a for a, _ in shown), tuple(b for _, b in shown)),
        Line("target", "limit", (0.0, shown[-1][0]), (target, target)),
        Line(f"you: {n:,} {'replica' if n == 1 else 'replicas'}", "predicted", (here,), (float(token_ms(here) or 0),)),
    )
    sheet.plot = Plot("Time between tokens, by the load on a replica", "requests a second on a replica", "TPOT, ms", lines)
    sheet.see = "The line ends where the cache is full or no batch keeps up. Fewer replicas move you to the right."
