"""Quantized models on disk, from every kind of checkpoint; and the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import pytest
from safetensors.torch import load_file, save_file
from typer.testing import CliRunner

from infer_lab import LLM, SamplingParams
from infer_lab.cli import app
from infer_lab.errors import CheckpointError
from infer_lab.models import gguf_checkpoint
from tests.models.hf_models import make
from tests.models.tiny_gguf import write_tiny_gguf

PROMPT = [3, 14, 15, 92, 6, 53]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("INFER_LAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "quantized"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf", kind=gguf.GGMLQuantizationType.Q8_0)


def tokens(model: Path, quantization: str | None = "w8a16", **options: Any) -> tuple[int, ...]:
    with LLM(str(model), device="cpu", dtype="float32", quantization=quantization, num_kv_blocks=8, **options) as llm:
        (output,) = llm.generate([PROMPT], SamplingParams(max_tokens=24, ignore_eos=True), progress=False)
    return output.token_ids


def never_read(*_: object) -> None:
    raise AssertionError("the checkpoint's weights were read")


@pytest.mark.parametrize("scheme", ["w8a16", "fp8", "int8"])
def test_a_cached_model_gives_the_same_tokens_without_reading_the_checkpoint(
    scheme: str, checkpoint: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tokens(checkpoint, scheme)
    assert [path.suffix for path in own_cache.iterdir()] == [".safetensors"]
    monkeypatch.setattr(gguf_checkpoint, "dequantize", never_read)
    assert tokens(checkpoint, scheme) == first


def test_schemes_groups_and_dtypes_have_files_of_their_own(checkpoint: Path, own_cache: Path) -> None:
    tokens(checkpoint, "w8a16")
    tokens(checkpoint, "w8a16", quantization_group=32)
    tokens(checkpoint, "int8")
    assert len(list(own_cache.iterdir())) == 3


def test_a_changed_checkpoint_is_quantized_again(checkpoint: Path, own_cache: Path) -> None:
    first = tokens(checkpoint)
    write_tiny_gguf(checkpoint, kind=gguf.GGMLQuantizationType.Q8_0, seed=1)
    assert tokens(checkpoint) != first
    assert len(list(own_cache.iterdir())) == 2


def test_without_the_cache_nothing_is_written(checkpoint: Path, own_cache: Path) -> None:
    tokens(checkpoint, quantization_cache=False)
    assert not own_cache.exists()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def flip_one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1000] ^= 4
    path.write_bytes(data)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def leave_out_a_tensor(path: Path) -> None:
    tensors = load_file(path)
    tensors.popitem()
    save_file(tensors, path)


@pytest.mark.parametrize("damage", [cut, flip_one_bit, empty, leave_out_a_tensor])
def test_a_damaged_cache_is_said_and_made_again(damage, checkpoint: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = tokens(checkpoint)
    (path,) = own_cache.iterdir()
    whole = path.read_bytes()
    damage(path)
    capsys.readouterr()
    assert tokens(checkpoint) == first
    assert "is damaged" in capsys.readouterr().err
    assert path.read_bytes() == whole and list(own_cache.iterdir()) == [path]


def test_a_cache_that_cannot_be_written_is_no_error(checkpoint: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own_cache.parent.mkdir()
    own_cache.write_text("a file where the folder should be")
    assert len(tokens(checkpoint)) == 24
    assert "could not be kept" in capsys.readouterr().err


def test_a_broken_checkpoint_leaves_no_cache(tmp_path: Path, own_cache: Path) -> None:
    make("llama", tmp_path)
    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    weights["model.layers.1.mlp.up_proj.weight"][0, 0] = float("nan")
    save_file(weights, path)
    with pytest.raises(CheckpointError, match=r"layers.1.mlp.up_proj.weight holds NaN"):
        tokens(tmp_path, "int8")
    assert not own_cache.exists()


@pytest.mark.parametrize("kind", ["qwen2", "qwen3-tied-mqa"])
def test_a_sharded_folder_is_quantized_like_one_in_a_piece(kind: str, tmp_path: Path) -> None:
    whole, sharded = tmp_path / "whole", tmp_path / "sharded"
    make(kind, whole)
    make(kind, sharded, max_shard_size="40KB")
    assert len(list(sharded.glob("*.safetensors"))) > 3
    first = tokens(whole, "int8")
    assert tokens(sharded, "int8") == first
    assert tokens(sharded, "int8") == first  # out of the cache


def test_the_command_line_takes_a_scheme(own_cache: Path) -> None:
    arguments = ["generate", "1 2 3", "--token-ids", "--model", "dummy:smollm2-135m", "--device", "cpu", "--max-tokens", "2"]
    done = CliRunner().invoke(app, [*arguments, "--ignore-eos", "--quantization", "w4a16"])
    assert done.exit_code == 0 and len(done.stdout.split()) >= 2
    assert not own_cache.exists()  # random weights come faster than a file is read


@pytest.mark.model
def test_smollm2_answers_like_the_float_model(smollm2: LLM, monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    """w8a16: equal from the first token on; the number of equal tokens is reported."""
    monkeypatch.undo()  # the checkpoint lies in the user's own cache
    question, params = [{"role": "user", "content": "What is the capital of France?"}], SamplingParams(max_tokens=12)
    expected = smollm2.chat(question, params)[0].token_ids
    with LLM("smollm2", device="cpu", dtype="float32", quantization="w8a16", quantization_cache=False, num_kv_blocks=16) as llm:
        found = llm.chat(question, params)[0].token_ids
    equal = next((i for i, (a, b) in enumerate(zip(found, expected, strict=False)) if a != b), len(expected))
    record_property("equal_tokens", f"{equal} of {len(expected)}")
    assert equal >= 5
