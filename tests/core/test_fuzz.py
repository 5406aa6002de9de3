"""Random scenarios in numbers, and proof that they would see a fault: known faults are planted and must be found."""

from __future__ import annotations

import pytest

from infer_lab.core.block_hash import BlockKey
from infer_lab.core.block_pool import BlockPool
from infer_lab.core.kv_manager import KVCacheManager
from infer_lab.core.lifecycle import Lifecycle
from infer_lab.core.planner import Planner
from infer_lab.core.scheduler import Scheduler

from .fuzz import fuzz


def test_500_random_scenarios_read_only_their_own_kv_and_give_the_reference_output() -> None:
    seen = fuzz(0, 500)
    rare = ("preempted_in_flight", "swapped_in", "forked_with_copy", "placeholders", "drafts", "own_drafts", "mixed")
    assert min(seen[what] for what in rare) >= 20, seen


def token_ids_are_cut_and_not_compared(patch: pytest.MonkeyPatch) -> None:
    def cut(data: bytes) -> bytes:
        return bytes(byte & 1 for byte in data)

    def lookup(pool: BlockPool, key: BlockKey) -> int | None:
        return next((block for block, filed in enumerate(pool._keys) if filed and cut(filed.tokens) == cut(key.tokens)), None)

    patch.setattr(BlockPool, "lookup", lookup)


def keys_leave_out_the_adapter(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("infer_lab.core.block_hash.root_digest", lambda extra_keys: b"root")


def blocks_are_filed_when_planned(patch: pytest.MonkeyPatch) -> None:
    real = Planner._compute

    def compute(self: Planner, request, count, missing, step, **options) -> None:
        real(self, request, count, missing, step, **options)
        self.kv.file(request, min(request.num_computed_tokens, request.num_tokens))

    patch.setattr(Planner, "_compute", compute)


def rejected_drafts_count_as_computed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Scheduler, "_roll_back", lambda self, scheduled, request, num_tokens, step: None)


def a_fork_is_made_from_a_sibling_that_has_no_kv_yet(patch: pytest.MonkeyPatch) -> None:
    def source(self: Planner, request, step):
        group = self.life.groups.get(request.group_id or "")
        return next((m for m in (group.running() if group else []) if m.num_computed_tokens >= request.num_prompt_tokens - 1), None)

    patch.setattr(Planner, "_fork_source", source)


def the_newest_token_counts_as_written(patch: pytest.MonkeyPatch) -> None:
    real = KVCacheManager.file
    patch.setattr(KVCacheManager, "file", lambda self, request, final: real(self, request, min(final + 1, request.num_tokens)))


def a_full_hit_leaves_nothing_to_compute(patch: pytest.MonkeyPatch) -> None:
    real = KVCacheManager.match_prefix

    def match(self: KVCacheManager, request) -> list[int]:
        hits = real(self, request)
        keys = request.block_keys[len(hits) : len(hits) + 1]
        return hits + [block for key in keys if (block := self.pool.lookup(key)) is not None]

    patch.setattr(KVCacheManager, "match_prefix", match)


def hits_are_not_held(patch: pytest.MonkeyPatch) -> None:
    def attach(self: KVCacheManager, request, hits: list[int]) -> None:
        request.block_ids = list(hits)
        request.num_filed_blocks = len(hits)

    patch.setattr(KVCacheManager, "attach", attach)


def an_abort_forgets_the_blocks(patch: pytest.MonkeyPatch) -> None:
    real = Lifecycle.finish

    def finish(self: Lifecycle, request, reason: str, now: float):
        if reason == "abort":
            request.block_ids = []
        return real(self, request, reason, now)

    patch.setattr(Lifecycle, "finish", finish)


def an_evicted_block_stays_findable(patch: pytest.MonkeyPatch) -> None:
    def evict(self: BlockPool) -> int:
        block, _ = self._free_cached.popitem(last=False)
        return block

    patch.setattr(BlockPool, "_evict", evict)


def a_fork_shares_the_last_block_too(patch: pytest.MonkeyPatch) -> None:
    def fork(self: KVCacheManager, source, child, num_tokens: int) -> None:
        self.attach(child, source.block_ids[: self.blocks_for(num_tokens)])
        child.num_filed_blocks = num_tokens // self.block_size

    patch.setattr(KVCacheManager, "fork", fork)


def host_blocks_are_given_back_too_early(patch: pytest.MonkeyPatch) -> None:
    real = KVCacheManager.swap_out

    def swap_out(self: KVCacheManager, request):
        copies = real(self, request)
        self._free_host = list(dict.fromkeys([*self._free_host, *request.host_block_ids]))
        return copies

    patch.setattr(KVCacheManager, "swap_out", swap_out)


def the_most_urgent_gives_way(patch: pytest.MonkeyPatch) -> None:
    def make_room(self: Planner, request, count: int, step) -> int:
        if self.kv.room(request) < 1:
            self.life.running.remove(request)
            self.life.running.append(request)
            self._preempt(request, step)
            return 0
        return min(count, self.kv.room(request))

    patch.setattr(Planner, "_make_room", make_room)


def late_output_after_preemption_is_lost(patch: pytest.MonkeyPatch) -> None:
    real = Planner._preempt

    def preempt(self: Planner, request, step) -> None:
        real(self, request, step)
        request.num_pending_samples = 0

    patch.setattr(Planner, "_preempt", preempt)


FAULTS = [
    token_ids_are_cut_and_not_compared,
    keys_leave_out_the_adapter,
    blocks_are_filed_when_planned,
    rejected_drafts_count_as_computed,
    a_fork_is_made_from_a_sibling_that_has_no_kv_yet,
    the_newest_token_counts_as_written,
    a_full_hit_leaves_nothing_to_compute,
    hits_are_not_held,
    an_abort_forgets_the_blocks,
    an_evicted_block_stays_findable,
    a_fork_shares_the_last_block_too,
    host_blocks_are_given_back_too_early,
    the_most_urgent_gives_way,
    late_output_after_preemption_is_lost,
]


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_found(plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, IndexError, KeyError)):
        fuzz(0, 500)
