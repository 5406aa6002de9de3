from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab.presets import PRESETS, preset

models = st.sampled_from(sorted(PRESETS.values(), key=lambda m: m.name))


@pytest.mark.parametrize(
    ("bits", "group", "scale", "zero", "effective"),
    [
        (4, 128, 16, 4, 4.15625),  # AWQ, GPTQ: fp16 scale and 4-bit zero point
        (4, 128, 16, 0, 4.125),  # symmetric
        (4, 32, 16, 16, 5.0),  # GGUF Q4_1: fp16 scale and minimum for 32
        (8, 32, 16, 0, 8.5),  # GGUF Q8_0
        (4, 32, 8, 0, 4.25),  # MXFP4: one E8M0 scale for 32
        (4, 16, 8, 0, 4.5),  # NVFP4: one FP8 scale for 16
        (8, 128 * 128, 32, 0, 8.001953125),  # DeepSeek-V3: fp32 for a 128 × 128 block
    ],
    ids=["awq", "symmetric", "q4_1", "q8_0", "mxfp4", "nvfp4", "deepseek"],
)
def test_bits_a_weight_of_known_formats(bits: int, group: int, scale: int, zero: int, effective: float) -> None:
    assert c.bits_per_weight(bits, group, scale, zero).value == effective


def test_smollm2_in_q4_1_is_the_size_of_its_file() -> None:
    """The released file: 66.4 MB in 210 Q4_1 matrices, 30.1 MB of Q8_0 embedding, 61 float32 norms; 98,362,432 B with its tokenizer."""
    model = preset("smollm2-135m")
    layers = c.quantized_weight_bytes(model, 4, 32, 16, 16, kept_bytes=0)
    table = model.vocab_size * model.hidden_size * c.bits_per_weight(8, 32).value / 8
    norms = (2 * model.num_layers + 1) * model.hidden_size * 4
    assert round(layers.value / 1e6, 1) == 66.4 and round(table / 1e6, 1) == 30.1
    assert 0 < 98_362_432 - (layers.value + table + norms) < 2e6


def test_llama_8b_at_4_bits_is_5_7_gb_of_which_2_are_not_4_bits() -> None:
    model = preset("llama-3-8b")
    assert c.quantized_weight_bytes(model, 4, 128, 16, 4).to("GB").value == pytest.approx(5.73, abs=0.01)
    assert c.quantized_weight_bytes(model, 4, 128, 16, 4, quantize_embeddings=1).to("GB").value == pytest.approx(4.17, abs=0.01)


@given(models, st.sampled_from([0, 1]))
def test_16_bits_without_scales_is_the_model_as_it_was(model, embeddings: int) -> None:
    assert c.quantized_weight_bytes(model, 16, 0, quantize_embeddings=embeddings).value == c.weight_bytes(model).value


@given(models, st.sampled_from([2, 3, 4, 8]), st.sampled_from([16, 32, 128]))
def test_smaller_groups_and_more_bits_take_more(model, bits: int, group: int) -> None:
    size = c.quantized_weight_bytes(model, bits, group).value
    assert c.quantized_weight_bytes(model, bits, 2 * group).value < size < c.quantized_weight_bytes(model, bits + 1, group).value
