"""What the scheduler decides equals what a slow and obvious simulator of the same rules decides, step by step."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import InvalidRequestError

from .gold import Gold, Sequence
from .scenarios import random_config
from .world import World


def small_config(r: random.Random) -> SchedulerConfig:
    config = random_config(r)
    # powers of two: then the fixed sort key and the claim of the moment round alike, and equal claims are equal in both
    return replace(
        config,
        async_scheduling=False,
        max_waiting_requests=0,
        max_waiting_tokens=0,
        max_waiting_per_tenant=0,
        priority_aging_s=2.0,
        tenant_weights={"a": 2.0, "b": 0.5},
    )


def run_both(seed: int) -> int:
    r = random.Random(seed)
    config = small_config(r)
    world, gold = World(config), Gold(config)
    stems = [[r.randrange(3) for _ in range(60)] for _ in range(2)]
    num_preempted = 0
    for number in range(r.randint(2, 25)):
        for _ in range(r.choice([0, 1, 1, 2])):
            name = f"r{number}.{len(world.asked)}"
            prompt = r.choice(stems)[: r.randint(1, 40)] + [r.randrange(3) for _ in range(r.choice([0, 2]))]
            options = {
                "priority": r.choice([0, 0, -2, 3]),
                "tenant": r.choice(["", "a", "b"]),
                "cache_keys": r.choice([(), (("salt", "x"),)]),
            }
            try:
                request = world.add(name, prompt, r.randint(1, 30), **options)
            except InvalidRequestError:
                continue
            outputs = world.asked[name].expected
            gold.enqueue(
                Sequence(name, prompt, outputs, request.arrival, world.now, options["priority"], options["tenant"], options["cache_keys"])
            )
        if world.asked and r.random() < 0.1:
            name = r.choice(list(world.asked))
            world.abort(name)
            gold.abort(name)
        for _ in range(r.choice([1, 1, 2, 5])):
            num_preempted += compare_step(world, gold)
            world.now += r.choice([0.0, 0.25, 1.0])
    while world.asked:
        num_preempted += compare_step(world, gold)
        world.now += 0.5
    world.check_nothing_left()
    return num_preempted


def compare_step(world: World, gold: Gold) -> int:
    gold.now = world.now
    plan = world.issue()
    step = world.scheduler._in_flight[-1][1]
    preempted = [request.request_id for request in step.preempted]
    world.complete()
    ours = [(s.request_id, s.start, s.num_tokens, s.samples) for s in plan.scheduled], preempted
    assert ours == gold.step()
    assert world.scheduler.kv.pool.num_free == len(gold.free())
    assert world.scheduler.kv.pool.num_cached == sum(block.content is not None for block in gold.blocks)
    return len(preempted)


@pytest.mark.parametrize("part", range(4))
def test_scheduler_equals_the_gold_simulator(part: int) -> None:
    num_preempted = 0
    for seed in range(part * 25, part * 25 + 25):
        try:
            num_preempted += run_both(seed)
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise
    assert num_preempted > 5, "the workloads no longer reach preemption"
