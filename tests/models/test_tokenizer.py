"""The tokenizer built from the GGUF file splits text as llama.cpp does; transformers' conversion of the same file does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from infer_lab import LLM
from infer_lab.errors import CheckpointError, UserError
from infer_lab.models.checkpoint import open_checkpoint
from infer_lab.tokenizer import Tokenizer, tokenizer_from_folder, tokenizer_from_gguf


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    found = open_checkpoint("smollm2").tokenizer
    assert found is not None
    return found


def _pieces(tokenizer: Tokenizer, text: str) -> list[str | None]:
    return [tokenizer.token(i) for i in tokenizer.encode(text)]


# -- SmolLM2: facts compared with llama.cpp on 3,053 strings -------------------------------------------------------------------


@pytest.mark.model
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("12345", ["1", "2", "3", "4", "5"]),
        (" 1 2  3", ["Ġ", "1", "Ġ", "2", "ĠĠ", "3"]),
        ("v2.0", ["v", "2", ".", "0"]),
        ("Hello, world!", ["Hello", ",", "Ġworld", "!"]),
        ("<|im_start|>user\nhi<|im_end|>", ["<|im_start|>", "user", "Ċ", "hi", "<|im_end|>"]),
        ("", []),
    ],
)
def test_pieces_are_those_of_llama_cpp(tokenizer: Tokenizer, text: str, pieces: list[str]) -> None:
    assert _pieces(tokenizer, text) == pieces


@pytest.mark.model
def test_a_byte_level_split_alone_would_be_wrong(tokenizer: Tokenizer) -> None:
    # what a conversion that ignores `tokenizer.ggml.pre = smollm` does: the space sticks to the digit, digits stick together
    pieces = [piece for piece, _ in pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(" 1 23")]
    assert pieces == ["Ġ1", "Ġ23"]
    assert _pieces(tokenizer, " 1 23") == ["Ġ", "1", "Ġ", "2", "3"]


# The vocabulary lacks these bytes, so llama.cpp and we drop them: six control characters, and the lead bytes of planes 4 to 11
_LACKING = {0x04, 0x06, 0x13, 0x14, 0x16, 0x1D, 0xF1, 0xF2}


@pytest.mark.model
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=60) | st.text(alphabet=" \n\t\r0123456789٣½²人智🍕👩‍abc.,'<|>_", max_size=60))
def test_any_text_comes_back_as_it_was(tokenizer: Tokenizer, text: str) -> None:
    assume(not _LACKING & set(text.encode()))
    assert tokenizer.decode(tokenizer.encode(text), skip_special_tokens=False) == text


@pytest.mark.model
def test_special_tokens_are_ids_0_to_16_and_do_not_show_in_text(tokenizer: Tokenizer) -> None:
    assert tokenizer.vocab_size == 49152
    assert tokenizer.encode("<|endoftext|><|im_start|><|im_end|>") == [0, 1, 2]
    assert tokenizer.decode(range(17)) == "" and tokenizer.token(16) is not None


@pytest.mark.model
def test_the_chat_template_brings_the_models_system_message_unless_there_is_one(tokenizer: Tokenizer) -> None:
    default = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    user = {"role": "user", "content": "hi"}
    turn = "<|im_start|>user\nhi<|im_end|>\n"
    assert tokenizer.render_chat([user]) == default + turn + "<|im_start|>assistant\n"
    assert tokenizer.render_chat([user], add_generation_prompt=False) == default + turn
    own = tokenizer.render_chat([{"role": "system", "content": "Be brief."}, user])
    assert own == "<|im_start|>system\nBe brief.<|im_end|>\n" + turn + "<|im_start|>assistant\n"


@pytest.mark.model
def test_the_end_token_of_a_chat_ends_a_chat(smollm2: LLM) -> None:
    (output,) = smollm2.chat([{"role": "user", "content": "Explain in one sentence what a CPU cache does."}])
    assert output.text == (
        "A CPU cache is a type of data storage device that caches frequently used data, such as CPU instructions,"
        " to reduce the load on the CPU's main memory."
    ), "llama.cpp's own answer"
    assert output.finish_reason == "stop" and output.token_ids[-1] == 2


# -- other tokenizers, on a vocabulary of single bytes -------------------------------------------------------------------------


def _fields(**changes: object) -> dict[str, object]:
    tokens = [*sorted(pre_tokenizers.ByteLevel.alphabet()), "<s>", "</s>", "<mine>"]
    fields: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["1 2", "12 3", "Ġ a"],
        "tokenizer.ggml.token_type": [1] * 256 + [3, 3, 4],
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 257,
    }
    tokens += ["12", "123", "Ġa"]
    fields["tokenizer.ggml.token_type"] = [1] * 256 + [3, 3, 4] + [1] * 3
    return fields | {f"tokenizer.ggml.{key}": value for key, value in changes.items()}


@pytest.mark.parametrize(
    ("pre", "pieces"),
    [("smollm", ["1", "2", "3", "4", "Ġa"]), ("llama-bpe", ["123", "4", "Ġa"]), ("qwen2", ["1", "2", "3", "4", "Ġa"])],
)
def test_each_pre_tokenizer_splits_digits_in_its_own_way(pre: str, pieces: list[str]) -> None:
    assert _pieces(tokenizer_from_gguf(_fields(pre=pre)), "1234 a") == pieces


def test_bos_goes_in_front_where_the_file_wants_it_and_never_into_a_chat() -> None:
    plain, with_bos = tokenizer_from_gguf(_fields()), tokenizer_from_gguf(_fields(add_bos_token=True))
    assert plain.encode("a") == with_bos.encode("a")[1:] and with_bos.encode("a")[0] == 256
    assert with_bos.encode("a", add_special_tokens=False) == plain.encode("a")


def test_user_defined_tokens_are_whole_and_stay_in_the_text() -> None:
    tokenizer = tokenizer_from_gguf(_fields())
    assert tokenizer.encode("a<mine>a")[1] == 258 and tokenizer.decode(tokenizer.encode("a<mine></s>")) == "a<mine>"


def test_an_unknown_pre_tokenizer_is_refused_by_name() -> None:
    with pytest.raises(CheckpointError, match=r"'deepseek-llm'.*smollm"):
        tokenizer_from_gguf(_fields(pre="deepseek-llm"))


def test_a_template_that_refuses_or_is_broken_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="chat template"):
        tokenizer_from_gguf(_fields() | {"tokenizer.chat_template": "{% for %}"})
    strict = tokenizer_from_gguf(_fields() | {"tokenizer.chat_template": "{{ raise_exception('roles must alternate') }}"})
    with pytest.raises(UserError, match="roles must alternate"):
        strict.render_chat([{"role": "user", "content": "x"}])


def test_a_template_cannot_reach_out_of_its_sandbox() -> None:
    sneaky = tokenizer_from_gguf(_fields() | {"tokenizer.chat_template": "{{ messages.__class__.__mro__ }}"})
    with pytest.raises(UserError, match="unsafe"):
        sneaky.render_chat([{"role": "user", "content": "x"}])


def test_a_folders_template_comes_from_its_own_file_before_its_settings(tmp_path: Path) -> None:
    tokenizer_from_gguf(_fields())._fast.save(str(tmp_path / "tokenizer.json"))
    settings: dict[str, object] = {"bos_token": {"content": "<s>"}, "chat_template": [{"name": "default", "template": "{{ bos_token }}A"}]}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    message = [{"role": "user", "content": "x"}]
    found = tokenizer_from_folder(tmp_path)
    assert found is not None and found.render_chat(message) == "<s>A"
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0]['content'] | tojson }}B")
    found = tokenizer_from_folder(tmp_path)
    assert found is not None and found.render_chat(message) == '"x"B'
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json"):
        tokenizer_from_folder(tmp_path)
    assert tokenizer_from_folder(tmp_path / "none") is None
