"""The GGUF reader against the `gguf` package, and against every way in which a file can be broken."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_gguf import HIDDEN, Q, write_tiny_gguf

from infer_lab import LLM, SamplingParams
from infer_lab.errors import CheckpointError
from infer_lab.models.dequantize import dequantize
from infer_lab.models.gguf_checkpoint import half_split_rows, hf_name, open_gguf
from infer_lab.models.gguf_file import GgufFile

KINDS = [Q.F32, Q.F16, Q.BF16, Q.Q8_0, Q.Q4_1]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_readable_type_equals_the_gguf_package_bit_for_bit(tmp_path: Path, kind: Q) -> None:
    path = write_tiny_gguf(tmp_path / "tiny.gguf", kind=kind)
    file = GgufFile(path)
    theirs = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type) for tensor in gguf.GGUFReader(path).tensors}
    assert theirs.keys() == file.tensors.keys()
    for name, expected in theirs.items():
        assert np.array_equal(dequantize(file, file.tensors[name]).numpy(), expected), name


def test_metadata_becomes_the_model_shape(tiny: Path) -> None:
    config = open_gguf(tiny).config
    assert (config.num_layers, config.num_heads, config.num_kv_heads, config.head_dim) == (2, 4, 2, 16)
    assert config.rms_norm_eps == 1e-5 and config.tie_word_embeddings and not config.qkv_bias and not config.qk_norm


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_model_generates_from_every_readable_type(tmp_path: Path, kind: Q) -> None:
    with LLM(str(write_tiny_gguf(tmp_path / "tiny.gguf", kind=kind)), device="cpu", kv_cache_memory=2**20) as llm:
        (output,) = llm.generate([1, 2, 3], SamplingParams(max_tokens=5))
    assert len(output.token_ids) == 5 and output.finish_reason == "length" and output.text == ""


def test_q_and_k_rows_go_from_interleaved_pairs_to_halves() -> None:
    interleaved = torch.tensor([0, 4, 1, 5, 2, 6, 3, 7]).reshape(8, 1)  # pair i is (i, i + 4): that is what stands side by side
    assert half_split_rows(interleaved, num_heads=1).flatten().tolist() == list(range(8))


def test_rotating_halves_of_reordered_rows_scores_like_rotating_pairs_of_stored_rows() -> None:
    torch.manual_seed(0)
    heads, dim = 3, 8
    q, k = torch.randn(heads * dim), torch.randn(heads * dim)
    angles = torch.arange(dim // 2) * 0.37 + 0.2

    def pairs(x: torch.Tensor) -> torch.Tensor:
        a, b = x.view(heads, dim // 2, 2).unbind(-1)
        return torch.stack((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1).flatten(1)

    def halves(x: torch.Tensor) -> torch.Tensor:
        a, b = half_split_rows(x, heads).view(heads, dim).chunk(2, -1)
        return torch.cat((a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()), -1)

    assert torch.allclose(
        (pairs(q) * k.view(heads, dim)).sum(-1), (halves(q) * half_split_rows(k, heads).view(heads, dim)).sum(-1), atol=1e-5
    )


def test_names_that_are_not_part_of_a_llama_are_not_guessed() -> None:
    assert hf_name("blk.7.ffn_gate.weight") == "model.layers.7.mlp.gate_proj.weight"
    assert hf_name("blk.7.ffn_gate_exps.weight") is None and hf_name("rope_freqs.weight") is None


# -- broken files ------------------------------------------------------------------------------------------------------------


def _error(path: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        LLM(str(path), device="cpu")
    return str(caught.value)


def test_wrong_magic_is_named(tmp_path: Path) -> None:
    path = tmp_path / "not.gguf"
    path.write_bytes(b"PK\x03\x04" + bytes(100))
    assert "begins with b'PK\\x03\\x04'" in _error(path)


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "empty.gguf"
    path.write_bytes(b"")
    assert "not a GGUF file" in _error(path)


def test_an_unknown_version_is_named(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "v9.gguf"
    path.write_bytes(tiny.read_bytes()[:4] + (9).to_bytes(4, "little") + tiny.read_bytes()[8:])
    assert "version 9" in _error(path)


def test_a_file_cut_within_a_tensor_says_where_it_should_end(tmp_path: Path, tiny: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(tiny.read_bytes()[:-100])
    assert "truncated" in _error(path) and str(tiny.stat().st_size - 100) in _error(path)


@settings(max_examples=40, deadline=None)
@given(share=st.floats(0, 1))
def test_a_file_cut_anywhere_is_a_named_error(tiny: Path, share: float) -> None:
    data = tiny.read_bytes()
    path = tiny.with_name("cut.gguf")
    path.write_bytes(data[: int(share * (len(data) - 33))])
    _error(path)


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1), byte=st.integers(0, 255))
def test_a_damaged_byte_in_the_header_never_ends_in_another_exception(tiny: Path, place: float, byte: int) -> None:
    data = bytearray(tiny.read_bytes())
    header = GgufFile(tiny).tensors["token_embd.weight"].start
    data[int(place * (header - 1))] = byte
    path = tiny.with_name("damaged.gguf")
    path.write_bytes(data)
    try:
        LLM(str(path), device="cpu", kv_cache_memory=2**22)
    except ValueError as error:  # UserError: named; a flipped byte may also hit a field that does not matter
        assert type(error).__module__ == "infer_lab.errors", repr(error)


def test_an_unsupported_tensor_type_is_named_with_what_can_be_read(tmp_path: Path) -> None:
    message = _error(write_tiny_gguf(tmp_path / "tiny.gguf", kind=Q.Q5_0))
    assert "Q5_0" in message and "Q4_1" in message and "Q8_0" in message


def test_an_unsupported_architecture_is_named(tmp_path: Path) -> None:
    message = _error(write_tiny_gguf(tmp_path / "tiny.gguf", architecture="mamba"))
    assert "'mamba'" in message and "llama" in message


@pytest.mark.parametrize("name", ["token_embd.weight", "blk.1.ffn_down.weight", "output_norm.weight"])
def test_a_missing_tensor_is_named(tmp_path: Path, name: str) -> None:
    message = _error(write_tiny_gguf(tmp_path / "tiny.gguf", leave_out=name))
    assert (name in message or str(hf_name(name)) in message) and "missing" in message


def test_a_tensor_of_the_wrong_shape_is_named(tmp_path: Path) -> None:
    assert f"({HIDDEN + 32}, 96)" in _error(write_tiny_gguf(tmp_path / "tiny.gguf", wrong_shape="blk.0.ffn_down.weight"))


def test_a_tensor_that_does_not_belong_is_named(tmp_path: Path) -> None:
    assert "blk.0.attn_sinks.weight" in _error(write_tiny_gguf(tmp_path / "tiny.gguf", extra_tensor="blk.0.attn_sinks.weight"))


def test_a_tokenizer_of_another_kind_is_named(tmp_path: Path) -> None:
    assert "'llama'" in _error(write_tiny_gguf(tmp_path / "tiny.gguf", tokenizer_model="llama"))
