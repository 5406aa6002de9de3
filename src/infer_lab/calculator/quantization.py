"""Sizes of quantized weights: bits a weight with its group's scale and zero point, and the bytes of a whole model.

"4-bit" is never 4 bits: a group of `group_size` weights shares a scale (and often a zero point or minimum), and embedding, LM head and
norms usually stay as they were.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import positive
from infer_lab.calculator.weights import Shape, parameters
from infer_lab.config import ModelConfig
from infer_lab.errors import UserError
from infer_lab.formulas import Worked, formula
from infer_lab.units import Number, Quantity


@formula("{bits} + ({scale_bits} + {zero_bits}) / {group_size}")
def bits_per_weight(bits: Number, group_size: int = 128, scale_bits: Number = 16, zero_bits: Number = 0) -> Worked:
    """Bits that one quantized weight takes with its part of the group's scale and zero point. group_size 0: no groups, no scales."""
    positive(bits, "bits")
    if group_size < 0 or scale_bits < 0 or zero_bits < 0:
        raise UserError("group_size, scale_bits and zero_bits are at least 0")
    inputs = {"bits": bits, "scale_bits": scale_bits, "zero_bits": zero_bits, "group_size": group_size}
    if group_size == 0:
        return Worked(Quantity(bits), inputs, "{bits}")
    return Worked(Quantity(bits + (scale_bits + zero_bits) / group_size), inputs)


@formula("{quantized} · {bits} / 8 + {kept} · {kept_bytes}")
def quantized_weight_bytes(
    model: ModelConfig,
    bits: Number,
    group_size: int = 128,
    scale_bits: Number = 16,
    zero_bits: Number = 0,
    quantize_embeddings: int = 0,
    kept_bytes: Number = 2,
) -> Worked:
    """Bytes of a model whose layers' matrices are quantized; the rest keeps `kept_bytes` an element.

    quantize_embeddings=1 takes embedding table and LM head too. Norms, biases and MoE routers are always kept.
    """
    shape, every = Shape.of(model), int(parameters(model))
    n = model.experts.num_experts if model.experts else 0
    quantized = (
        model.num_layers * shape.attention_matrices
        + shape.dense_layers * shape.ffn
        + shape.expert_layers * (n * shape.expert + shape.shared)
    )
    if quantize_embeddings:
        quantized += shape.table * (1 if model.tie_word_embeddings else 2)
    each = bits_per_weight(bits, group_size, scale_bits, zero_bits)
    value = quantized * each.base / 8 + (every - quantized) * kept_bytes
    inputs = {"quantized": quantized, "bits": each, "kept": every - quantized, "kept_bytes": kept_bytes}
    return Worked(Quantity(int(value) if float(value).is_integer() else value, "B"), inputs)
