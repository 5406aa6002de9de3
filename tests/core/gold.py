"""The same rules as the scheduler's, written to be believed rather than to be fast: lists, full rescans, prefixes compared token by token.

No hashes, no reference counts that are kept up to date, no heaps, no fixed sort keys: every step looks at everything again. What the real
scheduler decides must equal what this decides (`test_gold.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from infer_lab.core.config import SchedulerConfig


@dataclass(eq=False)
class Block:
    content: tuple | None = None  # (cache keys, all tokens up to its end) once it is filed
    freed_at: int = 0


@dataclass(eq=False)
class Sequence:
    name: str
    prompt: list[int]
    outputs: list[int]  # what the model will say
    arrival: int
    arrival_time: float
    priority: int
    tenant: str
    keys: tuple
    said: int = 0
    computed: int = 0
    offered: int = 0
    table: list[Block] = field(default_factory=list)
    on_host: int = 0

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.outputs[: self.said]


class Gold:
    """One call of `step` plans, runs and applies. It returns what was computed: (name, first position, tokens, samples), in order."""

    def __init__(self, config: SchedulerConfig) -> None:
        self.c = config
        self.blocks = [Block() for _ in range(config.num_blocks - 1)]
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.service: dict[str, float] = {}
        self.virtual_time = 0.0  # what each unit of weight would have got if all alive were served evenly
        self.queued_since: dict[str, int] = {}
        self.pushes = 0
        self.clock = 0  # orders the giving back of blocks
        self.now = 0.0

    # -- blocks --------------------------------------------------------------------------------------------------------------

    def free(self) -> list[Block]:
        return [b for b in self.blocks if not any(b in s.table for s in self.running)]

    def grow(self, s: Sequence, tokens: int) -> None:
        while len(s.table) * self.c.block_size < tokens:
            free = self.free()
            empty = [b for b in free if b.content is None]
            block = empty[0] if empty else min(free, key=lambda b: b.freed_at)
            block.content = None
            s.table.append(block)

    def give_back(self, s: Sequence) -> None:
        for block in reversed(s.table):
            self.clock += 1
            block.freed_at = self.clock
        s.table, s.offered = [], 0

    def find(self, s: Sequence, tokens: int) -> Block | None:
        return next((b for b in self.blocks if b.content == (s.keys, tuple(s.tokens[:tokens]))), None)

    def hits(self, s: Sequence) -> list[Block]:
        hits: list[Block] = []
        size = self.c.block_size
        while self.c.enable_prefix_caching and (len(hits) + 1) * size < len(s.tokens):
            block = self.find(s, (len(hits) + 1) * size)
            if block is None:
                break
            hits.append(block)
        return hits

    # -- order ---------------------------------------------------------------------------------------------------------------

    def claim(self, s: Sequence) -> tuple[float, int]:
        """Smaller is more urgent, looked at now: waiting lowers it."""
        if self.c.policy == "fcfs":
            return 0.0, s.arrival
        return s.priority - (self.now - s.arrival_time) / self.c.priority_aging_s, s.arrival

    def next_waiting(self) -> Sequence | None:
        if not self.waiting:
            return None
        tenant = min({s.tenant for s in self.waiting}, key=lambda t: (self.service[t], self.queued_since[t]))
        return min((s for s in self.waiting if s.tenant == tenant), key=self.claim)

    def enqueue(self, s: Sequence) -> None:
        if not any(other.tenant == s.tenant for other in self.waiting):
            self.service[s.tenant] = max(self.service.get(s.tenant, 0.0), self.virtual_time)
            self.pushes += 1
            self.queued_since[s.tenant] = self.pushes
        self.waiting.append(s)

    # -- the step --------------------------------------------------------------------------------------------------------------

    def step(self) -> tuple[list[tuple[str, int, int, bool]], list[str]]:
        done: list[tuple[Sequence, int, int, bool]] = []
        preempted: list[Sequence] = []
        budget = self.c.max_num_batched_tokens
        most = self.c.long_prefill_token_threshold or budget
        size = self.c.block_size
        for s in sorted(self.running, key=self.claim):
            if s not in self.running:
                break
            behind = sum(self.claim(other) > self.claim(s) for other in self.running)
            count = min(len(s.tokens) - s.computed, most, budget - behind)
            while (len(s.table) + len(self.free())) * size == s.computed and s in self.running:
                victim = max(self.running, key=self.claim)
                preempted.append(victim)
                self.running.remove(victim)
                host_used = sum(w.on_host for w in self.waiting)
                blocks = -(-victim.computed // size)
                if self.c.preemption == "swap" and host_used + blocks <= self.c.num_host_blocks:
                    victim.on_host = blocks
                else:
                    victim.computed = 0
                self.give_back(victim)
                self.enqueue(victim)
            if s not in self.running:
                break
            count = min(count, (len(s.table) + len(self.free())) * size - s.computed)
            budget -= self.compute(s, count, done)
        served: dict[str, int] = {}
        for s, _, count, _ in done:
            served[s.tenant] = served.get(s.tenant, 0) + count
        for tenant, count in served.items():
            self.charge(tenant, count)

        while not preempted and budget and len(self.running) < self.c.max_num_seqs and (s := self.next_waiting()):
            hits = self.hits(s)
            computed = s.computed if s.on_host else len(hits) * size
            hits = hits[: computed // size]
            missing = len(s.tokens) - computed
            count = min(missing, budget, most)
            if count < missing:
                partial = sum(not samples for *_, samples in done)
                if not self.c.enable_chunked_prefill or (self.c.max_num_partial_prefills and partial >= self.c.max_num_partial_prefills):
                    break
            wanted = computed + count
            available = len([b for b in self.free() if b not in hits])
            if self.running:
                available -= int(self.c.watermark * len(self.blocks))
                if self.c.admission == "prompt":
                    wanted = len(s.tokens)
                if self.c.admission == "request":
                    wanted = len(s.prompt + s.outputs) - 1
                    available -= sum(-(-(len(r.prompt + r.outputs) - 1) // size) - len(r.table) for r in self.running)
            if -(-wanted // size) - len(hits) > available:
                break
            self.waiting.remove(s)
            self.running.append(s)
            s.on_host, s.computed, s.table, s.offered = 0, computed, list(hits), len(hits)
            budget -= self.compute(s, count, done)
            self.charge(s.tenant, count)

        for s, _, _, samples in done:
            s.said += samples
            while self.c.enable_prefix_caching and (s.offered + 1) * size <= s.computed:
                if self.find(s, (s.offered + 1) * size) is None:
                    s.table[s.offered].content = (s.keys, tuple(s.tokens[: (s.offered + 1) * size]))
                s.offered += 1
            if s.said == len(s.outputs):
                self.running.remove(s)
                self.give_back(s)
        return [(s.name, start, count, samples) for s, start, count, samples in done], [s.name for s in preempted]

    def compute(self, s: Sequence, count: int, done: list) -> int:
        start, s.computed = s.computed, s.computed + count
        self.grow(s, s.computed)
        done.append((s, start, count, s.computed == len(s.tokens)))
        return count

    def charge(self, tenant: str, count: int) -> None:
        alive = {s.tenant for s in self.running + self.waiting}
        self.service[tenant] += count / self.weight(tenant)
        self.virtual_time += count / sum(map(self.weight, alive))

    def weight(self, tenant: str) -> float:
        return self.c.tenant_weights.get(tenant, 1.0)

    def abort(self, name: str) -> None:
        for queue in (self.running, self.waiting):
            for s in [s for s in queue if s.name == name]:
                queue.remove(s)
                self.give_back(s)
