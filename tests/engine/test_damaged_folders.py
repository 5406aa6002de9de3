"""A folder that is damaged, or that means something which is not carried out here, is a named error and never another exception, nor a
model that answers nonsense."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_model import write_tiny_model

from infer_lab import LLM, SamplingParams
from infer_lab.errors import CheckpointError, UserError

Q = "model.layers.0.self_attn.q_proj.weight"
LLAMA3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "model"))


def _ask(folder: Path) -> None:
    with LLM(str(folder), device="cpu", kv_cache_memory=2**20) as llm:
        llm.generate("hello", SamplingParams(max_tokens=2))
        llm.chat([{"role": "user", "content": "hi"}], SamplingParams(max_tokens=2))


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_theta": None},
        {"rope_theta": "x"},
        {"rope_theta": 0},
        {"rope_theta": float("nan")},
        {"rope_scaling": "x"},
        {"rope_parameters": [1]},
        {"rope_parameters": LLAMA3 | {"factor": "x"}},
        {"rope_parameters": LLAMA3 | {"high_freq_factor": 1}},
        {"rms_norm_eps": -1},
        {"rms_norm_eps": float("nan")},
        {"num_hidden_layers": float("inf")},
        {"num_hidden_layers": 10**9},
        {"hidden_size": 10**12},
        {"head_dim": 2**40},
        {"head_dim": 2**33},
        {"head_dim": 13},
        {"vocab_size": 10**9},
        {"eos_token_id": "x"},
        {"eos_token_id": ["x"]},
        {"eos_token_id": True},
        {"eos_token_id": {}},
    ],
    ids=str,
)
def test_an_impossible_configuration_is_named(folder: Path, changes: dict[str, object]) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(CheckpointError):
        _ask(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda w: w * float("nan"), "NaN"),
        (lambda w: w.index_fill(0, torch.tensor([3]), float("inf")), "infinity"),
        (lambda w: w.to(torch.int8), "stored as I8"),
        (lambda w: w.to(torch.float8_e4m3fn), "stored as F8"),
        (lambda w: w > 0, "stored as BOOL"),
        (lambda w: w[:-1].contiguous(), "shape"),
        (lambda w: w.flatten(), "shape"),
    ],
)
def test_weights_that_are_no_numbers_of_this_model_are_named(
    folder: Path, change: Callable[[torch.Tensor], torch.Tensor], words: str
) -> None:
    weights = load_file(folder / "model.safetensors")
    weights[Q] = change(weights[Q])
    save_file(weights, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=words):
        _ask(folder)


def test_weights_too_large_for_the_dtype_are_named(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights[Q] *= 1e6
    save_file(weights, folder / "model.safetensors")
    _ask(folder)
    with pytest.raises(CheckpointError, match="float16"):
        LLM(str(folder), device="cpu", dtype="float16")


@pytest.mark.parametrize(
    "index", [[], {"weight_map": []}, {"weight_map": {"a": 5}}, {"weight_map": {"a": []}}, {}, {"weight_map": {"a": "."}}], ids=str
)
def test_a_damaged_index_is_named(folder: Path, index: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(CheckpointError):
        _ask(folder)


def test_a_tensor_in_two_files_is_named_unless_one_file_is_the_model(folder: Path) -> None:
    shutil.copy(folder / "model.safetensors", folder / "consolidated.safetensors")
    _ask(folder)
    (folder / "model.safetensors").rename(folder / "another.safetensors")
    with pytest.raises(CheckpointError, match="another file"):
        _ask(folder)


@pytest.mark.parametrize("content", [b"", b"1234567", struct.pack("<Q", 2**62) + b"{}", struct.pack("<Q", 4) + b"{{{{"])
def test_a_damaged_header_of_a_shard_is_named(folder: Path, content: bytes) -> None:
    (folder / "model.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"model\.safetensors"):
        _ask(folder)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", b"[" * 100_000),
        ("config.json", b"\xff"),
        ("tokenizer.json", b"{}"),
        ("tokenizer_config.json", b"[]"),
        ("tokenizer_config.json", b'"x"'),
        ("tokenizer_config.json", b"\xff"),
        ("tokenizer_config.json", b'{"chat_template": 5}'),
        ("tokenizer_config.json", b'{"chat_template": "{{"}'),
        ("chat_template.jinja", b"\xff\xfe"),
        ("generation_config.json", b"x"),
        ("generation_config.json", b'{"eos_token_id": [[1]]}'),
    ],
)
def test_a_damaged_file_beside_the_weights_is_named(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(CheckpointError):
        _ask(folder)


@pytest.mark.parametrize(
    "template",
    [
        "{{ 1/0 }}",
        "{{ messages + 5 }}",
        "{{ messages.foo.bar }}",
        "{{ nothing() }}",
        "{{ strftime_now(5) }}",
        "{% for i in range(1000000) %}x{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        '{{ raise_exception("no") }}',
        '{{ "\ud800" }}',
        "{# nothing #}",
    ],
)
def test_a_chat_template_that_fails_is_a_users_error(folder: Path, template: str) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    with pytest.raises(UserError):
        _ask(folder)


def test_special_tokens_cannot_displace_the_messages(folder: Path) -> None:
    settings = {"bos_token": "<b>", "chat_template": "{{ bos_token }}{{ messages[0].content }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    with LLM(str(folder), device="cpu", kv_cache_memory=2**20) as llm:
        assert llm.tokenizer.render_chat([{"role": "user", "content": "hi"}]) == "<b>hi"


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused_by_prompt_and_hurts_nobody(folder: Path) -> None:
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    tokenizer["added_tokens"].append({"id": 5000, "content": "hello", **flags})
    path.write_text(json.dumps(tokenizer))
    with LLM(str(folder), device="cpu", kv_cache_memory=2**20) as llm:
        for call in (lambda: llm.generate(["fine", "hello"]), lambda: llm.chat([{"role": "user", "content": "hello"}])):
            with pytest.raises(UserError, match="the model has 257 only"):
                call()
        assert len(llm.generate("fine", SamplingParams(max_tokens=3, ignore_eos=True))[0].token_ids) == 3


@pytest.mark.parametrize(("end", "wanted"), [(-1, 256), ([256, 999], 255), ([256, -5], 252)], ids=str)
def test_an_end_token_that_the_vocabulary_does_not_have_forbids_no_other_token(folder: Path, end: object, wanted: int) -> None:
    """min_tokens masks the end tokens: one beyond the vocabulary broke the step, and -1 (none, in some files) was the last token."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": end}))
    with LLM(str(folder), device="cpu", kv_cache_memory=2**20) as llm:
        (output,) = llm.generate([[1, 2]], SamplingParams(max_tokens=3, min_tokens=3, logit_bias={wanted: 100.0}))
        assert output.token_ids == (wanted,) * 3


@pytest.mark.parametrize("name", ["a" * 300, "/" + "a" * 300, "~nobody-of-this-name/model", "[/red]"])
def test_a_model_name_that_cannot_be_a_path_is_named(name: str) -> None:
    with pytest.raises(UserError):
        LLM(name, device="cpu")
