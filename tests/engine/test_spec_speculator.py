"""Who gets how many drafts: a bet with what others leave over, in the core's own fake world, without a model."""

from __future__ import annotations

import pytest

from infer_lab.core.plan import PLACEHOLDER
from infer_lab.core.request import Request
from infer_lab.spec.config import SpeculativeConfig
from infer_lab.spec.speculator import Speculator
from tests.core.test_casebook import config, prompt_of
from tests.core.world import World

NGRAM = SpeculativeConfig("ngram", 5, ngram_min=1, adaptive=False)
DRAFT = SpeculativeConfig("draft", 5, draft_layers=1, adaptive=False)


def run(world: World, speculator: Speculator) -> list[int]:
    """One step; how many drafts each scheduled request got."""
    speculator.propose(world.scheduler)
    world.check()
    plan = world.issue()
    world.complete()
    return [scheduled.num_drafts for scheduled in plan.scheduled]


def decoding(count: int, **options) -> World:
    """`count` requests that decode and go on for long."""
    world = World(config(**({"num_blocks": 400, "max_model_len": 200, "max_num_seqs": 16, "max_num_batched_tokens": 64} | options)))
    for i in range(count):
        world.add(f"r{i}", prompt_of(1, i), 150, vocab=40)
    world.step()
    return world


@pytest.mark.parametrize(("budget", "each"), [(64, 5), (24, 5), (20, 4), (11, 1), (8, 1), (7, 0), (4, 0)])
def test_drafts_share_what_the_step_has_left_evenly(budget: int, each: int) -> None:
    assert run(decoding(4, max_num_batched_tokens=budget, max_num_seqs=4), Speculator(DRAFT)) == [each] * 4


def test_while_a_prompt_waits_half_of_what_is_left_is_the_prompts() -> None:
    world = decoding(4, max_num_batched_tokens=20)
    world.add("long", prompt_of(90, 9), 5)
    assert run(world, Speculator(DRAFT)) == [2, 2, 2, 2, 0]
    assert world.scheduler.step_records[-1].prefill_tokens == 8
    assert run(world, Speculator(DRAFT))[:4] == [1, 1, 1, 1], "the same while it is in the middle"
    assert world.scheduler.step_records[-1].prefill_tokens == 12


@pytest.mark.parametrize("free", [3, 4, 6, 9, 12])
def test_drafts_take_no_block_that_somebody_needs_for_a_real_token(free: int) -> None:
    """Blocks of one token, all in use but a few: whoever runs gets one, and drafts what is left."""
    world = decoding(3, num_blocks=1 + 15 + free, block_size=1, admission="chunk", max_model_len=15 + free, max_num_seqs=3)
    while world.scheduler.kv.pool.num_free > free:
        world.step()
    assert world.scheduler.num_running == 3
    assert sum(run(world, Speculator(DRAFT))) == min(free - 3, 3 * 5)
    assert not any(request.num_preemptions for request in world.scheduler.requests.values())


def test_only_requests_about_to_decode_get_drafts_and_none_beyond_their_end() -> None:
    world = World(config(max_num_batched_tokens=8))
    world.add("long", prompt_of(20), 9)
    world.add("short", prompt_of(2, 1), 3)
    speculator = Speculator(DRAFT)
    assert run(world, speculator) == [0]
    while world.asked:
        drafts = run(world, speculator)
        assert len(drafts) <= 2 and max(drafts) <= 5
    assert world.scheduler.draft_counts.num_draft_tokens > 0


def test_what_a_model_drafts_is_left_to_the_worker_and_ngrams_are_looked_up_here() -> None:
    for speculative, drafts in ((DRAFT, (PLACEHOLDER,) * 5), (NGRAM, (3, 7, 3, 7, 3))):
        world = World(config(max_model_len=60, num_blocks=60))
        request = world.add("r", [7, 3, 7, 3], 40, vocab=50)
        world.step()
        request.token_ids[-1] = 7  # as if the model had said so
        Speculator(speculative).propose(world.scheduler)
        assert request.draft_token_ids == drafts


def test_a_finished_request_is_forgotten_and_its_name_starts_afresh() -> None:
    world, speculator = decoding(3), Speculator(NGRAM)
    run(world, speculator)
    assert len(speculator._drafting) == 3
    world.abort("r1")
    run(world, speculator)
    assert sorted(speculator._drafting) == ["r0", "r2"]
    world.abort("r0")
    new = world.add("r0", [1, 2, 3], 30)
    world.step()
    run(world, speculator)
    state = speculator._drafting["r0"]
    assert state.request is new and isinstance(state.request, Request)
    for name in list(world.asked):
        world.abort(name)
    run(world, speculator)
    assert speculator._drafting == {}


def test_each_request_has_a_length_of_its_own() -> None:
    """One repeats itself and keeps all of its drafts; the other's are wrong half of the time, and it gets fewer."""
    world = World(config(max_model_len=300, num_blocks=300))
    right = world.add("right", [1] * 5, 250, vocab=1)
    wrong = world.add("wrong", [1, 0, 1], 250, vocab=2)
    speculator = Speculator(SpeculativeConfig("ngram", 6, ngram_min=1), verify_token_cost=0.1)
    for _ in range(30):
        run(world, speculator)
    assert right.draft_counts.acceptance_rate == 1 and right.draft_counts.num_draft_tokens > 90
    assert 0 < wrong.draft_counts.num_draft_tokens < right.draft_counts.num_draft_tokens / 2
