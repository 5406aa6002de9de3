"""Drafts in the core: verified like any tokens, counted, and never in anybody's way."""

from __future__ import annotations

import pytest

from infer_lab.core.plan import PLACEHOLDER, StepOutput
from infer_lab.errors import EngineError, InvalidRequestError

from .test_casebook import config, prompt_of
from .world import World


def test_what_became_of_drafts_is_counted_for_the_request_and_for_all() -> None:
    world = World(config())
    request = world.add("r", prompt_of(5), 20)
    other = world.add("other", prompt_of(3, 1), 20)
    world.step()
    for drafted, right in ((4, 2), (3, 3), (2, 0)):
        world.propose("r", drafted, right)
        world.step()
    world.propose("other", 1, 1)
    world.step()
    counts = request.draft_counts
    assert (counts.num_drafts, counts.num_draft_tokens, counts.num_accepted_tokens) == (3, 9, 5)
    assert counts.num_accepted_tokens_per_pos == [2, 2, 1, 0]
    assert counts.acceptance_rate == 5 / 9 and counts.mean_acceptance_length == 1 + 5 / 3
    assert other.draft_counts.num_accepted_tokens_per_pos == [1]
    totals = world.scheduler.draft_counts
    assert (totals.num_drafts, totals.num_draft_tokens, totals.num_accepted_tokens_per_pos) == (4, 10, [3, 2, 1, 0])
    world.drain()


def test_a_request_without_drafts_has_no_rate() -> None:
    world = World(config())
    request = world.add("r", prompt_of(5), 3)
    world.drain()
    assert request.draft_counts.acceptance_rate is None and request.draft_counts.mean_acceptance_length is None


def test_the_workers_own_drafts_are_planned_as_placeholders_and_only_tokens_come_back() -> None:
    world = World(config())
    request = world.add("r", prompt_of(5), 30)
    world.step()
    world.propose_placeholders("r", 4)
    (scheduled,) = world.issue().scheduled
    assert scheduled.token_ids[1:] == scheduled.draft_token_ids == (PLACEHOLDER,) * 4
    (update,) = world.complete()
    assert PLACEHOLDER not in update.new_token_ids and request.draft_counts.num_draft_tokens == 4
    world.drain()


def test_drafts_outside_the_vocabulary_are_refused_with_the_figures() -> None:
    world = World(config(vocab_size=5))
    world.add("r", prompt_of(5), 9)
    world.step()
    for wrong in ([1, 5], [-2], [0, -1], [-1, 3]):
        with pytest.raises(InvalidRequestError, match="the vocabulary has 5 tokens"):
            world.scheduler.propose("r", wrong)
    world.scheduler.propose("r", [4, 0])
    world.scheduler.propose("r", [])
    world.drain()


def test_more_tokens_than_drafts_and_one_are_a_fault_of_the_worker_with_placeholders_too() -> None:
    world = World(config())
    world.add("r", prompt_of(6), 9)
    world.step()
    world.propose_placeholders("r", 2)
    plan = world.scheduler.schedule()
    with pytest.raises(EngineError, match="returned 4 tokens"):
        world.scheduler.apply(plan, StepOutput(plan.step_id, {"r": (0, 0, 0, 0)}))


def test_drafts_behind_the_last_prompt_token_count_as_drafts_in_the_record() -> None:
    world = World(config(max_num_batched_tokens=8))
    world.add("r", prompt_of(9), 9)
    world.step()
    world.propose("r", 3, 1)
    world.step()
    record = world.scheduler.step_records[-1]
    assert (record.prefill_tokens, record.decode_tokens, record.draft_tokens, record.accepted_draft_tokens) == (1, 0, 3, 1)
    world.drain()


def test_drafts_of_a_request_that_was_aborted_meanwhile_count_for_nobody() -> None:
    world = World(config())
    world.add("r", prompt_of(6), 9)
    world.step()
    world.propose("r", 3, 3)
    world.issue()
    world.abort("r")
    world.complete()
    assert world.scheduler.step_records[-1].accepted_draft_tokens == world.scheduler.draft_counts.num_draft_tokens == 0


def test_siblings_admitted_in_one_step_do_not_fork_each_other() -> None:
    """Copies of one plan are independent: a block that a copy of this plan fills is no source for another."""
    world = World(config(policy="priority", max_num_seqs=3, num_blocks=60, enable_prefix_caching=False))
    world.add("in the way", prompt_of(3, 7), 20, priority=-9)
    children = [world.make(f"g#{i}", prompt_of(6), 12, seed=i, priority=p) for i, p in enumerate((0, 5, 0, 6))]
    world.scheduler.add_group("g", children)
    for child in children:
        world._expect(child)
    while children[2].status.value != "running" or children[2].num_output_tokens == 0:
        world.step()
    assert [child.status.value for child in children] == ["running", "waiting", "running", "waiting"]
    world.abort("in the way")
    world.abort("g#0")
    plan = world.issue()
    assert [admitted.request_id for admitted in plan.admitted] == ["g#1", "g#3"]
    source = children[2].block_ids[1]
    assert [copy.source for copy in plan.copies] == [source, source], "both from the sibling that has its KV"
    world.complete()
    world.drain()
