"""The executor carries out every kind of plan: groups that share a prompt, plans issued ahead of their outputs, swaps; with tokens
unchanged."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infer_lab import LLM, SamplingParams
from infer_lab.core.group import make_children
from infer_lab.core.plan import PLACEHOLDER, AdmittedRequest, BlockCopy, ScheduledRequest, StepPlan
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.worker import model_executor

PROMPTS = [[7, 8, 9], list(range(30, 75)), [5], list(range(100, 120))]


def _params(seed: int) -> SamplingParams:
    return SamplingParams(max_tokens=14, temperature=1.0, seed=seed, ignore_eos=True)


@pytest.fixture
def expected(tiny: LLM) -> list[tuple[int, ...]]:
    return [output.token_ids for output in tiny.generate(PROMPTS, [_params(i) for i in range(len(PROMPTS))])]


def _engine(llm: LLM, **changes: object) -> Scheduler:
    """A fresh scheduler with other settings in the engine of `llm`."""
    llm.engine.reset(Scheduler(replace(llm.engine.scheduler.config, **changes)))  # type: ignore[arg-type]
    return llm.engine.scheduler


def _requests() -> list[Request]:
    return [Request(str(i), prompt, 14, params=_params(i)) for i, prompt in enumerate(PROMPTS)]


@pytest.mark.parametrize("ahead", [1, 2, 3])
def test_plans_issued_ahead_of_their_outputs_give_the_same_tokens(tiny: LLM, expected: list[tuple[int, ...]], ahead: int) -> None:
    scheduler = _engine(tiny, async_scheduling=True, max_num_batched_tokens=16, max_num_seqs=4)
    requests = _requests()
    for request in requests:
        scheduler.add(request)
    in_flight: deque[tuple[object, object]] = deque()
    placeholders = 0
    while scheduler.has_unfinished():
        plan = scheduler.schedule()
        placeholders += sum(PLACEHOLDER in scheduled.token_ids for scheduled in plan.scheduled)
        in_flight.append((plan, tiny.engine.executor.execute(plan)))
        if len(in_flight) > ahead:
            scheduler.apply(*in_flight.popleft())  # type: ignore[arg-type]
    while in_flight:
        scheduler.apply(*in_flight.popleft())  # type: ignore[arg-type]
    assert [tuple(r.output_token_ids) for r in requests] == expected
    assert placeholders > 10


@pytest.mark.parametrize("prompt_length", [1, 15, 16, 17, 40])
def test_a_group_that_shares_its_prompt_draws_what_separate_requests_draw(tiny: LLM, prompt_length: int) -> None:
    prompt = list(range(3, 3 + prompt_length))
    separate = [tiny.generate([prompt], _params(seed))[0].token_ids for seed in range(3)]
    scheduler = _engine(tiny)
    children = make_children("g", 3, lambda name, i: Request(name, prompt, 14, params=_params(i)))
    scheduler.add_group("g", children)
    while scheduler.has_unfinished():
        tiny.engine.step()
    assert [tuple(child.output_token_ids) for child in children] == separate
    assert sum(record.prefill_tokens for record in scheduler.step_records) <= prompt_length + 2, "the prompt was computed once"


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_requests_that_give_way_in_a_small_pool_draw_the_same_tokens(
    tiny_folder: Path, expected: list[tuple[int, ...]], preemption: str
) -> None:
    options = {"num_kv_blocks": 19, "block_size": 4, "num_host_kv_blocks": 40 if preemption == "swap" else 0}
    with LLM(str(tiny_folder), device="cpu", preemption=preemption, **options) as llm:
        outputs = llm.generate(PROMPTS, [_params(i) for i in range(len(PROMPTS))])
        assert sum(output.metrics.num_preemptions for output in outputs) > 0
        llm.engine.scheduler.check_invariants()
    assert [output.token_ids for output in outputs] == expected


def _poisoned(execute: Callable[..., object], llm: LLM) -> Callable[..., object]:
    """After every step, NaN into every block that no living request holds: whoever reads one gives itself away."""

    def run(plan: object) -> object:
        output = execute(plan)
        held = {block for request in llm.engine.scheduler.requests.values() for block in request.block_ids}
        free = [i for i in range(llm.kv_cache.device.shape[2]) if i not in held]
        llm.kv_cache.device[:, :, free] = float("nan")
        return output

    return run


def test_nobody_reads_a_block_that_is_not_its_own(
    tiny_folder: Path, expected: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=24, block_size=4, enable_prefix_caching=False) as llm:
        monkeypatch.setattr(llm.engine.executor, "execute", _poisoned(llm.engine.executor.execute, llm))
        outputs = llm.generate(PROMPTS, [_params(i) for i in range(len(PROMPTS))])
    assert [output.token_ids for output in outputs] == expected


def test_swaps_out_go_before_swaps_in_and_copies_come_last(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=6, preemption="swap", num_host_kv_blocks=4) as llm:
        device, host = llm.kv_cache.device, llm.kv_cache.host
        for i in range(6):
            device[:, :, i] = i
        host[:, :, 2] = 20
        # block 3 leaves for the host, what lay there comes in its place, and that is then copied to block 5
        plan = StepPlan(0, swap_out=(BlockCopy(3, 1),), swap_in=(BlockCopy(2, 3),), copies=(BlockCopy(3, 5),))
        llm.engine.executor.execute(plan)
        assert [float(device[0, 0, i, 0, 0, 0]) for i in range(6)] == [0, 1, 2, 20, 4, 20] and float(host[0, 0, 1, 0, 0, 0]) == 3


@pytest.mark.parametrize("drafts", [0, 2])
def test_a_token_is_drawn_by_its_seed_and_the_position_where_it_will_stand(tiny: LLM, drafts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, ...]] = []
    monkeypatch.setattr(model_executor, "sample", lambda logits, rows: seen.append(tuple(rows.positions)) or logits.argmax(-1))
    tokens = tuple(range(9))
    admitted = AdmittedRequest("r", tokens[: 9 - drafts], 9 - drafts, SamplingParams(temperature=1.0, seed=1))
    scheduled = ScheduledRequest("r", 0, tokens, True, 0, (1,), num_drafts=drafts)
    tiny.engine.executor.execute(StepPlan(0, (scheduled,), (admitted,)))
    tiny.engine.executor.execute(StepPlan(1, released=("r",)))
    # 9 tokens stand at 0 … 8, the new one at 9; the model's own choice in place of drafts 7 and 8 stands there
    assert seen == [tuple(range(9 - drafts, 10))]
