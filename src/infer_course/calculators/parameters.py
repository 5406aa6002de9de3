"""Parameters, and the bytes that a decode step reads: dense, mixture of experts, MLA."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, curve, powers, show
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.units import Quantity

FIELDS = (
    *choices.model_fields("qwen3-30b-a3b"),
    Field("batch", "Batch", "16", low=1, high=10**6, hint="tokens computed together"),
    Field("context", "Context", "2048", low=0, high=10**8, hint="cached tokens of each request"),
    choices.weight_field(),
    choices.kv_field(),
    *choices.gpu_fields(),
)


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    model, gpu, batch, context = choices.model_of(values), choices.gpu_of(values), values["batch"], values["context"]
    width, kv = choices.FORMATS[values["weights"]][1], choices.KV_FORMATS[values["kv"]][1]
    every, active = sheet.work(c.parameters, model), sheet.work(c.active_parameters, model)
    stored = sheet.work(c.weight_bytes, model, width)
    read = sheet.work(c.decode_step_bytes, model, batch, context, width, kv)
    weights = c.decode_weight_bytes(model, width, tokens=batch)
    sheet.answer("A decode step reads", read, "GB", ".4g", note=f"{show(weights)} of weights and {show(read - weights)} of cache")
    sheet.answer("Parameters", _billions(every), note=f"{every.value:,}")
    if model.experts:
        share = (active / every).to("%").format(".1f")
        sheet.answer("Active for a token", _billions(active), note=f"{share} of all")
        hit = sheet.work(c.distinct_experts, model, batch)
        note = f"of {model.experts.num_experts} in a layer, on average, if the router spreads {batch:,} tokens evenly"
        sheet.answer("Experts read", f"{float(hit):.4g}", note=note)
        part = (weights / c.decode_weight_bytes(model, width, tokens=10**6)).to("%").format(".0f")
        sheet.verdict = (
            f"Of {choices.title_of(model.name)}’s {_billions(every)} parameters a token meets {_billions(active)}, "
            f"but a step of {batch:,} tokens reads {part} of the weights."
        )
        sheet.notes.append("Real routers are skewed: fewer distinct experts are hit, and those on the busiest GPU set the pace.")
    else:
        sheet.verdict = f"A dense model reads all its matrices in every step, whatever the batch: {show(weights)} for {batch:,} tokens."
    sheet.answer("Weights at rest", stored, "GiB", ".4g", note=show(stored))
    sheet.answer(
        "Time on this card", (read / gpu.bandwidth).to("s"), note=f"at least, at {gpu.bandwidth.to('GB/s').format(',.0f')} of {gpu.name}"
    )
    if model.latent:
        sheet.notes.append("Extra heads for multi-token prediction are not counted; DeepSeek-V3 publishes them apart (11.5 B).")
    if values["weights"] == "int4":
        sheet.notes.append(
            "4-bit is taken for every matrix here; what formats really leave at 16 bits is in the calculator of quantized sizes."
        )
    _plot(sheet, model, batch, context, width, kv)


def _billions(value: Quantity) -> str:
    number = float(value)
    return f"{number / 1e9:.4g} B" if number >= 1e9 else f"{number / 1e6:.4g} M"


def _plot(sheet: Sheet, model: Any, batch: int, context: int, width: float, kv: float) -> None:
    batches = powers(1, max(512, 2 * batch))
    gigabyte = 1e9
    total = curve(batches, lambda b: c.decode_step_bytes(model, int(b), context, width, kv).base / gigabyte)
    weights = curve(batches, lambda b: c.decode_weight_bytes(model, width, tokens=int(b)).base / gigabyte)
    here = c.decode_step_bytes(model, batch, context, width, kv).base / gigabyte
    lines = (
        Line("weights", "limit", *weights),
        Line("weights and cache", "predicted", *total),
        Line(f"you: {here:.4g} GB", "predicted", (float(batch),), (here,)),
    )
    sheet.plot = Plot("Bytes that a decode step reads, by its batch", "batch", "GB a step", lines, True, True)
    sheet.see = (
        "A mixture reads more of its experts until the batch hits all of them."
        if model.experts
        else "Weights are shared by the batch; the cache is not."
    )
