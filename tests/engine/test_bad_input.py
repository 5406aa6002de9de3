"""Whatever is given to `LLM`, the caller gets tokens or a named error, and the engine is as before."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from infer_lab import LLM, EngineConfig, SamplingParams
from infer_lab.errors import DoesNotFitError, EngineError, UserError

SHORT = SamplingParams(max_tokens=4, ignore_eos=True)
LONG = SamplingParams(max_tokens=12, ignore_eos=True)


@pytest.mark.parametrize(
    "prompts",
    [
        None,
        5,
        b"abc",
        [b"abc"],
        {"prompt": "a"},
        {"a"},
        ["a", 5],
        [[1.0]],
        [[True]],
        [["a"]],
        [[None]],
        ["\ud800"],
        [torch.ones(2, 2)],
    ],
    ids=repr,
)
def test_a_prompt_of_the_wrong_kind_is_a_users_error(tiny: LLM, prompts: object) -> None:
    with pytest.raises(UserError):
        tiny.generate(prompts, SHORT)  # type: ignore[arg-type]
    assert not tiny.engine.scheduler.has_unfinished()


def test_token_ids_may_come_in_arrays_and_iterators(tiny: LLM) -> None:
    (expected,) = tiny.generate([1, 2, 3], SHORT)
    for prompts in (
        np.array([1, 2, 3]),
        [np.array([1, 2, 3])],
        torch.tensor([[1, 2, 3]]),
        torch.tensor([1, 2, 3]),
        [list(np.array([1, 2, 3]))],
        iter([[1, 2, 3]]),
    ):
        (output,) = tiny.generate(prompts, SHORT)  # type: ignore[arg-type]
        assert output.token_ids == expected.token_ids
        assert all(type(token) is int for token in output.prompt_token_ids)


@pytest.mark.parametrize(
    "messages", [None, "hello", {"role": "user", "content": "x"}, [["a"]], [{"role": "user", "content": "\ud800"}]], ids=repr
)
def test_a_conversation_of_the_wrong_kind_is_a_users_error(tiny: LLM, messages: object) -> None:
    with pytest.raises(UserError):
        tiny.chat(messages, SHORT)  # type: ignore[arg-type]


@pytest.mark.parametrize("params", [{"max_tokens": 3}, [{"max_tokens": 3}], [None], "greedy"], ids=repr)
def test_parameters_of_the_wrong_kind_are_a_users_error(tiny: LLM, params: object) -> None:
    for call in (tiny.generate, lambda prompt, p: list(tiny.stream(prompt, p))):
        with pytest.raises(UserError):
            call("a", params)  # type: ignore[operator]


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": 1.5},
        {"seed": "a"},
        {"top_k": 2**70},
        {"top_k": 1.5},
        {"temperature": 10**400},
        {"temperature": "hot"},
        {"top_p": None},
        {"max_tokens": 2.0},
        {"stop_token_ids": 5},
        {"stop_token_ids": "ab"},
        {"stop_token_ids": (-1,)},
        {"ignore_eos": "no"},
    ],
    ids=str,
)
def test_a_sampling_parameter_that_would_break_a_step_is_refused_when_it_is_made(changes: dict[str, object]) -> None:
    with pytest.raises(UserError, match=next(iter(changes))):
        SamplingParams(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("top_p", [1e-9, 1e-46, 5e-324])
def test_the_smallest_top_p_is_greedy(tiny: LLM, top_p: float) -> None:
    greedy = tiny.generate([[1, 2, 3]], LONG)[0].token_ids
    assert tiny.generate([[1, 2, 3]], SamplingParams(12, 1.0, top_p=top_p, seed=5, ignore_eos=True))[0].token_ids == greedy


@pytest.mark.parametrize(
    "options",
    [
        {"max_num_seqs": "8"},
        {"max_model_len": 2.5},
        {"num_kv_blocks": 2.5},
        {"num_host_kv_blocks": -1},
        {"seed": 1.5},
        {"device": "cuda:x"},
        {"device": "cpu:"},
        {"device": None},
        {"enable_prefix_caching": "no"},
    ],
    ids=str,
)
def test_an_engine_option_of_the_wrong_kind_is_named(tiny_folder: Path, options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=next(iter(options))):
        LLM(str(tiny_folder), **({"device": "cpu"} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [{"num_kv_blocks": 10**12}, {"num_kv_blocks": 10, "num_host_kv_blocks": 10**12}], ids=str)
def test_a_cache_that_cannot_fit_is_refused_with_both_figures(tiny_folder: Path, options: dict[str, int]) -> None:
    with pytest.raises(DoesNotFitError, match=r"GiB.*but the host has .* GiB free"):
        LLM(EngineConfig(str(tiny_folder), device="cpu", **options))  # type: ignore[arg-type]


def test_room_for_more_requests_than_there_are_blocks_costs_nothing(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=9, max_num_seqs=10**9, max_num_batched_tokens=10**9) as llm:
        assert len(llm.generate([[1]] * 20, SHORT)) == 20


# -- streams -------------------------------------------------------------------------------------------------------------------


def test_streams_read_in_turn_give_each_its_own_tokens_and_text(tiny: LLM) -> None:
    expected = tiny.generate(["abc", "xyz"], LONG)
    streams = [tiny.stream("abc", LONG), tiny.stream("xyz", LONG)]
    updates = [[], []]
    for _ in range(12):
        for got, stream in zip(updates, streams, strict=True):
            got += [update for update in [next(stream, None)] if update is not None]
    for got, whole in zip(updates, expected, strict=True):
        assert tuple(t for u in got for t in u.token_ids) == whole.token_ids and "".join(u.text for u in got) == whole.text
        assert got[-1].output is not None and got[-1].output.token_ids == whole.token_ids


def test_a_call_in_the_middle_of_a_stream_takes_nothing_from_it(tiny: LLM) -> None:
    (expected,) = tiny.generate("abc", LONG)
    stream = tiny.stream("abc", LONG)
    got = list(next(stream).token_ids)
    tiny.generate("something else", SamplingParams(max_tokens=30, ignore_eos=True))
    assert (*got, *(t for update in stream for t in update.token_ids)) == expected.token_ids


def test_a_stream_that_was_never_started_leaves_nothing_behind(tiny: LLM) -> None:
    stream = tiny.stream("abc", LONG)
    assert tiny.engine.scheduler.has_unfinished()
    del stream
    gc.collect()
    assert not tiny.engine.scheduler.has_unfinished()


def test_a_stream_dropped_in_the_middle_of_a_step_is_aborted_after_it(tiny: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    held = [tiny.stream("abc", LONG)]
    execute = tiny.engine.executor.execute

    def collect(plan: object) -> object:
        held.clear()
        return execute(plan)  # type: ignore[arg-type]

    monkeypatch.setattr(tiny.engine.executor, "execute", collect)
    assert len(tiny.generate("xyz", LONG)[0].token_ids) == 12
    assert not tiny.engine.scheduler.has_unfinished()


@pytest.mark.parametrize("end", ["step fails", "closed"])
def test_a_stream_whose_request_was_lost_ends_with_an_error_and_does_not_hang(
    tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    llm = LLM(str(tiny_folder), device="cpu", kv_cache_memory=2**20)
    stream = llm.stream("abc", LONG)
    next(stream)
    if end == "closed":
        llm.close()
    else:
        with monkeypatch.context() as patch, pytest.raises(EngineError, match="out of memory"):
            patch.setattr(llm.engine.executor, "execute", _raise)
            llm.generate("xyz", LONG)
    with pytest.raises(EngineError, match="lost"):
        next(stream)
    assert next(stream, None) is None


def _raise(_: object) -> Callable[..., object]:
    raise RuntimeError("out of memory")


# -- failed steps ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fails", ["before", "after"])
def test_after_drop_in_flight_the_worker_takes_the_next_plan_whatever_it_had_done(tiny: LLM, fails: str) -> None:
    from infer_lab.core.request import Request

    scheduler, executor = tiny.engine.scheduler, tiny.engine.executor
    for name in "ab":
        scheduler.add(Request(name, [1, 2, 3], 5, params=LONG))
    plan = scheduler.schedule()
    if fails == "after":
        executor.execute(plan)
    scheduler.drop_in_flight()
    scheduler.add(Request("a", [1, 2, 3], 5, params=LONG))
    while scheduler.has_unfinished():
        tiny.engine.step()
    tiny.engine.step()
    assert not executor.batch.rows  # type: ignore[attr-defined]


def test_a_row_that_an_interrupt_left_half_opened_is_not_lost(tiny: LLM) -> None:
    batch = tiny.engine.executor.batch  # type: ignore[attr-defined]
    count = len(batch._free)
    batch._free.pop()
    tiny.engine.executor.reset()
    assert len(batch._free) == count
