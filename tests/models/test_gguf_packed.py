"""GGUF files that run as they are stored: the same numbers as when they are dequantized, at the bytes that the file has."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from infer_lab import LLM, EngineConfig, SamplingParams
from infer_lab.calculator import quantized_weight_bytes
from infer_lab.engine.build import LoadedModel, load_model
from infer_lab.errors import CheckpointError, QuantizationError, UnsupportedOptionError
from infer_lab.models import gguf_checkpoint
from infer_lab.models.gguf_checkpoint import open_gguf
from infer_lab.quant.stored import StoredLinear
from tests.models.forward import all_logits
from tests.models.tiny_gguf import LAYERS, write_tiny_gguf

Q = gguf.GGMLQuantizationType
PACKED = [Q.Q4_1, Q.Q8_0]
BITS = {Q.Q4_1: 5.0, Q.Q8_0: 8.5}
PROMPT = [3, 14, 15, 92, 6, 53, 1, 2]


def load(path: Path, quantization: str | None = "gguf", dtype: str = "float32") -> LoadedModel:
    return load_model(EngineConfig(str(path), device="cpu", dtype=dtype, quantization=quantization))


def layers(loaded: LoadedModel) -> list[StoredLinear]:
    return [module for module in loaded.model.modules() if isinstance(module, StoredLinear)]


def own_bytes(loaded: LoadedModel) -> int:
    """All that a forward pass reads; split-K's counters, which are no weights, left out. A tied head counts once."""
    return sum({tensor.data_ptr(): tensor.nbytes for tensor in loaded.model.state_dict().values()}.values())


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_logits_are_those_of_the_dequantized_file(tmp_path: Path, kind: Q, architecture: str) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture=architecture, kind=kind)
    stored = load(path)
    assert len(layers(stored)) == 4 * LAYERS
    ours, theirs = all_logits(stored, PROMPT, 3), all_logits(load(path, None), PROMPT)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
def test_not_a_bit_of_a_weight_is_changed(tmp_path: Path, kind: Q) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", architecture="qwen2", kind=kind)
    theirs = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors}
    block = next(module for name, module in load(path).model.named_modules() if name == "layers.1.mlp.gate_up")
    assert isinstance(block, StoredLinear)
    expected = np.concatenate([theirs["blk.1.ffn_gate.weight"], theirs["blk.1.ffn_up.weight"]])
    assert np.array_equal(block.dequantized().numpy(), expected)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", PACKED, ids=lambda kind: kind.name)
def test_bytes_in_memory_are_the_files_and_the_calculators(tmp_path: Path, kind: Q, dtype: str) -> None:
    # rows fill whole blocks of 64 here; tests of small shapes would measure their padding
    loaded = load(write_tiny_gguf(tmp_path / "tiny.gguf", kind=kind, hidden=256, ffn=512), dtype=dtype)
    assert loaded.checkpoint.stored_bits == BITS[kind]
    wanted = quantized_weight_bytes(loaded.config, BITS[kind], group_size=0, kept_bytes=loaded.dtype.itemsize).base
    assert own_bytes(loaded) == pytest.approx(wanted, rel=0.03)
    assert loaded.scheme is not None
    assert loaded.scheme.weight_bytes(loaded.config, loaded.dtype.itemsize, loaded.checkpoint.stored_bits) == round(wanted)


def test_parts_of_a_layer_may_be_stored_differently(tmp_path: Path) -> None:
    kinds = {"attn_v": Q.Q8_0, "attn_k": Q.F16, "ffn_up": Q.F32, "attn_output": Q.BF16}
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.Q4_1, kinds=kinds)
    stored = load(path)
    first = layers(stored)[0]
    assert [type(run).__name__ for run in first.runs] == ["_PackedRows", "_FloatRows", "_PackedRows"]
    ours, theirs = all_logits(stored, PROMPT, 3), all_logits(load(path, None), PROMPT)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


def test_rows_that_fill_no_whole_block_are_padded(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.Q4_1, hidden=96, ffn=160)
    ours, theirs = all_logits(load(path), PROMPT, 3), all_logits(load(path, None), PROMPT)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


def test_answers_are_the_dequantized_models(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.Q8_0)
    tokens = []
    for quantization in (None, "gguf"):
        with LLM(str(path), device="cpu", kv_cache_memory=2**20, quantization=quantization) as llm:
            (output,) = llm.generate([PROMPT], SamplingParams(max_tokens=20, temperature=0.0, ignore_eos=True), progress=False)
        tokens.append(output.token_ids)
    assert tokens[0] == tokens[1]


def test_nothing_is_dequantized_and_nothing_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFER_LAB_CACHE", str(tmp_path / "cache"))
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.Q8_0)
    sound, read = gguf_checkpoint.dequantize, []
    monkeypatch.setattr(gguf_checkpoint, "dequantize", lambda file, tensor, *rest: read.append(tensor.name) or sound(file, tensor, *rest))
    load(path)
    assert read and not [name for name in read if "attn_q" in name or "ffn_down" in name]
    assert not (tmp_path / "cache").exists()


def test_a_scale_that_is_no_number_is_named(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.Q8_0)
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "blk.1.ffn_down.weight")
    with path.open("r+b") as file:
        file.seek(tensor.data_offset + 34)  # the second block's scale
        file.write(np.array([np.inf], dtype=np.float16).tobytes())
    with pytest.raises(CheckpointError, match=r"model\.layers\.1\.mlp\.down_proj\.weight holds NaN or infinity"):
        load(path)


def test_what_is_not_stored_quantized_is_refused(tmp_path: Path) -> None:
    with pytest.raises(QuantizationError, match="is none: take w8a16, w4a16, fp8, int8, or None"):
        LLM("dummy:smollm2-135m", device="cpu", quantization="gguf", kv_cache_memory=2**22)
    with pytest.raises(UnsupportedOptionError, match="int8, gguf, or None; got 'q4'"):
        EngineConfig(quantization="q4")


def test_a_file_of_floats_has_nothing_to_pack_but_runs(tmp_path: Path) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.F16)
    assert open_gguf(path).stored_bits == 16.0
    ours, theirs = all_logits(load(path), PROMPT), all_logits(load(path, None), PROMPT)
    assert torch.allclose(ours, theirs, atol=1e-5)
