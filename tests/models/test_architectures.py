"""Llama, Qwen2 and Qwen3 on small random weights: logits and greedy tokens equal transformers'."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from agreement import near_ties
from forward import all_logits
from hf_models import KINDS, VOCAB, make
from oracle import greedy
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from infer_lab import LLM, EngineConfig, SamplingParams
from infer_lab.engine.build import load_model
from infer_lab.errors import CheckpointError


@pytest.fixture(scope="module", params=list(KINDS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[torch.nn.Module, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return make(request.param, folder), folder


def _prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCAB, (size,), generator=generator).tolist() for size in (1, 2, 15, 16, 17, 70)]


def test_logits_equal_transformers_whole_and_in_chunks(model: tuple[torch.nn.Module, Path]) -> None:
    theirs, folder = model
    loaded = load_model(EngineConfig(str(folder), device="cpu"))
    prompt = _prompts()[-1]
    with torch.inference_mode():
        expected = theirs(torch.tensor([prompt])).logits[0]
    for chunk in (None, 1, 7, 32):
        error = (all_logits(loaded, prompt, chunk) - expected).abs().max() / expected.abs().max()
        assert float(error) < 1e-4, f"chunks of {chunk}: relative error {float(error)}"


def test_greedy_tokens_equal_transformers_batched(model: tuple[torch.nn.Module, Path]) -> None:
    theirs, folder = model
    truth = {}
    for i, prompt in enumerate(_prompts()):
        tokens, margins = greedy(theirs, prompt, 20)
        truth[str(i)] = {"tokens": tokens, "margins": margins}
    with LLM(str(folder), device="cpu", kv_cache_memory=2**22, max_num_batched_tokens=40) as llm:
        outputs = llm.generate(_prompts(), SamplingParams(max_tokens=20))
    assert len(near_ties(((str(i), output.token_ids) for i, output in enumerate(outputs)), truth)) <= 1


# -- the folder's parts -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make("llama", tmp_path, max_shard_size="60KB")
    return tmp_path


def _change(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _error(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        LLM(str(folder), device="cpu")
    return str(caught.value)


def test_a_sharded_folder_loads_and_a_missing_shard_is_named(folder: Path) -> None:
    shards = sorted(folder.glob("*.safetensors"))
    assert len(shards) > 2
    load_model(EngineConfig(str(folder), device="cpu"))
    shards[1].unlink()
    assert shards[1].name in _error(folder)


def test_a_truncated_shard_is_named(folder: Path) -> None:
    shard = sorted(folder.glob("*.safetensors"))[0]
    shard.write_bytes(shard.read_bytes()[:-10])
    assert shard.name in _error(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt_neox"}, "gpt_neox"),
        ({"hidden_act": "gelu"}, "hidden_act"),
        ({"mlp_bias": True}, "mlp_bias"),
        ({"attention_bias": True}, "attention_bias"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantization_config"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}}, "yarn"),
        ({"intermediate_size": 96}, "(112, 96)"),
        ({"num_hidden_layers": 4}, "4 layers"),
        ({"num_attention_heads": 5}, "multiple"),
        ({"hidden_size": "wide"}, "wide"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_setting_that_would_be_ignored_is_refused_by_name(folder: Path, changes: dict[str, object], words: str) -> None:
    _change(folder, **changes)
    assert words in _error(folder)


def test_a_broken_config_is_named(folder: Path) -> None:
    (folder / "config.json").write_text("{")
    assert "config.json" in _error(folder)
    (folder / "config.json").unlink()
    assert "there is no config.json" in _error(folder)


def test_a_folder_without_weights_is_named(folder: Path) -> None:
    for path in (*folder.glob("*.safetensors"), folder / "model.safetensors.index.json"):
        path.unlink()
    assert "no *.safetensors" in _error(folder)


def test_a_missing_tensor_and_one_too_many_are_named(folder: Path) -> None:
    shard = sorted(folder.glob("*.safetensors"))[-1]
    tensors = load_file(shard)
    name = next(iter(tensors))
    save_file(tensors | {"model.layers.0.self_attn.sinks": torch.zeros(6)}, shard)
    assert "sinks" in _error(folder)
    del tensors[name]
    save_file(tensors | {"unused": torch.zeros(1)}, shard)
    assert name in _error(folder)


def test_older_spelling_of_rope_gives_the_same_model(folder: Path) -> None:
    new = load_model(EngineConfig(str(folder), device="cpu"))
    raw = json.loads((folder / "config.json").read_text())
    theta = raw.pop("rope_parameters")["rope_theta"]
    (folder / "config.json").write_text(json.dumps(raw | {"rope_theta": theta, "rope_scaling": None}))
    assert load_model(EngineConfig(str(folder), device="cpu")).config == new.config


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_loses_no_more_than_transformers_does(folder: Path, dtype: str) -> None:
    token_ids = list(range(30))
    exact, ours = (all_logits(load_model(EngineConfig(str(folder), device="cpu", dtype=d)), token_ids) for d in ("float32", dtype))
    half = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    with torch.inference_mode():
        theirs = half(torch.tensor([token_ids])).logits[0].float()
    assert float((ours - exact).norm()) < 1.5 * float((theirs - exact).norm())
