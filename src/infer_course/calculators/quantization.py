"""Sizes of quantized models: weights with their groups' scales, and the cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, at, show
from infer_lab import calculator as c
from infer_lab.units import Quantity

OWN = ("format", ("own",))
# name, bits, group, scale bits, zero bits, what it is
FORMATS: Mapping[str, tuple[str, float, int, float, float, str]] = {
    "bf16": ("BF16", 16, 0, 0, 0, "as released"),
    "fp8": ("FP8, a scale a channel", 8, 0, 0, 0, "scales are under 0.1 %"),
    "fp8-block": ("FP8, blocks of 128 × 128", 8, 16_384, 32, 0, "DeepSeek-V3’s release"),
    "awq": ("INT4, groups of 128", 4, 128, 16, 4, "AWQ and GPTQ: FP16 scale, 4-bit zero point"),
    "int4-sym": ("INT4 symmetric, groups of 128", 4, 128, 16, 0, "FP16 scale, no zero point"),
    "mxfp4": ("MXFP4", 4, 32, 8, 0, "a power-of-two scale for 32"),
    "nvfp4": ("NVFP4", 4, 16, 8, 0, "an FP8 scale for 16"),
    "q8_0": ("GGUF Q8_0", 8, 32, 16, 0, "FP16 scale for 32"),
    "q4_1": ("GGUF Q4_1", 4, 32, 16, 16, "FP16 scale and minimum for 32"),
}
FIELDS = (
    *choices.model_fields("llama-3-8b"),
    Field("format", "Format", "awq", "choice", options=(*((key, row[0]) for key, row in FORMATS.items()), ("own", "Your own …"))),
    Field("bits", "Bits a weight", "4", "number", low=1, high=32, when=OWN),
    Field("group", "Group size", "128", low=1, high=10**6, hint="weights that share a scale", when=OWN),
    Field("scale", "Scale bits", "16", "number", low=0, high=64, when=OWN),
    Field("zero", "Zero-point bits", "0", "number", low=0, high=64, hint="or of a minimum", when=OWN),
    Field("embeddings", "Embedding and LM head", "kept", "choice", options=(("kept", "stay at 16 bits"), ("quantized", "quantized too"))),
    Field("tokens", "Cached tokens", "131072", low=0, high=10**10, hint="over all requests"),
    choices.kv_field(),
    *choices.gpu_fields(),
    choices.tp_field(),
    choices.util_field(),
)


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    model, gpu, tp = choices.model_of(values), choices.gpu_of(values), int(values["tp"])
    name, bits, group, scale, zero, _ = FORMATS.get(values["format"]) or (
        "your format",
        values["bits"],
        values["group"],
        values["scale"],
        values["zero"],
        "",
    )
    heads = int(values["embeddings"] == "quantized")
    each = sheet.work(c.bits_per_weight, bits, group, scale, zero)
    size = sheet.work(c.quantized_weight_bytes, model, bits, group, scale, zero, heads)
    width = choices.KV_FORMATS[values["kv"]][1]
    with at("tp"):
        cache = sheet.work(c.kv_bytes, model, values["tokens"], width, tp)
    on_each = size / tp
    before = c.weight_bytes(model)
    mean = 8 * size.base / c.parameters(model).base
    sheet.answer("Weights", size, "GB", ".4g", note=f"{show(size, 'GiB', '.4g')}; BF16 takes {show(before, 'GB', '.4g')}")
    sheet.answer("Bits a quantized weight", f"{float(each):.4g}", note=f"{mean:.3g} over the whole model")
    gain = _decode_gain(model, each, before - size, bool(heads))
    sheet.answer("Smaller by", before / size, "x", ".3g", note=f"than BF16; decode at batch 1 gains at most {gain:.3g}×")
    sheet.answer("Cache", cache, "GiB", ".4g", note=f"{values['tokens']:,} tokens{' on each GPU' if tp > 1 else ''}")
    room = values["util"] * gpu.driver_memory.to("B")
    free = room - on_each - cache
    if free < Quantity(0, "B"):
        sheet.refused = (
            f"Does not fit {tp} × {gpu.name}: {show(on_each + cache)} on each, and {values['util']:g} of its memory is {show(room)}."
        )
    else:
        sheet.verdict = (
            f"{name}: {show(size)} of weights, {show(free)} still free on {'each of ' + str(tp) + ' GPUs' if tp > 1 else gpu.name}."
        )
    table = 2 * model.vocab_size * model.hidden_size * (1 if model.tie_word_embeddings else 2)
    if not heads and bits < 16:
        sheet.notes.append(
            f"Embedding and LM head stay at 16 bits: {show(Quantity(table, 'B'))}, {table / size.base:.0%} of the quantized model."
        )
    if tp > 1 and not heads:
        sheet.notes.append("Embedding and LM head are taken as split over the GPUs, as engines do.")
    sheet.table = _table(model, gpu, tp, heads, cache, room, values["format"])


def _decode_gain(model: Any, bits: Quantity, saved: Quantity, heads: bool) -> float:
    """Bytes that a decode step of one token reads in BF16, over those that it reads quantized: no embedding table, no idle expert."""
    read = c.decode_weight_bytes(model).base
    idle = c.parameters(model).base - c.active_parameters(model).base
    table = model.vocab_size * model.hidden_size if heads and not model.tie_word_embeddings else 0
    return read / (read - saved.base + (idle + table) * (2 - bits.base / 8))


def _table(
    model: Any, gpu: Any, tp: int, heads: int, cache: Quantity, room: Quantity, chosen: str
) -> tuple[str, tuple[str, ...], list[tuple[str, ...]]]:
    rows = []
    for key, (name, bits, group, scale, zero, what) in FORMATS.items():
        size = c.quantized_weight_bytes(model, bits, group, scale, zero, heads)
        floor = (size / tp / gpu.bandwidth).to("ms")
        fits = "yes" if size / tp + cache <= room else "no"
        mark = "→ " if key == chosen else ""
        rows.append(
            (
                f"{mark}{name}",
                f"{c.bits_per_weight(bits, group, scale, zero).value:.4g}",
                show(size, "GB", ".4g"),
                floor.format(".3g"),
                fits,
                what,
            )
        )
    head = ("format", "bits a weight", "weights", f"read on {'each' if tp > 1 else 'the'} card in", "fits with the cache", "what it is")
    return "The same model in the usual formats", head, rows
