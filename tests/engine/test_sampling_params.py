"""A sampling option is honoured or refused by name, never ignored: when it is made, or at admission when it depends on the model."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest

from infer_lab import LLM, SamplingParams
from infer_lab.engine.admission import make_request
from infer_lab.errors import UnsupportedOptionError, UserError


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"max_tokens": True}, "max_tokens must be a whole number"),
        ({"min_tokens": -1}, "min_tokens must be a whole number"),
        ({"min_tokens": 9, "max_tokens": 8}, "min_tokens = 9 is more than max_tokens = 8"),
        ({"temperature": True}, "temperature must be a number"),
        ({"temperature": float("inf")}, "temperature must be a number"),
        ({"top_p": 0}, "top_p must lie in"),
        ({"top_k": -2}, "top_k must be a whole number"),
        ({"min_p": 1.01}, "min_p must be a number in .0, 1."),
        ({"min_p": -0.1}, "min_p"),
        ({"repetition_penalty": 0.0}, "repetition_penalty must be a number in .0.01, 100."),
        ({"repetition_penalty": float("nan")}, "repetition_penalty"),
        ({"frequency_penalty": 2.1}, "frequency_penalty must be a number in .-2, 2."),
        ({"presence_penalty": "1"}, "presence_penalty"),
        ({"logit_bias": [1, 2]}, "logit_bias must map token ids to numbers"),
        ({"logit_bias": {"7": 1.0}}, "a token of logit_bias must be a whole number"),
        ({"logit_bias": {-7: 1.0}}, "a token of logit_bias"),
        ({"logit_bias": {7: 101.0}}, "logit_bias of token 7 must be a number in .-100, 100."),
        ({"logit_bias": {7: float("-inf")}}, "logit_bias of token 7"),
        ({"allowed_token_ids": []}, "allowed_token_ids is empty"),
        ({"allowed_token_ids": [1, 2], "banned_token_ids": [2, 1, 3]}, "all 2 allowed_token_ids are banned"),
        ({"allowed_token_ids": "12"}, "allowed_token_ids must be token ids"),
        ({"banned_token_ids": [1.0]}, "each of banned_token_ids must be a whole number"),
        ({"stop_token_ids": {1: 2}}, "stop_token_ids must be token ids"),
        ({"stop": ["a", ""]}, "each stop must be a text that is not empty"),
        ({"stop": ""}, "each stop must be a text"),
        ({"stop": [b"x"]}, "each stop must be a text"),
        ({"stop": 5}, "stop must be a text or several"),
        ({"stop": ["ok", "half \ud83d"]}, "not a character, so it could never be found"),
        ({"include_stop_str_in_output": 1}, "include_stop_str_in_output must be True or False"),
        ({"n": 0}, "n must be a whole number"),
        ({"n": 2}, "n = 2 with temperature 0 gives 2 equal answers"),
        ({"logprobs": -1}, "logprobs must be a whole number"),
        ({"prompt_logprobs": True}, "prompt_logprobs must be a whole number"),
        ({"seed": 2**63}, "seed must be a whole number"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_an_option_that_cannot_be_honoured_is_named_with_its_figures(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says):
        SamplingParams(**options)


@pytest.mark.parametrize(
    "name", ["best_of", "use_beam_search", "bad_words", "logits_processors", "structured_outputs", "max_new_tokens", "tempreature"]
)
def test_an_option_of_another_engine_is_refused_by_name_and_says_what_to_do(name: str) -> None:
    with pytest.raises(UnsupportedOptionError, match=rf"no option '{name}': .+"):
        SamplingParams(**{name: 1})
    with pytest.raises(UnsupportedOptionError, match=name):
        replace(SamplingParams(), **{name: 1})


VOCAB, EOS = 100, (0, 1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"allowed_token_ids": [5, 100]}, "allowed_token_ids has token 100, and the model's vocabulary has 100"),
        ({"banned_token_ids": [2**40]}, "banned_token_ids has token 1099511627776"),
        ({"stop_token_ids": [100]}, "stop_token_ids has token 100"),
        ({"logit_bias": {100: 1.0}}, "logit_bias has token 100"),
        ({"logprobs": 101}, "logprobs = 101 is more than the model's vocabulary of 100"),
        ({"prompt_logprobs": 101}, "prompt_logprobs = 101"),
        ({"banned_token_ids": range(100)}, "all 100 tokens of the model are banned"),
        ({"allowed_token_ids": [0, 1], "min_tokens": 1}, "only end and stop tokens may be generated, and min_tokens = 1"),
        ({"allowed_token_ids": [0, 7], "stop_token_ids": [7], "min_tokens": 1}, "only end and stop tokens"),
        ({"banned_token_ids": range(2, 100), "min_tokens": 1}, "only end and stop tokens"),
    ],
    ids=lambda value: str(value)[:50],
)
def test_what_the_model_cannot_honour_is_refused_at_admission(options: dict[str, Any], says: str) -> None:
    params = SamplingParams(**options)
    with pytest.raises(UserError, match=says):
        make_request("r", [1, 2], params, vocab_size=VOCAB, eos_token_ids=EOS)


@pytest.mark.parametrize(
    "options",
    [
        {"allowed_token_ids": [99]},
        {"allowed_token_ids": [0, 1], "min_tokens": 1, "ignore_eos": True},
        {"allowed_token_ids": [0, 1]},
        {"banned_token_ids": [*range(99), 98]},
        {"logprobs": 100, "prompt_logprobs": 100},
        {"top_k": 10**9},
        {"logit_bias": {99: -100.0}, "stop_token_ids": [99]},
    ],
    ids=str,
)
def test_the_last_that_is_possible_is_possible(options: dict[str, Any]) -> None:
    make_request("r", [1, 2], SamplingParams(**options), vocab_size=VOCAB, eos_token_ids=EOS)


def test_a_refused_request_leaves_the_others_of_the_call_and_the_engine_alone(tiny: LLM) -> None:
    good, bad = SamplingParams(max_tokens=3, ignore_eos=True), SamplingParams(allowed_token_ids=[9999])
    with pytest.raises(UserError, match="9999"):
        tiny.generate([[1, 2], [3, 4]], [good, bad])
    assert not tiny.engine.scheduler.has_unfinished()
    assert len(tiny.generate([[1, 2]], good)[0].token_ids) == 3


def test_whole_numbers_and_numbers_of_any_library_are_taken_as_pythons_own() -> None:
    params = SamplingParams(
        max_tokens=np.int64(7),  # type: ignore[arg-type]
        temperature=np.float32(0.5),  # type: ignore[arg-type]
        top_p=1,
        stop_token_ids=np.array([3, 4]),  # type: ignore[arg-type]
        logit_bias={np.int32(5): np.float64(1.5)},  # type: ignore[dict-item]
        stop="end",
    )
    assert params == SamplingParams(max_tokens=7, temperature=0.5, stop_token_ids=(3, 4), logit_bias={5: 1.5}, stop=("end",))
    assert type(params.max_tokens) is int and type(params.temperature) is float and type(params.top_p) is float


def test_parameters_are_frozen_values_that_can_be_hashed_copied_and_sent() -> None:
    given = {3: 1.0}
    params = SamplingParams(temperature=0.7, logit_bias=given, stop=["a"], allowed_token_ids=[1, 2])
    given[4] = 2.0
    assert params.logit_bias == {3: 1.0}, "a copy of what was given"
    for twin in (copy.deepcopy(params), pickle.loads(pickle.dumps(params)), replace(params)):
        assert twin == params and hash(twin) == hash(params)
    with pytest.raises(FrozenInstanceError):
        params.temperature = 1.0  # type: ignore[misc]


def test_none_for_logit_bias_and_stop_means_none_of_them() -> None:
    assert SamplingParams(logit_bias=None, stop=None) == SamplingParams()  # type: ignore[arg-type]


def test_each_of_n_sequences_has_its_own_stream_and_the_first_alone_scores_the_prompt() -> None:
    params = SamplingParams(n=3, temperature=1.0, seed=2**63 - 2, prompt_logprobs=2, logprobs=1)
    children = [params.for_child(i) for i in range(3)]
    assert [child.seed for child in children] == [2**63 - 2, 2**63 - 1, 0]
    assert [child.prompt_logprobs for child in children] == [2, None, None]
    assert all(child.n == 1 and child.logprobs == 1 for child in children)
    assert replace(params, n=1).for_child(0) == replace(params, n=1)
