"""What the scheduler promises, one statement a test."""

from __future__ import annotations

import pytest

from infer_lab.core.request import RequestStatus
from infer_lab.errors import (
    DuplicateRequestError,
    EmptyPromptError,
    InvalidRequestError,
    QueueFullError,
    RequestTooLargeError,
    UnsupportedOptionError,
    UserError,
)

from .test_casebook import config, prompt_of
from .world import World


def order_of_start(world: World) -> list[str]:
    """Names in the order in which they are admitted, until all have finished."""
    order: list[str] = []
    while world.asked:
        order += [admitted.request_id for admitted in world.issue().admitted]
        world.complete()
        world.now += 1.0
    return order


# -- the step ----------------------------------------------------------------------------------------------------------------


def test_prefill_and_decode_share_a_step() -> None:
    world = World(config(max_num_batched_tokens=8))
    world.add("a", prompt_of(4), 10)
    world.step()
    world.add("b", prompt_of(20, 3), 2)
    assert [(s.request_id, s.num_tokens) for s in world.issue().scheduled] == [("a", 1), ("b", 7)]
    world.complete()
    record = world.scheduler.step_records[-1]
    assert (record.decode_tokens, record.prefill_tokens, record.batch_size, record.token_budget) == (1, 7, 2, 8)
    world.drain()


def test_several_prompts_are_in_the_middle_at_once() -> None:
    world = World(config(long_prefill_token_threshold=3))
    for i in range(4):
        world.add(f"r{i}", prompt_of(10, i), 2)
    assert [s.num_tokens for s in world.issue().scheduled] == [3, 3, 3, 3]
    world.complete()
    world.drain()


def test_partial_prefills_are_capped_and_short_prompts_still_come_in() -> None:
    world = World(config(long_prefill_token_threshold=4, max_num_partial_prefills=1))
    world.add("long", prompt_of(20), 2)
    world.add("short", prompt_of(3, 1), 2)
    world.add("long too", prompt_of(20, 2), 2)
    assert [(s.request_id, s.samples) for s in world.issue().scheduled] == [("long", False), ("short", True)]
    world.complete()
    world.drain()


def test_without_chunked_prefill_a_prompt_is_computed_whole() -> None:
    world = World(config(enable_chunked_prefill=False, max_num_batched_tokens=64))
    for i in range(4):
        world.add(f"r{i}", prompt_of(30, i), 2)
    assert [s.num_tokens for s in world.issue().scheduled] == [30, 30]
    world.complete()
    world.drain()


def test_every_running_request_gets_a_token_even_if_drafts_and_chunks_want_all() -> None:
    world = World(config(max_num_batched_tokens=8, max_num_seqs=8, max_model_len=60))
    for i in range(7):
        world.add(f"r{i}", prompt_of(1, i), 40)
    world.step()
    world.add("long", prompt_of(40, 9), 2)
    world.step()
    for _ in range(5):
        for i in range(7):
            world.propose(f"r{i}", 5, 5)
        plan = world.issue()
        assert len(plan.scheduled) == 8 and plan.num_tokens <= 8
        world.complete()
    world.drain()


@pytest.mark.parametrize("right", range(5))
@pytest.mark.parametrize("prompt_length", range(5, 10))
def test_drafts_at_block_edges_are_accepted_up_to_the_first_wrong_one(right: int, prompt_length: int) -> None:
    world = World(config(max_model_len=40))
    request = world.add("r", prompt_of(prompt_length), 20)
    world.step()
    world.propose("r", 4, right)
    (scheduled,) = world.issue().scheduled
    assert scheduled.num_drafts == 4 and scheduled.num_tokens == 5
    (update,) = world.complete()
    assert len(update.new_token_ids) == right + 1
    assert request.num_computed_tokens == request.num_tokens - 1
    assert request.num_filed_blocks == request.num_computed_tokens // 4
    world.drain()


def test_drafts_beyond_max_tokens_are_not_computed() -> None:
    world = World(config())
    world.add("r", prompt_of(5), 3)
    world.step()
    world.propose("r", 9, 9)
    assert world.issue().scheduled[0].num_drafts == 1
    world.complete()
    world.drain()


def test_a_stop_token_among_accepted_drafts_ends_the_request_there() -> None:
    world = World(config())
    probe = world.add("probe", prompt_of(5), 8)
    world.drain()
    stop = probe.output_token_ids[3]
    first = probe.output_token_ids.index(stop)
    world.add("r", prompt_of(5), 8, stop=frozenset([stop]))
    world.step()
    if world.asked:
        world.propose("r", 6, 6)
        (update,) = world.step()
        assert update.finish_reason == "stop" and len(update.new_token_ids) == first
    world.drain()


# -- order -------------------------------------------------------------------------------------------------------------------


def test_first_come_first_served() -> None:
    world = World(config(max_num_seqs=1))
    for i in range(4):
        world.add(f"r{i}", prompt_of(3, i), 2, priority=-i)
    assert order_of_start(world) == ["r0", "r1", "r2", "r3"]


def test_smaller_priority_goes_first() -> None:
    world = World(config(max_num_seqs=1, policy="priority"))
    for i, priority in enumerate([5, 0, 3]):
        world.add(f"r{i}", prompt_of(3, i), 2, priority=priority)
    assert order_of_start(world) == ["r1", "r2", "r0"]


def test_waiting_is_worth_priority_so_nobody_starves_under_a_stream_of_urgent_ones() -> None:
    world = World(config(max_num_seqs=1, policy="priority", priority_aging_s=10.0))
    patient = world.add("patient", prompt_of(3), 2, priority=5)
    for i in range(100):
        world.add(f"urgent{i}", prompt_of(3, i), 1, priority=0)
        world.step()
        world.now += 1.0
        if patient.block_ids or patient.is_finished:
            break
    assert 49 <= world.now <= 54  # 5 levels × 10 seconds, and what was running
    world.drain()


def test_tenants_are_served_by_weight() -> None:
    world = World(config(max_num_seqs=1, tenant_weights={"gold": 3.0, "plain": 1.0}))
    for i in range(40):
        world.add(f"plain{i}", prompt_of(4, i), 4, tenant="plain")
    for i in range(40):
        world.add(f"gold{i}", prompt_of(4, i), 4, tenant="gold")
    order = order_of_start(world)[:40]
    assert sum(name.startswith("gold") for name in order) == pytest.approx(30, abs=2)


def test_a_tenant_that_idled_has_no_credit_and_no_debt_is_forgiven_to_the_busy_one() -> None:
    world = World(config(max_num_seqs=1))
    for i in range(30):
        world.add(f"busy{i}", prompt_of(4, i), 4, tenant="busy")
    for _ in range(60):
        world.step()
    for i in range(10):
        world.add(f"late{i}", prompt_of(4, i), 4, tenant="late")
    order = order_of_start(world)[:10]
    assert 4 <= sum(name.startswith("late") for name in order) <= 6


def test_an_endless_stream_of_new_tenants_does_not_starve_one_that_was_served_much() -> None:
    world = World(config(max_num_seqs=1))
    world.add("heavy", prompt_of(40), 20, tenant="heavy")
    world.drain()
    again = world.add("heavy again", prompt_of(4), 2, tenant="heavy")
    for i in range(200):
        world.add(f"new{i}", prompt_of(4, i), 2, tenant=f"a{i}")
        world.step()
        if again.block_ids:
            break
    assert i < 100
    world.drain()


def test_the_queue_remembers_a_bounded_number_of_tenants() -> None:
    world = World(config(max_num_seqs=4))
    for i in range(5000):
        world.scheduler.add(world.make(f"r{i}", [1, 2], 1, tenant=f"tenant{i}"))
        plan = world.scheduler.schedule()
        world.scheduler.apply(plan, world.worker.execute(plan))
    queue = world.scheduler._life.waiting
    assert len(queue._tags) < 1100 and len(queue._queues) < 10 and len(queue._tenants) < 10


def test_aborted_requests_do_not_pile_up_in_the_queue() -> None:
    world = World(config(max_num_seqs=1))
    world.add("running", prompt_of(4), 50)
    world.step()
    for i in range(3000):
        world.scheduler.add(world.make(f"r{i}", [1, 2], 1, tenant=f"t{i % 7}"))
        world.scheduler.abort(f"r{i}")
    assert sum(map(len, world.scheduler._life.waiting._queues.values())) < 100
    world.drain()


# -- admission -----------------------------------------------------------------------------------------------------------------


def test_a_full_queue_refuses_and_changes_nothing() -> None:
    world = World(config(max_waiting_requests=2))
    world.add("a", [1], 1)
    world.add("b", [1], 1)
    with pytest.raises(QueueFullError, match="2 requests wait, and 1 more would pass max_waiting_requests = 2"):
        world.add("c", [1], 1)
    world.step()
    world.add("c", [1], 1)
    world.drain()


def test_a_queue_limit_counts_tokens_and_tenants_too() -> None:
    world = World(config(max_waiting_tokens=10, max_waiting_per_tenant=2))
    world.add("a", prompt_of(6), 1)
    with pytest.raises(QueueFullError, match="6 tokens wait, and 5 more would pass max_waiting_tokens = 10"):
        world.add("b", prompt_of(5), 1)
    world.add("b", prompt_of(1), 1)
    with pytest.raises(QueueFullError, match="2 requests of tenant '' wait"):
        world.add("c", prompt_of(1), 1)
    world.add("c", prompt_of(1), 1, tenant="other")
    with pytest.raises(RequestTooLargeError, match="11 tokens at once can never enter"):
        world.add("d", prompt_of(11), 1)
    world.drain()


def test_a_group_enters_whole_or_not_at_all() -> None:
    world = World(config(max_waiting_requests=3))
    world.add("a", [1], 1)
    with pytest.raises(QueueFullError):
        world.add_group("g", 3, [1, 2], 2)
    assert list(world.scheduler.requests) == ["a"]
    world.drain()


def test_with_the_request_gate_nothing_is_ever_preempted() -> None:
    world = World(config(num_blocks=1 + 12, admission="request"))
    for i in range(10):
        world.add(f"r{i}", prompt_of(8, i), 10 + i)
    world.drain()  # the world asserts it in every step
    assert world.seen["preempted"] == 0 and world.seen["mixed"] > 0


def test_the_prompt_gate_waits_for_room_for_the_whole_prompt() -> None:
    for gate, starts_at_once in (("chunk", True), ("prompt", False)):
        world = World(config(num_blocks=1 + 10, admission=gate, max_num_batched_tokens=8))
        world.add("a", prompt_of(8), 8)
        world.step()
        b = world.add("b", prompt_of(36, 5), 1)
        world.step()
        assert bool(b.block_ids) == starts_at_once, gate
        world.drain()


def test_the_watermark_leaves_blocks_for_those_that_run_but_a_lone_request_may_have_all() -> None:
    world = World(config(num_blocks=1 + 10, watermark=0.3))
    world.add("a", prompt_of(20), 2)
    b = world.add("b", prompt_of(12, 5), 1)  # 5 + 3 blocks: only 2 of 10 would be left, 3 must be
    world.step()
    assert not b.block_ids
    world.drain()
    world.add("whole pool", prompt_of(40), 1)
    world.drain()


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_two_requests_that_fill_the_pool_do_not_preempt_each_other_for_ever(preemption: str) -> None:
    world = World(config(num_blocks=1 + 10, admission="chunk", preemption=preemption, num_host_blocks=10, max_model_len=40))
    a, b = world.add("a", prompt_of(8), 32), world.add("b", prompt_of(8, 5), 32)
    world.drain()
    assert a.num_preemptions == 0 and 1 <= b.num_preemptions <= 2


def test_the_least_urgent_gives_way() -> None:
    world = World(config(num_blocks=1 + 6, admission="chunk", policy="priority", max_model_len=24))
    low = world.add("low", prompt_of(8), 12, priority=3)
    high = world.add("high", prompt_of(8, 5), 12, priority=0)
    world.drain()
    assert low.num_preemptions and not high.num_preemptions


def test_swap_falls_back_to_recompute_when_the_host_is_full() -> None:
    world = World(config(num_blocks=1 + 6, admission="chunk", preemption="swap", num_host_blocks=1, max_model_len=24))
    world.add("a", prompt_of(8), 16)
    b = world.add("b", prompt_of(8, 5), 16)
    world.drain()
    assert b.num_preemptions and [event.name for event in b.timeline.events].count("preempted") == b.num_preemptions


def test_a_swapped_request_can_be_aborted() -> None:
    world = World(config(num_blocks=1 + 6, admission="chunk", preemption="swap", num_host_blocks=6, max_model_len=24))
    world.add("a", prompt_of(8), 16)
    b = world.add("b", prompt_of(8, 5), 16)
    while b.status is not RequestStatus.SWAPPED:
        world.step()
    assert b.host_block_ids
    world.abort("b")
    assert world.scheduler.kv.num_free_host_blocks == 6
    world.drain()


def test_a_swapped_request_takes_back_what_is_still_cached_and_moves_only_the_rest() -> None:
    world = World(config(num_blocks=1 + 7, admission="chunk", preemption="swap", num_host_blocks=6, max_model_len=28))
    world.add("a", prompt_of(8), 16)
    b = world.add("b", prompt_of(8, 5), 16)
    while b.status is not RequestStatus.SWAPPED:
        world.step()
    held = len(b.host_block_ids)
    while not world.scheduler.kv.pool.num_evicted:  # the one that goes on takes the tail of what the other left
        world.step()
    world.abort("a")
    plan = world.issue()
    assert 0 < len(plan.swap_in) < held
    world.complete()
    world.drain()


# -- groups --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("caching", [True, False])
@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 30])
def test_siblings_share_the_prompts_blocks_and_compute_it_once(length: int, caching: bool) -> None:
    world = World(config(enable_prefix_caching=caching, max_num_batched_tokens=16))
    children = world.add_group("g", 4, prompt_of(length), 6)
    while children[3].status is not RequestStatus.RUNNING:
        world.step()
    full = (length - 1) // 4
    for child in children[1:]:
        assert child.block_ids[:full] == children[0].block_ids[:full]
        assert not set(child.block_ids[full:]) & set(children[0].block_ids)
        assert child.num_cached_tokens == length - 1
    world.drain()
    assert sum(record.prefill_tokens for record in world.scheduler.step_records) == length + 3


def test_when_the_leader_is_aborted_mid_prompt_the_next_sibling_leads() -> None:
    world = World(config(max_num_batched_tokens=8))
    children = world.add_group("g", 3, prompt_of(30), 3)
    world.step()
    world.abort("g#0")
    world.step()
    assert children[1].status is RequestStatus.RUNNING and children[2].status is RequestStatus.HELD
    world.drain()


def test_aborting_a_group_aborts_all_of_it() -> None:
    world = World(config(max_num_batched_tokens=8))
    world.add_group("g", 3, prompt_of(30), 3)
    world.step()
    assert {update.request_id for update in world.abort("g")} == {"g#0", "g#1", "g#2"}
    world.drain()


def test_a_group_with_different_prompts_is_refused() -> None:
    world = World(config())
    with pytest.raises(InvalidRequestError, match="same prompt"):
        world.scheduler.add_group("g", [world.make("g#0", [1], 1), world.make("g#1", [2], 1)])
    with pytest.raises(InvalidRequestError, match="tenant"):
        world.scheduler.add_group("g", [world.make("g#0", [1], 1), world.make("g#1", [1], 1, tenant="other")])
    with pytest.raises(InvalidRequestError, match="no request"):
        world.scheduler.add_group("g", [])


# -- refusals --------------------------------------------------------------------------------------------------------------------


def test_bad_requests_are_refused_by_name() -> None:
    world = World(config())
    with pytest.raises(EmptyPromptError):
        world.add("r", [], 1)
    with pytest.raises(InvalidRequestError, match="token ids must be >= 0"):
        world.add("r", [1, -1], 1)
    request = world.add("r", [1], 1)
    with pytest.raises(DuplicateRequestError, match="'r' is alive"):
        world.add("r", [1], 1)
    world.add_group("g", 2, [1], 1)
    for name in ("g", "g#1"):
        with pytest.raises(DuplicateRequestError):
            world.add(name, [1], 1)
    world.drain()
    with pytest.raises(InvalidRequestError, match="make a new Request"):
        world.scheduler.add(request)
    world.add("r", [1], 1)
    world.drain()


@pytest.mark.parametrize(
    "options",
    [
        {"num_blocks": 1},
        {"block_size": 0},
        {"max_num_batched_tokens": 7, "max_num_seqs": 8},
        {"enable_chunked_prefill": False, "max_num_batched_tokens": 63},
        {"enable_chunked_prefill": False, "long_prefill_token_threshold": 4},
        {"policy": "lifo"},
        {"watermark": 1.0},
        {"preemption": "swap"},
        {"tenant_weights": {"a": 0.0}},
        {"priority_aging_s": 0.0},
        {"max_model_len": 1},
    ],
)
def test_a_configuration_that_cannot_work_is_refused(options) -> None:
    with pytest.raises(UserError):
        config(**options)


def test_drafts_and_async_scheduling_exclude_each_other() -> None:
    with pytest.raises(UnsupportedOptionError):
        World(config(async_scheduling=True)).scheduler.propose("r", [1])


def test_the_prefix_cache_is_reset_only_when_nobody_holds_old_kv() -> None:
    world = World(config())
    world.add("a", prompt_of(9), 2)
    world.step()
    with pytest.raises(InvalidRequestError, match="1 requests are alive"):
        world.scheduler.reset_prefix_cache()
    world.drain()
    assert world.scheduler.kv.pool.num_cached == 2
    world.scheduler.reset_prefix_cache()
    world.check_nothing_left()
    again = world.add("again", prompt_of(9), 2)
    world.drain()
    assert again.num_cached_tokens == 0


# -- what is recorded ------------------------------------------------------------------------------------------------------------


def test_a_timeline_tells_what_a_request_waited_for() -> None:
    world = World(config(num_blocks=1 + 6, admission="chunk", max_model_len=24))
    world.add("a", prompt_of(8), 12)
    b = world.add("b", prompt_of(8, 5), 12)
    world.drain(tick=1.0)
    names = [event.name for event in b.timeline.events]
    assert names == ["arrived", "admitted", "preempted", "resumed", "finished"]
    times = [event.time for event in b.timeline.events]
    assert times == sorted(times) and b.timeline.queue_time == 0.0 and b.timeline.ttft == 0.0
    assert len(b.timeline.token_times) == 12 and b.timeline.tpot is not None and b.timeline.tpot > 1.0


def test_records_of_steps_add_up_to_the_work_done() -> None:
    world = World(config(max_num_batched_tokens=10))
    for i in range(5):
        world.add(f"r{i}", prompt_of(9), 5)
    while world.asked:
        world.step()
    records = list(world.scheduler.step_records)
    computed = sum(record.num_tokens for record in records)
    cached = sum(record.cached_tokens for record in records)
    assert computed + cached == 5 * (9 + 5 - 1)
    assert all(0 <= record.kv_usage <= 1 and record.num_tokens <= record.token_budget for record in records)
    assert [record.step_id for record in records] == list(range(len(records)))


def test_nothing_is_remembered_of_requests_that_are_over() -> None:
    world = World(config(num_blocks=20, max_num_seqs=4, max_model_len=40))
    for i in range(600):
        if i % 5 == 0:
            world.add_group(f"g{i}", 2, prompt_of(5, i), 2, tenant=f"t{i}")
        else:
            world.add(f"r{i}", prompt_of(9, i), 2)
        if i % 7 == 0:
            world.abort(f"r{i}")
        world.step()
    world.drain()
    scheduler, life, pool = world.scheduler, world.scheduler._life, world.scheduler.kv.pool
    life.waiting.peek()
    assert not any((life.requests, life.groups, life.running, life.released, life._waiting_of, scheduler._in_flight))
    assert not life.waiting._queues and not life.waiting._tenants and not life.waiting._sizes
    assert len(pool._block_of) <= pool.num_usable
