"""Roofline: what bounds a step, how fast it can be, and where measured work lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.machines import Machine
from infer_course.calculators.sheet import Sheet, at, curve, powers, show
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError
from infer_lab.hardware import Gpu
from infer_lab.units import Quantity

_OF_MACHINE = {"h200": "h200_141gb", "h100": "h100_80gb", "a100": "a100_80gb", "l4": "l4", "rtx-4090": "rtx_4090"}
DECODE, PREFILL = ("phase", ("decode",)), ("phase", ("prefill",))
FIELDS = (
    *choices.gpu_fields("h200_141gb"),
    *choices.model_fields(),
    Field("phase", "Phase", "decode", "choice", options=(("decode", "decode, a token a request"), ("prefill", "prefill of one prompt"))),
    Field("batch", "Batch", "32", low=1, high=10**6, hint="requests decoding together", when=DECODE),
    Field("context", "Context", "2048", low=0, high=10**8, hint="cached tokens of each", when=DECODE),
    Field("prompt", "New prompt tokens", "2048", low=1, high=10**7, when=PREFILL),
    Field("cached", "Cached before them", "0", low=0, high=10**8, hint="prefix-cache hit, or earlier chunks", when=PREFILL),
    choices.weight_field(),
    choices.kv_field(),
    choices.tp_field(more=True),
    Field(
        "limits",
        "Limits",
        "sheet",
        "choice",
        options=(("sheet", "of the data sheet"), ("measured", "measured, where there are any")),
        more=True,
    ),
)


def fill(sheet: Sheet, values: Mapping[str, Any], machines: Sequence[Machine]) -> None:
    model, gpu, tp = choices.model_of(values), choices.gpu_of(values), int(values["tp"])
    dtype, width, kv = (
        choices.compute_dtype(gpu, values["weights"]),
        choices.FORMATS[values["weights"]][1],
        choices.KV_FORMATS[values["kv"]][1],
    )
    shown = [machine for machine in machines if not machine.ours or _OF_MACHINE.get(machine.slug) == gpu.key]
    limits = _limits(sheet, values, gpu, shown, dtype)
    if values["weights"] == "fp8" and dtype != "fp8":
        sheet.warnings.append(f"{gpu.name} has no FP8 units: the operations are counted at its BF16 peak.")
    common = {"bytes_per_element": width, "kv_bytes_per_element": kv, "tp": tp, "dtype": dtype, **limits}
    with at("tp"):
        c.kv_bytes_per_token(model, kv, tp)
    if values["phase"] == "decode":
        moved, flops, seconds = _decode(sheet, values, gpu, model, common)
    else:
        moved, flops, seconds = _prefill(sheet, values, gpu, model, common)
    ridge = sheet.work(c.ridge, gpu, dtype, **limits)
    intensity = (flops / tp / moved).to("FLOP/B")
    memory, compute = moved / _rate(gpu, limits), flops / tp / _peak(gpu, dtype, limits)
    bound = "memory" if memory >= compute else "arithmetic"
    sheet.answer("Intensity", intensity, "FLOP/B", ".3g", note=f"the ridge is at {ridge.format('.0f')}")
    longer, shorter = max(memory, compute), min(memory, compute)
    sheet.verdict = (
        f"Bound by {bound}: {show(longer.to('s'), '', '.3g')} for its "
        f"{'bytes' if bound == 'memory' else 'operations'}, {show(shorter.to('s'), '', '.3g')} for its "
        f"{'operations' if bound == 'memory' else 'bytes'}."
    )
    if values["phase"] == "decode":
        _ridge_batch(sheet, values, gpu, model, common)
    _plot(sheet, values, gpu, model, common, shown, (float(intensity.value), float((flops / seconds).base)))


def _limits(sheet: Sheet, values: Mapping[str, Any], gpu: Gpu, machines: Sequence[Machine], dtype: str) -> dict[str, Quantity]:
    if values["limits"] != "measured":
        return {}
    machine = next((m for m in machines if m.ours and m.bandwidth and m.peak), None) or next(
        (m for m in machines if m.bandwidth and m.peak), None
    )
    if machine is None:
        sheet.warnings.append(f"There are no measured limits of {gpu.name} here, so the data sheet’s are used.")
        return {}
    if dtype == "fp8":
        sheet.warnings.append("The measured peak is of BF16; for FP8 it is doubled.")
    peak = machine.peak * (2 if dtype == "fp8" else 1)
    return {"bandwidth": Quantity(machine.bandwidth / 1e12, "TB/s"), "peak": Quantity(peak / 1e12, "TFLOP/s")}


def _decode(sheet: Sheet, values: Mapping[str, Any], gpu: Gpu, model: ModelConfig, common: dict[str, Any]) -> tuple[Quantity, ...]:
    batch, context = values["batch"], values["context"]
    step = sheet.work(c.decode_step_floor, gpu, model, batch, context, **common)
    rate = sheet.work(c.decode_throughput_ceiling, gpu, model, batch, context, **common)
    sheet.answer("A step takes at least", step, "ms", ".3g", note="so does the time between a request’s tokens")
    sheet.answer("At most", rate, "tok/s", ",.0f", note=f"for {batch:,} requests; {(rate / batch).base:,.0f} a second for each")
    widths = {key: common[key] for key in ("bytes_per_element", "kv_bytes_per_element", "tp")}
    return c.decode_step_bytes(model, batch, context, **widths), c.decode_flops(model, batch, context), step


def _prefill(sheet: Sheet, values: Mapping[str, Any], gpu: Gpu, model: ModelConfig, common: dict[str, Any]) -> tuple[Quantity, ...]:
    prompt, cached = values["prompt"], values["cached"]
    floor = sheet.work(c.prefill_floor, gpu, model, prompt, cached, **common)
    sheet.answer("Prefill takes at least", floor, note="the floor of the time to the first token")
    sheet.answer("At most", Quantity(prompt / floor.base, "tok/s"), "tok/s", ",.0f", note="prompt tokens")
    widths = {key: common[key] for key in ("bytes_per_element", "kv_bytes_per_element", "tp")}
    return c.prefill_bytes(model, prompt, cached, **widths), c.prefill_flops(model, prompt, cached), floor


def _ridge_batch(sheet: Sheet, values: Mapping[str, Any], gpu: Gpu, model: ModelConfig, common: dict[str, Any]) -> None:
    try:
        batch = int(sheet.work(c.ridge_batch, gpu, model, values["context"], **common))
    except NotApplicableError as error:
        sheet.answer("Compute-bound from", "no batch", note="at this context")
        sheet.notes.append(str(error)[0].upper() + str(error)[1:] + ".")
        return
    sheet.answer("Compute-bound from", f"batch {batch:,}", note=f"at {values['context']:,} tokens of context, if they fit")


def _plot(
    sheet: Sheet, values: Mapping[str, Any], gpu: Gpu, model: ModelConfig, common: dict[str, Any], machines: Sequence[Machine],
    here: tuple[float, float],
) -> None:  # fmt: skip
    dtype = common["dtype"]
    bandwidth, peak = gpu.bandwidth.base, gpu.peak_flops(dtype).base
    points = [(machine, point) for machine in machines for point in machine.points]
    low = min(0.5, here[0] / 2, *(p[1] / 1.5 for _, p in points), 0.5)
    high = max(4 * peak / bandwidth, here[0] * 2, *(p[1] * 1.5 for _, p in points), 1)
    lines = [Line(f"{gpu.name}: the sheet’s limits", "limit", *_roof(bandwidth, peak, low, high))]
    for machine in machines:
        whose = "measured" if machine.ours else "yours"
        if machine.bandwidth and machine.peak:
            name = f"{whose}: {machine.peak / 1e12:,.0f} TFLOP/s, {machine.bandwidth / 1e12:.2f} TB/s"
            lines.append(Line(name, "measured", *_roof(machine.bandwidth, machine.peak, low, high), dots=False))
        if machine.points:
            ordered = sorted((x, y / 1e12) for _, x, y in machine.points)
            name = f"{whose}: {len(ordered)} kernels"
            lines.append(Line(name, "measured", tuple(x for x, _ in ordered), tuple(y for _, y in ordered), joined=False))
    if values["phase"] == "decode":

        def place(batch: float) -> tuple[float, float]:
            widths = {key: common[key] for key in ("bytes_per_element", "kv_bytes_per_element", "tp")}
            read = c.decode_step_bytes(model, int(batch), values["context"], **widths)
            flops = c.decode_flops(model, int(batch), values["context"]).base / common["tp"]
            return flops / read.base, flops / c.decode_step_floor(gpu, model, int(batch), values["context"], **common).base / 1e12

        batches = powers(1, 4096)
        xs, _ = curve(batches, lambda b: place(b)[0])
        if xs:
            spots = [place(b) for b in batches]
            lines.append(Line("decode, batch 1 to 4,096", "predicted", tuple(x for x, _ in spots), tuple(y for _, y in spots)))
    lines.append(Line("you are here", "predicted", (here[0],), (here[1] / common["tp"] / 1e12,)))
    sheet.plot = Plot(f"Roofline of {gpu.name}", "operations per byte", "TFLOP/s", tuple(lines), True, True)
    dates = ", ".join(f"{m.name}, {m.date}" for m in machines)
    sheet.see = "Left of the ridge a step waits for memory, right of it for arithmetic. " + (
        f"Measured: {dates}."
        if dates
        else "Measured points of a card appear where there are records of it: ours of the H200, and your own."
    )


def _roof(bandwidth: float, peak: float, low: float, high: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    ridge = peak / bandwidth
    return (low, ridge, high), (low * bandwidth / 1e12, peak / 1e12, peak / 1e12)


def _rate(gpu: Gpu, limits: Mapping[str, Quantity]) -> Quantity:
    return limits.get("bandwidth", gpu.bandwidth)


def _peak(gpu: Gpu, dtype: str, limits: Mapping[str, Quantity]) -> Quantity:
    return limits.get("peak") or gpu.peak_flops(dtype)
