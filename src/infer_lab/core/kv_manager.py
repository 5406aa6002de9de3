"""Block tables: which blocks a request reads and writes, and which of its KV others may take over.

Why apart from the pool: the pool knows blocks, this knows tokens. A table and its regions, for a request in the middle of a step:

    block_ids    [ 7 ][ 3 ][ 9 ][ 4 ][ 8 ]
    positions    0        num_filed·B                num_computed              len(block_ids)·B
                 |  filed in the  |  written by issued  |  room: next tokens, |
                 |  prefix cache  |  plans, not filed   |  rejected drafts    |
                                  (a block is filed only when it is full, and every token in it is final and applied)

So a block that others can find was written by a step that is over, and nobody writes into it again: whoever takes it over
reads finished KV, also when plans are issued ahead of their outputs.
"""

from __future__ import annotations

from collections.abc import Iterable

from infer_lab.core.block_hash import extend_block_keys
from infer_lab.core.block_pool import BlockPool
from infer_lab.core.plan import BlockCopy
from infer_lab.core.request import Request


class KVCacheManager:
    """Changes only a request's block_ids, host_block_ids, block_keys and num_filed_blocks.

    num_blocks: device blocks, the null block 0 included. num_host_blocks: blocks in host memory for swapped requests.
    """

    def __init__(
        self,
        num_blocks: int,
        block_size: int,
        *,
        num_host_blocks: int = 0,
        enable_prefix_caching: bool = True,
    ) -> None:
        self.block_size = block_size
        self.pool = BlockPool(num_blocks)
        self.enable_prefix_caching = enable_prefix_caching
        self.num_host_blocks = num_host_blocks
        self._free_host = list(range(num_host_blocks - 1, -1, -1))

    @property
    def num_free_host_blocks(self) -> int:
        return len(self._free_host)

    def blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def room(self, request: Request) -> int:
        """How many tokens more than num_computed_tokens the table can take, with every free block of the pool."""
        return (len(request.block_ids) + self.pool.num_free) * self.block_size - request.num_computed_tokens

    # -- taking over KV that is there ------------------------------------------------------------------------------------

    def match_prefix(self, request: Request) -> list[int]:
        """Cached blocks that hold the longest prefix of the request's tokens, always leaving at least one token to compute
        (a step must have a token whose logits it samples from). Nothing is held yet."""
        if not self.enable_prefix_caching or request.skip_reading_prefix_cache:
            return []
        extend_block_keys(request.block_keys, request.token_ids, request.cache_keys, self.block_size)
        hits = []
        for key in request.block_keys[: (request.num_tokens - 1) // self.block_size]:
            block = self.pool.lookup(key)
            if block is None:
                break
            hits.append(block)
        return hits

    def num_free_after(self, hits: Iterable[int]) -> int:
        """Free blocks left once these are held: hits on free cached blocks use up free blocks."""
        return self.pool.num_free - sum(self.pool.is_free(block) for block in hits)

    def attach(self, request: Request, hits: list[int]) -> None:
        """Start the (empty) table with cached blocks."""
        assert not request.block_ids
        self.pool.hold(hits)
        request.block_ids = list(hits)
        request.num_filed_blocks = len(hits)

    def fork(self, source: Request, child: Request, num_tokens: int) -> BlockCopy | None:
        """Start the child's table with the first `num_tokens` positions of the source's: full blocks shared, a partly used last
        one copied, since both will write into it."""
        full, rest = divmod(num_tokens, self.block_size)
        self.attach(child, source.block_ids[:full])
        child.num_filed_blocks = min(full, source.num_filed_blocks)
        if not rest:
            return None
        child.block_ids += self.pool.allocate(1)
        return BlockCopy(source.block_ids[full], child.block_ids[full])

    # -- growing, filing, giving back --------------------------------------------------------------------------------------

    def extend(self, request: Request, num_tokens: int) -> tuple[int, ...]:
        """Make the table long enough for `num_tokens` positions; the new blocks. The caller has looked at `room`."""
        missing = -(-num_tokens // self.block_size) - len(request.block_ids)
        if missing <= 0:
            return ()
        new_blocks = self.pool.allocate(missing)
        request.block_ids += new_blocks
        return tuple(new_blocks)

    def file(self, request: Request, num_final_tokens: int) -> None:
        """File the blocks filled by the first `num_final_tokens` positions: all known tokens, their KV written by applied steps."""
        full = num_final_tokens // self.block_size
        if full <= request.num_filed_blocks or not self.enable_prefix_caching:
            return
        extend_block_keys(request.block_keys, request.token_ids, request.cache_keys, self.block_size)
        for index in range(request.num_filed_blocks, full):
            self.pool.file(request.block_ids[index], request.block_keys[index])
        request.num_filed_blocks = full

    def release(self, request: Request) -> None:
        """Give back everything that the request holds, on the device and on the host."""
        self.pool.release(request.block_ids)
        self._free_host.extend(reversed(request.host_block_ids))
        request.block_ids, request.host_block_ids = [], []
        request.num_filed_blocks = 0

    # -- host memory ---------------------------------------------------------------------------------------------------------

    def can_swap_out(self, request: Request) -> bool:
        return 0 < self.blocks_for(request.num_computed_tokens) <= len(self._free_host)

    def swap_out(self, request: Request) -> tuple[BlockCopy, ...]:
        """Move the request's KV to host blocks. Its cached device blocks stay findable until they are evicted."""
        used = request.block_ids[: self.blocks_for(request.num_computed_tokens)]
        host = [self._free_host.pop() for _ in used]
        self.release(request)
        request.host_block_ids = host
        return tuple(map(BlockCopy, used, host))

    def swap_in(self, request: Request, hits: list[int]) -> tuple[BlockCopy, ...]:
        """Bring KV back: `hits` are still on the device, the rest comes from the host."""
        host, count = request.host_block_ids, self.blocks_for(request.num_computed_tokens)
        self.attach(request, hits)
        moved = self.pool.allocate(count - len(hits))
        request.block_ids += moved
        request.host_block_ids = []
        self._free_host.extend(reversed(host))
        return tuple(map(BlockCopy, host[len(hits) : count], moved))

    def check_invariants(self, requests: Iterable[Request]) -> None:
        """`requests`: every request alive."""
        requests = list(requests)
        self.pool.check_invariants([request.block_ids for request in requests])
        host = sorted([*self._free_host, *(block for request in requests for block in request.host_block_ids)])
        assert host == list(range(self.num_host_blocks)), "a host block is lost or held twice"
        for request in requests:
            assert len(set(request.block_ids)) == len(request.block_ids), f"{request}: a block twice in one table"
            assert request.num_filed_blocks <= min(len(request.block_ids), request.num_computed_tokens // self.block_size)
            assert not (request.block_ids and request.host_block_ids), f"{request}: on device and host at once"
            held = max(len(request.block_ids), len(request.host_block_ids))
            assert request.num_computed_tokens <= held * self.block_size, f"{request}: KV beyond its blocks"
