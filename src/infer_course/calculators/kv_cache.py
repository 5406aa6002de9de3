"""KV cache and concurrency: bytes a token, bytes a request, requests that fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from infer_course.calculators import choices
from infer_course.calculators.fields import Field
from infer_course.calculators.sheet import Sheet, at, curve, powers, show
from infer_course.plot import Line, Plot
from infer_lab import calculator as c
from infer_lab.errors import DoesNotFitError

FIELDS = (
    *choices.model_fields(),
    Field("tokens", "Tokens a request", "4096", low=1, high=10**8, hint="prompt and output together; 128K is 131,072"),
    choices.kv_field(),
    *choices.gpu_fields(),
    choices.weight_field(),
    choices.tp_field(),
    Field("block", "Block size", "16", low=1, high=65_536, hint="tokens; a request takes whole blocks", more=True),
    Field("scale", "Scale bytes", "0", low=0, high=64, hint="per token and head; 0 with one scale a layer", more=True),
    choices.util_field(),
    choices.overhead_field(),
)


def fill(sheet: Sheet, values: Mapping[str, Any]) -> None:
    model, gpu, tp, tokens = choices.model_of(values), choices.gpu_of(values), int(values["tp"]), values["tokens"]
    width, each = choices.KV_FORMATS[values["kv"]][1], choices.FORMATS[values["weights"]][1]
    block, scale = values["block"], values["scale"]
    with at("tp"):
        per_token = sheet.work(c.kv_bytes_per_token, model, width, tp, scale)
    request = sheet.work(c.kv_bytes_per_request, model, tokens, width, tp, block, scale)
    on_gpu = " on each GPU" if tp > 1 else ""
    shared = {"util": values["util"], "bytes_per_element": each, "kv_bytes_per_element": width, "tp": tp, "overhead": values["overhead"],
              "driver": 1, "block_size": block, "scale_bytes": scale}  # fmt: skip
    try:
        fits = sheet.work(c.max_concurrency, gpu, model, tokens, **shared)
        budget = c.kv_budget(gpu, model, values["util"], each, tp, values["overhead"], 1)
        count = int(fits)
        sheet.answer("Requests at once", f"{count:,}", note=f"of {tokens:,} tokens each, all at that length")
    except DoesNotFitError as error:
        budget, count, sheet.refused = None, 0, str(error)
    sheet.answer("One token", per_token, "KiB" if per_token.value >= 1024 else "", note=f"{show(per_token)}{on_gpu}")
    sheet.answer("One request", request, "GiB" if request.base >= 2**29 else "MiB", ".4g", note=f"{show(request)}{on_gpu}")
    if budget is not None:
        held = c.max_cached_tokens(gpu, model, values["util"], each, width, tp, values["overhead"], 1, scale)
        sheet.answer("Left for the cache", budget, "GiB", ".1f", note=f"{held.value:,} tokens{on_gpu}, {show(budget)}")
        if count == 0:
            sheet.refused = f"Not even one request of {tokens:,} tokens fits: it takes {show(request)} and {show(budget)} are left."
        else:
            sheet.verdict = f"{count:,} requests of {tokens:,} tokens fit beside {choices.title_of(model.name)} on {_cards(gpu, tp)}."
    _remarks(sheet, model, tp, tokens, values)
    _plot(sheet, model, gpu, shared, tokens, count, values["kv"])


def _cards(gpu: Any, tp: int) -> str:
    return f"{tp} × {gpu.name}" if tp > 1 else f"one {gpu.name}"


def _remarks(sheet: Sheet, model: Any, tp: int, tokens: int, values: Mapping[str, Any]) -> None:
    group = model.num_heads // model.num_kv_heads
    if model.latent:
        sheet.notes.append(
            f"MLA caches one latent of {model.mla_latent_dim} elements a layer for all {model.num_heads} heads"
            + (f"; each of the {tp} GPUs keeps all of it." if tp > 1 else ".")
        )
    elif group > 1:
        sheet.notes.append(
            f"{model.num_heads} query heads share {model.num_kv_heads} KV heads. Counting query heads overstates it {group} times."
        )
    if not model.latent and tp > model.num_kv_heads:
        sheet.warnings.append(f"{tp} GPUs share {model.num_kv_heads} KV heads: heads are copied, and the cache on each no longer shrinks.")
    if model.num_windowed_layers:
        sheet.notes.append(
            f"{model.num_windowed_layers} of {model.num_layers} layers look back {model.sliding_window:,} tokens and keep no more. "
            "An engine that keeps every token in every layer needs the full size."
        )
    if values["model"] != choices.CUSTOM and tokens > model.max_model_len:
        sheet.warnings.append(
            f"{choices.title_of(model.name)} is made for {model.max_model_len:,} tokens; longer needs a change to its RoPE."
        )


def _plot(sheet: Sheet, model: Any, gpu: Any, shared: dict[str, Any], tokens: int, count: int, kv: str) -> None:
    def fitting(width: float):
        def requests(n: float) -> float | None:
            found = int(c.max_concurrency(gpu, model, int(n), **{**shared, "kv_bytes_per_element": width}))
            return found or None

        return requests

    lengths = powers(256, max(131_072, 2 * tokens))
    lines = []
    for key, (name, width) in choices.KV_FORMATS.items():
        if key in (kv, "fp8" if kv == "bf16" else "bf16"):
            lines.append(Line(f"{name} cache", "predicted" if key == kv else "limit", *curve(lengths, fitting(width))))
    lines = [line for line in lines if len(line.x) > 1]
    if not lines:
        return
    if count:
        lines.append(Line(f"you: {count:,}", "predicted", (float(tokens),), (float(count),)))
    sheet.plot = Plot("Requests that fit, by their length", "tokens a request", "requests at once", tuple(lines), True, True)
    sheet.see = "Twice the length, half the requests: the cache holds tokens, not requests."
