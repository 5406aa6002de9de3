"""Fields that several calculators share: model, card, number formats. Presets are the library's own, which the cards' numbers use too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from infer_course.calculators.fields import Field
from infer_lab import calculator as c
from infer_lab.config import ModelConfig
from infer_lab.hardware import GPUS, Gpu
from infer_lab.presets import PRESETS
from infer_lab.units import Quantity

CUSTOM = "custom"
_FAMILIES = {"llama": "Llama", "mistral": "Mistral", "mixtral": "Mixtral", "gemma": "Gemma", "deepseek": "DeepSeek", "smollm2": "SmolLM2"}
FORMATS = {
    "bf16": ("BF16", 2),
    "fp8": ("FP8", 1),
    "int4": ("4-bit, groups of 128", c.bits_per_weight(4, 128, 16, 4).value / 8),
}
KV_FORMATS = {"bf16": ("BF16", 2), "fp8": ("FP8", 1), "int4": ("4-bit", 0.5)}


def title_of(model: str) -> str:
    """`qwen3-30b-a3b` → `Qwen3-30B-A3B`."""
    words = []
    for word in model.split("-"):
        if re.fullmatch(r"[\dax.]+[bm]", word):
            words.append(word.upper().replace("X", "x"))
        else:
            words.append(_FAMILIES.get(word, word if word.startswith("v0") else word.capitalize()))
    return "-".join(words)


def model_fields(default: str = "llama-3-8b", only: tuple[str, ...] = ()) -> tuple[Field, ...]:
    """The model, and the shape of one's own where "custom" is chosen."""
    names = only or tuple(PRESETS)
    options = (*((name, title_of(name)) for name in names), *(() if only else ((CUSTOM, "Your own shape …"),)))
    choice = Field("model", "Model", default, "choice", options=options)
    if only:
        return (choice,)
    shape = (
        ("layers", "Layers", "32", 1000, ""),
        ("hidden", "Hidden size", "4096", 10**6, ""),
        ("ffn", "FFN width", "14336", 10**6, "of one gated FFN"),
        ("heads", "Query heads", "32", 4096, ""),
        ("kv_heads", "KV heads", "8", 4096, "num_key_value_heads: not the query heads"),
        ("head_dim", "Head dimension", "128", 4096, ""),
        ("vocab", "Vocabulary", "128256", 10**7, ""),
    )
    own = (
        Field(name, label, default, low=1, high=high, hint=hint, when=("model", (CUSTOM,))) for name, label, default, high, hint in shape
    )
    return (choice, *own)


def model_of(values: Mapping[str, Any]) -> ModelConfig:
    if values["model"] != CUSTOM:
        return PRESETS[values["model"]]
    names = ("layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab")
    return ModelConfig("your model", "llama", *(values[name] for name in names), max_model_len=10**7)


def gpu_fields(default: str = "h100_80gb") -> tuple[Field, ...]:
    options = (*((gpu.key, gpu.name) for gpu in GPUS.values()), (CUSTOM, "Your own card …"))
    own = ("gpu", (CUSTOM,))
    return (
        Field("gpu", "GPU", default, "choice", options=options),
        Field("memory", "Memory", "80", "amount", "GB", low=0.1, high=10_000, when=own),
        Field("bandwidth", "Bandwidth", "3350", "amount", "GB/s", low=1, high=1e6, when=own),
        Field("peak", "Dense BF16 peak", "989", "amount", "TFLOP/s", low=0.01, high=1e6, when=own),
    )


def gpu_of(values: Mapping[str, Any]) -> Gpu:
    if values["gpu"] != CUSTOM:
        return GPUS[values["gpu"]]
    peak = MappingProxyType({"bf16": values["peak"], "fp16": values["peak"]})
    memory, nothing = values["memory"], Quantity(0, "B")
    return Gpu(CUSTOM, "your card", memory, memory.to("B"), values["bandwidth"], peak, nothing, 0, nothing, "", "", "")


def tp_field(default: str = "1", more: bool = False) -> Field:
    options = tuple((str(n), str(n)) for n in (1, 2, 4, 8, 16, 32))
    return Field("tp", "Tensor parallel", default, "choice", options=options, hint="GPUs that hold one copy together", more=more)


def weight_field(default: str = "bf16") -> Field:
    return Field("weights", "Weights", default, "choice", options=tuple((key, name) for key, (name, _) in FORMATS.items()))


def kv_field(default: str = "bf16") -> Field:
    return Field("kv", "KV cache", default, "choice", options=tuple((key, name) for key, (name, _) in KV_FORMATS.items()))


def util_field() -> Field:
    return Field(
        "util", "Memory share", "0.92", "share", low=0.01, high=1, hint="of what the driver reports: gpu_memory_utilization", more=True
    )


def overhead_field() -> Field:
    return Field(
        "overhead",
        "Set aside",
        "0",
        "amount",
        "GB",
        high=10_000,
        hint="activations, CUDA graphs, buffers: engines measure 1 to 5",
        more=True,
    )


def compute_dtype(gpu: Gpu, weights: str) -> str:
    """FP8 weights multiply in FP8 where the card can; 4-bit weights are widened to 16 bits first."""
    return "fp8" if weights == "fp8" and "fp8" in gpu.peak else "bf16"
