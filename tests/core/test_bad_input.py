"""What is of the wrong kind is refused by name when it comes, never in the middle of a step, where it would cost everybody theirs."""

from __future__ import annotations

import math

import pytest

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.request import Request
from infer_lab.errors import InvalidRequestError, UserError


@pytest.mark.parametrize(
    "changes",
    [
        {"prompt_token_ids": [2**63]},
        {"prompt_token_ids": [1.5]},
        {"prompt_token_ids": [None]},
        {"prompt_token_ids": "abc"},
        {"prompt_token_ids": b"12345678"},
        {"prompt_token_ids": 5},
        {"prompt_token_ids": [3, -1]},
        {"max_tokens": 2.0},
        {"stop_token_ids": 5},
        {"stop_token_ids": "ab"},
        {"eos_token_ids": [1.5]},
        {"cache_keys": (("salt", 5),)},
        {"cache_keys": {"salt": "x"}},
        {"cache_keys": (("salt", "\ud800"),)},
        {"cache_keys": 5},
        {"priority": math.nan},
        {"priority": "high"},
        {"priority": 10**400},
        {"tenant": ["a"]},
        {"request_id": 5},
    ],
    ids=str,
)
def test_a_request_of_the_wrong_kind_is_refused_when_it_is_made(changes: dict[str, object]) -> None:
    with pytest.raises(InvalidRequestError):
        Request(**({"request_id": "a", "prompt_token_ids": [1], "max_tokens": 1} | changes))  # type: ignore[arg-type]


def test_token_ids_are_kept_as_plain_ints_whatever_held_them() -> None:
    class Number:  # like numpy's
        def __index__(self) -> int:
            return 7

    request = Request("a", [Number(), True, 2**62], 1)  # type: ignore[list-item]
    assert request.token_ids == [7, 1, 2**62] and all(type(token) is int for token in request.token_ids)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_blocks": 2.5},
        {"num_blocks": "5"},
        {"block_size": 16.0},
        {"max_num_batched_tokens": 1e9},
        {"max_model_len": 1e3},
        {"max_waiting_tokens": 1.5},
        {"watermark": "much"},
        {"priority_aging_s": 1e-320},
        {"priority_aging_s": math.nan},
        {"tenant_weights": None},
        {"tenant_weights": {"a": "x"}},
        {"tenant_weights": {"a": math.inf}},
        {"tenant_weights": {"a": 1e-320}},
    ],
    ids=str,
)
def test_a_setting_of_the_wrong_kind_or_beyond_reason_is_named(changes: dict[str, object]) -> None:
    with pytest.raises(UserError, match="tenant" if "tenant_weights" in changes else next(iter(changes))):
        SchedulerConfig(**({"num_blocks": 20} | changes))  # type: ignore[arg-type]
