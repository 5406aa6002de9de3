"""Random workloads from a seed: tiny pools, shared prefixes, everything switched on and off. One number reproduces a run."""

from __future__ import annotations

import random

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import InvalidRequestError, QueueFullError

from .world import World


def random_config(r: random.Random) -> SchedulerConfig:
    block_size = r.choice([1, 2, 3, 4, 8])
    max_model_len = r.choice([r.randint(2, 60), r.randint(20, 60)])
    max_num_seqs = r.choice([1, 2, 4, 8, 8])
    chunked = r.random() < 0.85
    budget = max(max_num_seqs, r.choice([1, 2, 3, 5, 8, 16, 64]))
    num_host_blocks = r.choice([0, 4, 30, 60])
    pressed = r.random() < 0.4  # a pool that holds one request of full length, and lets anybody in
    return SchedulerConfig(
        num_blocks=2 + int(max_model_len * (1.0 if pressed else r.choice([0.6, 1.0, 1.2, 1.5, 4.0])) / block_size),
        block_size=block_size,
        max_num_batched_tokens=budget if chunked else max(budget, max_model_len),
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
        num_host_blocks=num_host_blocks,
        watermark=0.0 if pressed else r.choice([0.0, 0.0, 0.1, 0.5]),
        enable_prefix_caching=r.random() < 0.8,
        enable_chunked_prefill=chunked,
        long_prefill_token_threshold=r.choice([0, 0, 1, 3, 7]) if chunked else 0,
        max_num_partial_prefills=r.choice([0, 0, 1, 2]) if chunked else 0,
        max_waiting_requests=r.choice([0, 0, 0, 3]),
        max_waiting_tokens=r.choice([0, 0, 0, 40]),
        max_waiting_per_tenant=r.choice([0, 0, 0, 2]),
        policy=r.choice(["fcfs", "priority"]),
        priority_aging_s=r.choice([0.5, 5.0]),
        tenant_weights={"a": 2.0, "b": 0.5},
        admission="chunk" if pressed else r.choice(["chunk", "prompt", "prompt", "request"]),
        preemption="swap" if num_host_blocks and r.random() < 0.6 else "recompute",
        async_scheduling=r.random() < 0.35,
        step_records=4,
    )


class Workload:
    """Draws operations for a world. Prompts come from few stems, so that prefixes are shared, at awkward lengths."""

    def __init__(self, r: random.Random, config: SchedulerConfig) -> None:
        self.r = r
        self.world = World(config, lazy=r.random() < 0.5)
        longest = config.max_model_len + 2
        self.stems = [[r.randrange(5) for _ in range(longest)] for _ in range(r.randint(1, 3))]
        self.tenants = r.choice([[""], ["", "a", "b"]])
        self.priorities = r.choice([[0], [-3, 0, 4]])
        self.keys = r.choice([[()], [(), (("adapter", "fr"),), (("salt", "fr"),)]])
        self.with_drafts = not config.async_scheduling and r.random() < 0.5
        self.fails = r.random() < 0.1
        self.depth = r.choice([1, 2, 2, 3])
        self.names = 0

    def prompt(self) -> list[int]:
        r = self.r
        stem, size = r.choice(self.stems), self.world.config.block_size
        short, near_an_edge = r.randint(1, 1 + len(stem) // 4), size * r.randint(1, 4) + r.choice([-1, 0, 1])
        length = min(r.choice([r.randint(1, len(stem)), short, short, near_an_edge]), len(stem) - r.choice([0, 3, 9]))
        return stem[: max(1, length)] + [r.randrange(5) for _ in range(r.choice([0, 0, 1, 3]))]

    def submit(self) -> None:
        r = self.r
        self.names += 1
        name = f"r{self.names}"
        options = {
            "stop": frozenset(r.choice([(), (), (), (0,)])),
            "cache_keys": r.choice(self.keys),
            "priority": r.choice(self.priorities),
            "tenant": r.choice(self.tenants),
        }
        prompt, max_tokens = self.prompt(), r.choice([1, 2, r.randint(1, 20), r.randint(1, 60), r.randint(20, 60)])
        try:
            if r.random() < 0.15:
                self.world.add_group(name, r.randint(1, 4), prompt, max_tokens, **options)
            else:
                self.world.add(name, prompt, max_tokens, seed=r.choice([0, 0, 1]), **options)
        except (InvalidRequestError, QueueFullError):
            self.world.check()

    def disturb(self) -> None:
        r, world = self.r, self.world
        if world.asked and r.random() < 0.1:
            name = r.choice(list(world.asked))
            r.choice([lambda: world.abort(name), lambda: world.abort(name.split("#")[0]), lambda: world.finish(name, "stop_string")])()
        if self.fails and r.random() < 0.05:
            world.fail()
        if self.with_drafts:
            for name in list(world.asked):
                if r.random() < 0.4:
                    world.propose(name, r.randint(1, 5), r.randint(0, 5))
                elif r.random() < 0.2:
                    world.propose_placeholders(name, r.randint(1, 5))

    def run(self, num_operations: int) -> None:
        r, world = self.r, self.world
        for _ in range(num_operations):
            if r.random() < 0.4:
                self.submit()
            self.disturb()
            if len(world.in_flight) < self.depth and r.random() < 0.8:
                world.issue()
            elif world.in_flight:
                world.complete()
            world.now += r.choice([0.0, 0.1, 3.0])
            self.disturb()
        world.drain(tick=0.1, depth=self.depth)


def run_scenario(seed: int) -> World:
    r = random.Random(seed)
    workload = Workload(r, random_config(r))
    workload.run(r.randint(5, 40))
    return workload.world
