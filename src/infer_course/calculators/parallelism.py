"""Parallelism: what each GPU holds, and what the GPUs say to each other in a step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, at, curve, powers, show
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.hardware import LINKS
from infer_lab.units import Quantity

ALGORITHMS = (
    ("ring", c.ring_all_reduce_time),
    ("tree", c.tree_all_reduce_time),
    ("one-shot", c.one_shot_all_reduce_time),
)
FIELDS = (
    *choices.model_fields("llama-3-70b"),
    *choices.gpu_fields(),
    choices.tp_field("8"),
    Field("pp", "Pipeline stages", "1", low=1, high=256),
    Field("ep", "Expert parallel", "1", low=1, high=1024, hint="GPUs that share out the experts of a mixture"),
    Field("tokens", "Tokens a step", "64", low=1, high=10**7, hint="decoding requests, or prompt tokens"),
    Field("context", "Cached tokens", "131072", low=0, high=10**10, hint="over all running requests"),
    choices.weight_field(),
    choices.kv_field(),
    Field("link", "Link", "nvlink4", "choice", options=(*((key, link.name) for key, link in LINKS.items()), ("custom", "Your own …"))),
    Field("rate", "Link bandwidth", "450", "amount", "GB/s", low=0.01, high=1e5, hint="one GPU, one direction", when=("link", ("custom",))),
    Field("latency", "Latency a turn", "3", "amount", "us", high=1e6, hint="launch and wire; an assumption, measure yours"),
    Field("micro", "Microbatches", "4", low=1, high=4096, hint="in flight through the pipeline", more=True),
    choices.util_field(),
)


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    model, gpu = choices.model_of(values), choices.gpu_of(values)
    tp, pp, ep, tokens = int(values["tp"]), values["pp"], values["ep"], values["tokens"]
    width, kv = choices.FORMATS[values["weights"]][1], choices.KV_FORMATS[values["kv"]][1]
    rate = values["rate"] if values["link"] == "custom" else LINKS[values["link"]].bandwidth
    latency = values["latency"]
    with at("tp"):
        per_token = c.kv_bytes_per_token(model, kv, tp)
    with at("ep" if ep > 1 else "pp"):
        weights = sheet.work(c.weight_bytes_per_gpu, model, tp, pp, ep, width)
    stages = -(-model.num_layers // pp) / model.num_layers
    cache = Quantity(per_token.base * values["context"] * stages, "B")
    room = values["util"] * gpu.driver_memory.to("B")
    gpus = max(tp, ep) * pp
    sheet.answer("On each GPU", weights + cache, "GiB", ".4g", note=f"{show(weights)} of weights, {show(cache)} of cache; {gpus} GPUs")
    if (weights + cache) > room:
        sheet.refused = f"Does not fit {gpu.name}: {show(weights + cache)} on each, and {values['util']:g} of its memory is {show(room)}."
    total = Quantity(0.0, "s")
    if tp > 1:
        total = _tensor(sheet, model, tp, tokens, rate, latency)
    if ep > 1:
        total = total + _experts(sheet, model, ep, tokens, rate, latency)
    if pp > 1:
        bubble = sheet.work(c.pipeline_bubble, pp, values["micro"])
        sheet.answer(
            "Pipeline bubble",
            bubble.to("%"),
            "%",
            ".0f",
            note=f"{pp} stages, {values['micro']} microbatches; none with {pp} independent batches in flight",
        )
    if tp > 1:
        step = c.decode_step_floor(gpu, model, tokens, 0, width, kv, tp=tp)
        share = total / (total + step)
        sheet.verdict = (
            f"A step of {tokens:,} tokens spends at least {show(total, '', '.3g')} talking beside {show(step, '', '.3g')} for its weights: "
            f"{share.to('%').format('.0f')} of the two. Reading the cache comes on top."
        )
    elif not sheet.refused:
        sheet.verdict = f"Each of {gpus} GPUs holds {show(weights)} of weights." if gpus > 1 else "One GPU talks to nobody."
    if not model.latent and tp > model.num_kv_heads:
        sheet.warnings.append(f"{tp} GPUs share {model.num_kv_heads} KV heads: each holds a whole head, so the cache shrinks no more.")
    if model.latent and tp > 1:
        sheet.warnings.append(
            "MLA’s latent is not split: every GPU of the group keeps the whole cache. Engines run attention data-parallel here."
        )
    if values["link"] in ("nvlink3", "nvlink4") and max(tp, ep) > 8:
        sheet.warnings.append("More than 8 GPUs usually leave the NVLink domain of one server; take the bandwidth of the network.")
    if tp > 1:
        _plot(sheet, model, tp, tokens, rate, latency)


def _tensor(sheet: Sheet, model: Any, tp: int, tokens: int, rate: Quantity, latency: Quantity) -> Quantity:
    payload = sheet.work(c.tp_payload, model, tokens)
    times = {name: sheet.work(fn, payload, tp, rate, latency) for name, fn in ALGORITHMS}
    best = min(times, key=lambda name: times[name].value)
    count = 2 * model.num_layers
    total = count * times[best]
    sheet.answer("All-reduces", total, "", ".3g", note=f"{count} of {show(payload)}, by {best}: {show(times[best], '', '.3g')} each")
    others = ", ".join(f"{name} {show(time, '', '.3g')}" for name, time in times.items() if name != best)
    sheet.notes.append(f"The other ways to sum {show(payload)} over {tp} GPUs: {others}.")
    return total


def _experts(sheet: Sheet, model: Any, ep: int, tokens: int, rate: Quantity, latency: Quantity) -> Quantity:
    with at("ep"):
        sent = sheet.work(c.all_to_all_bytes, model, max(1, -(-tokens // ep)), ep)
    layers = model.num_layers - model.experts.num_dense_layers
    total = 2 * layers * (latency.to("s") + sent / rate)
    note = f"dispatch and combine in {layers} layers, {show(sent)} a GPU each way, tokens spread evenly"
    sheet.answer("All-to-alls", total, "", ".3g", note=note)
    return total


def _plot(sheet: Sheet, model: Any, tp: int, tokens: int, rate: Quantity, latency: Quantity) -> None:
    sizes = powers(1, max(16_384, 2 * tokens))

    def micros(fn: Any):
        return lambda n: fn(c.tp_payload(model, int(n)), tp, rate, latency).to("us").value

    lines = [Line(name, "predicted", *curve(sizes, micros(fn))) for name, fn in ALGORITHMS]
    floor = curve(sizes, lambda n: (c.all_reduce_factor(tp) * c.tp_payload(model, int(n)) / rate).to("us").value)
    here = min(fn(c.tp_payload(model, tokens), tp, rate, latency).to("us").value for _, fn in ALGORITHMS)
    lines += [Line("bandwidth alone", "limit", *floor), Line(f"you: {here:.3g} µs", "predicted", (float(tokens),), (float(here),))]
    sheet.plot = Plot(f"One all-reduce over {tp} GPUs", "tokens a step", "µs", tuple(lines), True, True)
    sheet.see = "Decode-sized messages cost latency, whatever the bandwidth; prompts cost bandwidth."
