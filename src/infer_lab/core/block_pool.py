"""Who owns each KV block: the one place that hands blocks out and takes them back.

Why: KV memory is one array of equal blocks. A block is used (its count of holders is > 0), or free; a free block may still be
*cached*, i.e. hold KV that a later request can take over, until somebody needs the space.

    block 0                 the null block: never handed out, the harmless target of padding rows
    free, empty             reused first, last freed first
    free, cached            reused when no empty one is left, least recently used first
    used, cached or not     counted

(Paged KV is vLLM's; reference counts and LRU over free cached blocks follow its V1 block pool.)
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence

from infer_lab.core.block_hash import BlockKey

NULL_BLOCK = 0


class BlockPool:
    """`num_blocks` counts the null block; `num_usable` = num_blocks - 1 can hold KV. Everything is O(1) a block."""

    def __init__(self, num_blocks: int) -> None:
        assert num_blocks >= 2, "one null block and at least one to use"
        self.num_blocks = num_blocks
        self._ref_counts = [0] * num_blocks
        self._keys: list[BlockKey | None] = [None] * num_blocks
        self._block_of: dict[bytes, int] = {}  # digest → block: at most one block a digest, at most num_blocks entries
        self._empty = list(range(num_blocks - 1, NULL_BLOCK, -1))  # a stack; low ids come first
        self._free_cached: OrderedDict[int, None] = OrderedDict()  # oldest first
        self.num_evicted = 0

    @property
    def num_usable(self) -> int:
        return self.num_blocks - 1

    @property
    def num_free(self) -> int:
        return len(self._empty) + len(self._free_cached)

    @property
    def num_used(self) -> int:
        return self.num_usable - self.num_free

    @property
    def num_cached(self) -> int:
        return len(self._block_of)

    def allocate(self, count: int) -> list[int]:
        """`count` blocks, one holder each. The caller has looked at `num_free`."""
        assert count <= self.num_free, f"{count} blocks wanted, {self.num_free} free"
        blocks = []
        for _ in range(count):
            block = self._empty.pop() if self._empty else self._evict()
            self._ref_counts[block] = 1
            blocks.append(block)
        return blocks

    def hold(self, blocks: Iterable[int]) -> None:
        """One more holder for each: a prefix hit on it (used or free), or a fork."""
        for block in blocks:
            if self._ref_counts[block] == 0:
                del self._free_cached[block]
            self._ref_counts[block] += 1

    def release(self, blocks: Sequence[int]) -> None:
        """One holder less for each block of a table, last block first, so that the tail of a prefix is evicted before its head."""
        for block in reversed(blocks):
            assert self._ref_counts[block] > 0, f"block {block} freed twice"
            self._ref_counts[block] -= 1
            if self._ref_counts[block] == 0:
                if self._keys[block] is None:
                    self._empty.append(block)
                else:
                    self._free_cached[block] = None

    def file(self, block: int, key: BlockKey) -> None:
        """Offer a full, final block to the cache. If its content is cached already, the older copy stays the one that is found."""
        if key.digest in self._block_of:
            return
        assert self._ref_counts[block] > 0 and self._keys[block] is None, f"block {block} cannot be filed"
        self._keys[block] = key
        self._block_of[key.digest] = block

    def lookup(self, key: BlockKey) -> int | None:
        """The block that holds this content. Parent and tokens are compared, not only the digest."""
        block = self._block_of.get(key.digest)
        return block if block is not None and self._keys[block] == key else None

    def is_free(self, block: int) -> bool:
        return self._ref_counts[block] == 0

    def is_cached(self, block: int) -> bool:
        """It holds KV that can be found, whether somebody uses it or not."""
        return self._keys[block] is not None

    def clear_cache(self) -> None:
        """Forget every cached block (new weights, a fresh measurement). Blocks in use stay in use, unfiled."""
        for block in self._block_of.values():
            self._keys[block] = None
        self._block_of.clear()
        self._empty.extend(reversed(self._free_cached))
        self._free_cached.clear()

    def _evict(self) -> int:
        block, _ = self._free_cached.popitem(last=False)
        key = self._keys[block]
        assert key is not None
        del self._block_of[key.digest]
        self._keys[block] = None
        self.num_evicted += 1
        return block

    def check_invariants(self, tables: Iterable[Sequence[int]] | None = None) -> None:
        """`tables`: every block table alive, if the caller wants the counts compared with the holders."""
        empty, cached = set(self._empty), set(self._free_cached)
        assert len(empty) == len(self._empty) and not empty & cached, "a block is free twice"
        free = empty | cached
        assert NULL_BLOCK not in free and self._ref_counts[NULL_BLOCK] == 0 and self._keys[NULL_BLOCK] is None
        for block in range(1, self.num_blocks):
            assert self._ref_counts[block] >= 0
            assert (self._ref_counts[block] == 0) == (block in free), f"block {block} is lost or free while in use"
            assert (self._keys[block] is None) or (block not in empty), f"empty block {block} has a key"
            assert (self._keys[block] is not None) or (block not in cached), f"cached block {block} has no key"
        filed = {block: key for block, key in enumerate(self._keys) if key is not None}
        assert len(filed) == len(self._block_of)
        assert all(self._block_of[key.digest] == block for block, key in filed.items())
        if tables is not None:
            holders = Counter(block for table in tables for block in table)
            assert {b: n for b, n in enumerate(self._ref_counts) if n} == dict(holders), "holders do not match the counts"
