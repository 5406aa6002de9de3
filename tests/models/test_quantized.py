"""Quantized layers and models: how much rounding costs, that the packed bytes are what is computed with, and how many there are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
import torch

from infer_lab.config import ModelConfig
from infer_lab.engine.build import LoadedModel, build_engine
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import DoesNotFitError, QuantizationError, UnsupportedHardwareError, UnsupportedOptionError, UserError
from infer_lab.kernels import _common
from infer_lab.kernels.pack import unpack_weight
from infer_lab.models.checkpoint import Checkpoint
from infer_lab.models.llama import LlamaModel
from infer_lab.quant.linear import QuantizedLinear
from infer_lab.quant.load import LINEARS, load_quantized, require_supported
from infer_lab.quant.scheme import GROUPS, SCHEMES, Scheme
from infer_lab.quant.weight_only import WeightOnlyLinear, dequantize_packed
from tests.models.forward import all_logits

CPU = torch.device("cpu")
# 192 columns: a group of 128 is cut short; 136 rows of qkv fill no whole block
SHAPE = ModelConfig("tiny", "qwen2", 2, 192, 320, 6, 2, 32, 96, 128, qkv_bias=True, tie_word_embeddings=True)
TOKENS = [5, 77, 3, 91, 8, 8, 60, 2, 41, 17]


def layer(scheme: Scheme, columns: int = 192, rows: int = 200, dtype: torch.dtype = torch.float32) -> tuple[QuantizedLinear, torch.Tensor]:
    """A layer of two parts, and the floats that went into it."""
    made = LINEARS[scheme.name](columns, {"a_proj": 72, "b_proj": rows - 72}, dtype=dtype, device=CPU, scheme=scheme)
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(columns)) * 0.05
    slots = made.slots("")
    slots["b_proj.weight"].copy_(weight[72:])  # files need not have them in order
    slots["a_proj.weight"].copy_(weight[:72])
    return made, weight


def relative(value: torch.Tensor, expected: torch.Tensor) -> float:
    return float((value.float() - expected.float()).norm() / expected.float().norm())


@cache
def tiny(name: str | None, dtype: torch.dtype = torch.float32) -> LoadedModel:
    checkpoint = Checkpoint(SHAPE, tensors=None)
    if name is None:
        model = LlamaModel(SHAPE, dtype=dtype, device=CPU)
        model.randomize(3)
        return LoadedModel("tiny", checkpoint, model, CPU, dtype)
    scheme = Scheme.of(name)
    model = load_quantized(checkpoint, scheme, dtype=dtype, device=CPU, seed=3)
    return LoadedModel("tiny", checkpoint, model, CPU, dtype, scheme)


def in_floats(quantized: LoadedModel) -> LoadedModel:
    """The same model with ordinary layers that hold the dequantized weights."""
    model = LlamaModel(SHAPE, dtype=quantized.dtype, device=CPU)
    ours = dict(quantized.model.named_modules())
    kept = quantized.model.state_dict()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            source = ours[name.rpartition(".")[0]]
            if isinstance(source, QuantizedLinear) and name.endswith("weight"):
                parameter.copy_(source.dequantized())
            else:
                parameter.copy_(kept[name])
    return replace(quantized, model=model, scheme=None)


# -- one layer ----------------------------------------------------------------------------------------------------------------


# of normally distributed weights: the step of the grid over sqrt(12), with the largest of a group at the grid's end
@pytest.mark.parametrize(("name", "bound"), [("w8a16", 0.008), ("w4a16", 0.12), ("fp8", 0.03), ("int8", 0.01)])
def test_rounding_costs_no_more_than_the_grid_is_coarse(name: str, bound: float) -> None:
    made, weight = layer(Scheme.of(name))
    error = relative(made.dequantized(), weight)
    assert bound / 4 < error < bound


@pytest.mark.parametrize("name", ["w8a16", "w4a16"])
def test_smaller_groups_cost_less(name: str) -> None:
    errors = []
    for group in GROUPS:
        made, weight = layer(Scheme.of(name, group))
        errors.append(relative(made.dequantized(), weight))
    assert errors == sorted(errors) and errors[0] < errors[-1]


@pytest.mark.parametrize("columns", [64, 192, 256, 448])
@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", ["w8a16", "w4a16"])
def test_reading_packed_bytes_directly_gives_what_unpacking_gives(name: str, group: int, columns: int) -> None:
    made, _ = layer(Scheme.of(name, group), columns)
    assert isinstance(made, WeightOnlyLinear)
    assert torch.equal(dequantize_packed(made.packed), unpack_weight(made.packed).dequantize())


@pytest.mark.parametrize("name", ["w8a16", "w4a16"])
def test_packed_bytes_are_the_same_for_float32_and_bfloat16(name: str) -> None:
    (one, _), (other, _) = layer(Scheme.of(name)), layer(Scheme.of(name), dtype=torch.bfloat16)
    assert all(torch.equal(tensor, dict(other.named_buffers())[key]) for key, tensor in one.named_buffers())


@pytest.mark.parametrize("name", SCHEMES)
def test_a_product_is_near_the_float_layers(name: str) -> None:
    made, weight = layer(Scheme.of(name))
    x = torch.randn(9, 192, generator=torch.Generator().manual_seed(1))
    assert relative(made(x), x @ weight.T) < (0.12 if name == "w4a16" else 0.05)
    assert made(x).dtype == x.dtype and made(x.bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize("name", SCHEMES)
def test_an_all_zero_weight_gives_zeros(name: str) -> None:
    scheme = Scheme.of(name)
    made = LINEARS[name](64, {"a_proj": 64}, dtype=torch.float32, device=CPU, scheme=scheme)
    made.slots("")["a_proj.weight"].copy_(torch.zeros(64, 64))
    assert torch.equal(made(torch.ones(2, 64)), torch.zeros(2, 64))


# -- a model ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["w8a16", "w4a16"])
def test_logits_are_those_of_the_dequantized_model(name: str) -> None:
    quantized = tiny(name)
    assert relative(all_logits(quantized, TOKENS, 4), all_logits(in_floats(quantized), TOKENS)) < 1e-5


@pytest.mark.parametrize("name", ["fp8", "int8"])
def test_rounded_activations_move_logits_a_little(name: str) -> None:
    quantized = tiny(name)
    assert 1e-4 < relative(all_logits(quantized, TOKENS, 4), all_logits(in_floats(quantized), TOKENS)) < 0.1


@pytest.mark.parametrize("name", SCHEMES)
def test_the_packed_bytes_are_what_is_computed_with(name: str) -> None:
    quantized = load_quantized(Checkpoint(SHAPE, tensors=None), Scheme.of(name), dtype=torch.float32, device=CPU, seed=3)
    loaded = replace(tiny(name), model=quantized)
    before = all_logits(loaded, TOKENS)
    for module in quantized.modules():
        if isinstance(module, QuantizedLinear) and "o_proj" in module.parts:
            packed = next(buffer for key, buffer in module.named_buffers() if key in ("data", "weight"))
            packed.view(torch.uint8).zero_()
    assert relative(all_logits(loaded, TOKENS), before) > 0.01


@pytest.mark.parametrize("name", SCHEMES)
def test_a_model_holds_no_second_copy_of_its_weights(name: str) -> None:
    state = tiny(name).model.state_dict()
    floats = {key: value.shape for key, value in state.items() if value.dtype == torch.float32 and value.dim() > 1}
    assert set(floats) == {"embedding", "head"}


@pytest.mark.parametrize("group", [32, 128])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", SCHEMES)
def test_bytes_are_the_calculators(name: str, dtype: torch.dtype, group: int) -> None:
    # a whole block of rows and whole groups in every matrix, as real models have (SmolLM2: 576 columns, its last group half full)
    shape = SHAPE.with_(hidden_size=576, intermediate_size=1536, num_heads=9, num_kv_heads=3, head_dim=64, vocab_size=1000)
    scheme = Scheme.of(name, group)
    model = load_quantized(Checkpoint(shape, tensors=None), scheme, dtype=dtype, device=CPU)
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in (*model.parameters(), *model.buffers())}
    assert sum(storages.values()) == pytest.approx(scheme.weight_bytes(shape, dtype.itemsize), rel=0.03)


# -- refusals -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"quantization": "q4"}, "one of w8a16, w4a16, fp8, int8"),
        ({"quantization": ""}, "one of w8a16, w4a16, fp8, int8"),
        ({"quantization": "w4a16", "quantization_group": 48}, "one of 32, 64, 128"),
        ({"quantization_group": 0}, "one of 32, 64, 128"),
        ({"quantization_cache": "no"}, "True or False"),
    ],
    ids=["scheme", "empty", "group", "group-without-scheme", "cache"],
)
def test_a_configuration_that_cannot_be_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        EngineConfig(**options)  # type: ignore[arg-type]


def test_columns_that_cannot_be_packed_are_refused_with_what_can() -> None:
    with pytest.raises(QuantizationError, match=r"a_proj \+ b_proj reads 96 columns and w4a16 packs 64 together: take w8a16"):
        layer(Scheme.of("w4a16"), columns=96)
    with pytest.raises(QuantizationError, match="w8a16 packs 32 together: take int8 or fp8"):
        layer(Scheme.of("w8a16"), columns=100)
    for name in ("fp8", "int8"):
        layer(Scheme.of(name), columns=100)
    with pytest.raises(QuantizationError, match="could overflow"):
        LINEARS["int8"](140_000, {"a": 1}, dtype=torch.float32, device=torch.device("meta"), scheme=Scheme.of("int8"))


def test_fp8_on_a_chip_without_it_is_refused_with_the_alternative(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_common, "target_of", lambda device: _common.Target("a100", (8, 0), 163 * 1024, 108))
    with pytest.raises(UnsupportedHardwareError, match="INT8"):
        require_supported(Scheme.of("fp8"), torch.device("cuda"))
    require_supported(Scheme.of("int8"), torch.device("cuda"))


def test_an_engine_of_another_scheme_is_refused_for_loaded_weights() -> None:
    with pytest.raises(UserError, match="loaded as w8a16-g128"):
        build_engine(EngineConfig("tiny", device="cpu", quantization="w4a16"), tiny("w8a16"))


def test_a_model_that_fits_only_when_quantized_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from infer_lab.engine import memory
    from infer_lab.presets import preset

    shape = preset("llama-3-8b")
    monkeypatch.setattr(memory, "available_host_memory", lambda: 7 * 10**9)
    memory.check_weights_fit(shape, torch.bfloat16, CPU, Scheme.of("w4a16"))
    with pytest.raises(DoesNotFitError, match="w8a16-g128, but"):
        memory.check_weights_fit(shape, torch.bfloat16, CPU, Scheme.of("w8a16"))
    with pytest.raises(DoesNotFitError, match="quantization such as w4a16"):
        memory.check_weights_fit(shape, torch.bfloat16, CPU)


def test_unknown_schemes_are_named_with_those_that_are() -> None:
    with pytest.raises(UnsupportedOptionError, match="gptq"):
        Scheme.of("gptq")
