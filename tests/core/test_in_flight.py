"""Plans that are issued before the outputs of earlier ones are known, aborted under way, late, wrong or lost."""

from __future__ import annotations

import pytest

from infer_lab.core.plan import PLACEHOLDER, StepOutput
from infer_lab.core.request import Request, RequestStatus
from infer_lab.errors import EngineError

from .test_casebook import config, prompt_of
from .world import World


def test_chunks_of_a_prompt_are_planned_ahead_and_an_unknown_token_is_waited_for() -> None:
    world = World(config(max_num_batched_tokens=8))
    world.add("r", prompt_of(16), 4)
    first, second, third = world.issue(), world.issue(), world.issue()
    assert [plan.num_tokens for plan in (first, second, third)] == [8, 8, 0]
    assert third.is_empty and not first.is_empty
    for _ in range(3):
        world.complete()
    world.drain()


def test_with_async_scheduling_the_next_step_computes_a_placeholder() -> None:
    world = World(config(async_scheduling=True))
    world.add("r", prompt_of(6), 3)
    plans = [world.issue() for _ in range(4)]
    assert [plan.scheduled[0].token_ids for plan in plans[1:3]] == [(PLACEHOLDER,), (PLACEHOLDER,)]
    assert not plans[3].scheduled, "the third token is the last: nothing is planned after it"
    for _ in plans:
        world.complete()
    world.drain()


def test_an_output_that_comes_after_a_stop_is_not_counted() -> None:
    world = World(config(async_scheduling=True))
    probe = world.add("probe", prompt_of(6), 3)
    world.drain()
    world.add("r", prompt_of(6), 9, stop=frozenset(probe.output_token_ids[:1]))
    world.issue()
    world.issue()
    (update,) = world.complete()
    assert update.finish_reason == "stop"
    assert world.complete() == []
    world.drain()


def test_a_late_output_does_not_reach_a_new_request_of_the_same_name() -> None:
    world = World(config())
    world.add("r", prompt_of(6), 5)
    world.issue()
    world.abort("r")
    world.add("r", prompt_of(9, 4), 5)
    world.complete()
    world.drain()


def test_a_failed_step_ends_its_requests_and_no_others() -> None:
    world = World(config(max_num_seqs=1))
    a, b = world.add("a", prompt_of(6), 5), world.add("b", prompt_of(6), 5)
    world.step()
    world.fail()
    assert a.finish_reason == "error" and not b.is_finished
    world.drain()
    assert b.finish_reason == "length"


def test_outputs_that_break_the_contract_change_nothing() -> None:
    world = World(config())
    request = world.add("r", prompt_of(6), 5)
    scheduler = world.scheduler
    plan = scheduler.schedule()
    for bad in (
        StepOutput(plan.step_id),
        StepOutput(plan.step_id, {"r": ()}),
        StepOutput(plan.step_id, {"r": (1, 2)}),
        StepOutput(plan.step_id + 1, {"r": (1,)}),
    ):
        with pytest.raises(EngineError):
            scheduler.apply(plan, bad)
        assert request.num_output_tokens == 0 and scheduler.num_in_flight == 1
        scheduler.check_invariants()
    scheduler.apply(plan, StepOutput(plan.step_id, {"r": (1,)}))
    with pytest.raises(EngineError, match="not the oldest in flight"):
        scheduler.apply(plan, StepOutput(plan.step_id, {"r": (1,)}))
    assert request.num_output_tokens == 1


def test_tokens_accepted_must_be_the_drafts_that_were_given() -> None:
    world = World(config())
    world.add("r", prompt_of(6), 9)
    world.step()
    world.scheduler.propose("r", [7, 8])
    plan = world.scheduler.schedule()
    with pytest.raises(EngineError, match="whose drafts are"):
        world.scheduler.apply(plan, StepOutput(plan.step_id, {"r": (7, 9, 1)}))


def pressed_world(**options) -> tuple[World, Request, Request]:
    """A pool of six blocks, full: "a" decodes in three of them, and "r" is in the middle of its prompt in the other three, with a
    chunk under way and nothing left for the next."""
    world = World(
        config(num_blocks=1 + 6, max_model_len=24, admission="chunk", long_prefill_token_threshold=4, num_host_blocks=6, **options),
        lazy=True,
    )
    a, r = world.add("a", prompt_of(8), 16), world.add("r", prompt_of(20, 5), 4)
    world.step()
    world.step()
    world.issue()
    assert (a.num_computed_tokens, r.num_computed_tokens) == (9, 12) and world.scheduler.kv.pool.num_free == 0
    return world, a, r


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_blocks_of_a_request_that_was_preempted_and_resumed_meanwhile_are_not_filed_too_early(preemption: str) -> None:
    world, _, r = pressed_world(preemption=preemption)
    world.issue()
    assert r.status is (RequestStatus.SWAPPED if preemption == "swap" else RequestStatus.WAITING)
    world.abort("a")
    world.issue()
    assert r.status is RequestStatus.RUNNING
    for _ in range(3):
        world.complete()  # the world looks whether every filed block holds what it says
    world.drain()


def test_drafts_rejected_after_their_request_was_preempted_are_not_taken_back_twice() -> None:
    world = World(
        config(num_blocks=1 + 6, max_model_len=24, admission="chunk", policy="priority", long_prefill_token_threshold=4), lazy=True
    )
    low = world.add("low", prompt_of(7), 12, priority=5)
    world.step()
    world.step()
    world.add("high", prompt_of(20, 5), 2, priority=0)
    world.step()
    world.propose("low", 4, 1)
    while low.status is RequestStatus.RUNNING:
        world.issue()
    assert low.num_pending_samples == 1 and low.num_computed_tokens == 0
    while world.in_flight:
        world.complete()
    assert low.num_computed_tokens == 0
    world.drain()


def test_what_a_failed_step_was_to_move_to_the_host_is_not_brought_back() -> None:
    world, a, r = pressed_world(preemption="swap")
    world.complete()
    world.fail()
    assert a.finish_reason == r.finish_reason == "error" and r.num_preemptions == 1
    world.drain()
