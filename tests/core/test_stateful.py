"""Hypothesis drives a scheduler over the fake cache: any order of operations, and the shortest one that breaks something."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import InvalidRequestError, QueueFullError

from .world import World

STEMS = {"01234…": [0, 1, 2, 3, 4] * 8, "01200…": [0, 1, 2, 0, 0] * 8}


class SchedulerMachine(RuleBasedStateMachine):
    @initialize(
        block_size=st.sampled_from([1, 2, 4]),
        num_tokens=st.integers(8, 80),
        budget=st.integers(4, 20),
        max_num_seqs=st.integers(1, 4),
        caching=st.booleans(),
        threshold=st.sampled_from([0, 2]),
        partial=st.sampled_from([0, 1]),
        policy=st.sampled_from(["fcfs", "priority"]),
        admission=st.sampled_from(["chunk", "prompt", "request"]),
        swap=st.booleans(),
        is_async=st.booleans(),
    )
    def start(self, block_size, num_tokens, budget, max_num_seqs, caching, threshold, partial, policy, admission, swap, is_async) -> None:
        self.world = World(
            SchedulerConfig(
                num_blocks=2 + num_tokens // block_size,
                block_size=block_size,
                max_num_batched_tokens=budget,
                max_num_seqs=max_num_seqs,
                max_model_len=40,
                num_host_blocks=20,
                enable_prefix_caching=caching,
                long_prefill_token_threshold=threshold,
                max_num_partial_prefills=partial,
                policy=policy,
                admission=admission,
                preemption="swap" if swap else "recompute",
                async_scheduling=is_async,
            )
        )
        self.count = 0

    @rule(
        stem=st.sampled_from(sorted(STEMS)),
        length=st.integers(1, 40),
        tail=st.lists(st.integers(0, 4), max_size=2),
        max_tokens=st.integers(1, 20),
        n=st.sampled_from([1, 1, 1, 3]),
        priority=st.integers(-1, 1),
        tenant=st.sampled_from(["", "a"]),
        salt=st.sampled_from(["", "x"]),
        stop=st.sampled_from([frozenset(), frozenset({1})]),
    )
    def submit(self, stem, length, tail, max_tokens, n, priority, tenant, salt, stop) -> None:
        self.count += 1
        options = {"priority": priority, "tenant": tenant, "cache_keys": (("salt", salt),) if salt else (), "stop": stop}
        try:
            if n == 1:
                self.world.add(f"r{self.count}", STEMS[stem][:length] + tail, max_tokens, **options)
            else:
                self.world.add_group(f"r{self.count}", n, STEMS[stem][:length] + tail, max_tokens, **options)
        except (InvalidRequestError, QueueFullError):
            self.world.check()

    def alive(self) -> bool:
        return bool(self.world.asked)

    @precondition(alive)
    @rule(data=st.data(), how=st.sampled_from(["abort", "abort group", "finish"]))
    def end(self, data, how) -> None:
        name = data.draw(st.sampled_from(sorted(self.world.asked)))
        if how == "finish":
            self.world.finish(name, "stop_string")
        else:
            self.world.abort(name.split("#")[0] if how == "abort group" else name)

    @precondition(lambda self: self.alive() and not self.world.config.async_scheduling)
    @rule(count=st.integers(1, 4), right=st.integers(0, 4))
    def draft(self, count, right) -> None:
        for name in list(self.world.asked):
            self.world.propose(name, count, right)

    @precondition(lambda self: self.alive() and len(self.world.in_flight) < 3)
    @rule()
    def issue(self) -> None:
        self.world.issue()

    @precondition(lambda self: self.world.in_flight)
    @rule()
    def complete(self) -> None:
        self.world.complete()

    @precondition(alive)
    @rule(count=st.integers(1, 5))
    def steps(self, count) -> None:
        for _ in range(count):
            if self.world.asked and not self.world.in_flight:
                self.world.step()

    @precondition(alive)
    @rule()
    def fail(self) -> None:
        self.world.fail()

    @rule(seconds=st.sampled_from([0.5, 20.0]))
    def wait(self, seconds) -> None:
        self.world.now += seconds

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.drain()


TestScheduler = SchedulerMachine.TestCase
TestScheduler.settings = settings(
    max_examples=80, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
