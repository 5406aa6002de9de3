"""What may be asked of speculation, and what is refused by name."""

from __future__ import annotations

import pytest

from infer_lab.engine_config import EngineConfig
from infer_lab.errors import UserError
from infer_lab.spec.config import SpeculativeConfig


def test_a_word_says_where_drafts_come_from() -> None:
    assert SpeculativeConfig.parse("ngram") == SpeculativeConfig("ngram", ngram_min=2, ngram_max=4)
    assert SpeculativeConfig.parse("draft:8") == SpeculativeConfig("draft", draft_layers=8)
    assert SpeculativeConfig.parse("draft:dummy:smollm2-135m").draft_model == "dummy:smollm2-135m"
    assert EngineConfig(speculative="draft:8").speculative == SpeculativeConfig("draft", draft_layers=8)


@pytest.mark.parametrize("word", ["", "draft", "draft:", "ngram:", "ngram:3", "eagle", "ngram "])
def test_other_words_are_refused(word: str) -> None:
    with pytest.raises(UserError, match=r"'ngram', 'draft:<number"):
        EngineConfig(speculative=word)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "medusa"}, "'ngram' or 'draft'"),
        ({"num_draft_tokens": 0}, r"num_draft_tokens must be a whole number in \[1, 64\], got 0"),
        ({"num_draft_tokens": None}, "num_draft_tokens"),
        ({"num_draft_tokens": 2.0}, "num_draft_tokens"),
        ({"ngram_min": 5}, None),
        ({"ngram_max": 1}, None),
        ({"ngram_min": 5, "ngram_max": 3}, "ngram_min = 5 is larger than ngram_max = 3"),
        ({"ngram_min": 0}, "ngram_min"),
        ({"draft_layers": 3}, "draft_layers has no meaning for speculative method 'ngram'"),
        ({"method": "draft"}, "draft_layers .* or draft_model"),
        ({"method": "draft", "draft_layers": 3, "draft_model": "x"}, "one of them"),
        ({"method": "draft", "draft_layers": 3, "ngram_max": 4}, "ngram_max has no meaning"),
        ({"method": "draft", "draft_layers": True}, "draft_layers"),
        ({"method": "draft", "draft_model": ""}, "draft_model"),
        ({"adaptive": 1}, "adaptive"),
        ({"verify_token_cost": -0.1}, "verify_token_cost"),
        ({"acceptance": "typical"}, "'standard' or 'exact'"),
    ],
)
def test_options_that_contradict_each_other_are_refused_by_name(options, message: str | None) -> None:
    if message is None:
        config = SpeculativeConfig(**options)
        assert config.ngram_min is not None and config.ngram_max is not None and config.ngram_min <= config.ngram_max
        return
    with pytest.raises(UserError, match=message):
        SpeculativeConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"speculative": 3}, "speculative is a SpeculativeConfig"),
        ({"policy": "sjf"}, "policy must be"),
        ({"admission": "all"}, "admission must be"),
        ({"watermark": 1.0}, "watermark"),
        ({"tenant_weights": {"a": 0}}, "tenant 'a'"),
        ({"max_num_partial_prefills": -1}, "max_num_partial_prefills"),
        ({"long_prefill_token_threshold": 4, "enable_chunked_prefill": False}, "need enable_chunked_prefill"),
        ({"max_waiting_requests": 1.5}, "max_waiting_requests"),
    ],
)
def test_what_the_scheduler_cannot_do_is_refused_before_a_model_is_loaded(options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        EngineConfig(**options)


def test_the_scheduler_is_told_what_the_engine_was_told() -> None:
    config = EngineConfig(
        policy="priority", tenant_weights={"a": 2.0}, admission="request", watermark=0.1, max_waiting_tokens=99, max_num_batched_tokens=64
    ).scheduler_config(num_blocks=9, max_model_len=100, vocab_size=7)
    assert (config.policy, config.tenant_weights, config.admission, config.watermark) == ("priority", {"a": 2.0}, "request", 0.1)
    assert (config.max_waiting_tokens, config.max_num_batched_tokens, config.max_num_seqs, config.vocab_size) == (99, 64, 8, 7)
