"""Which tile of which request and head a program of flash prefill works on, and in which order.

Programs start in the order of the grid, its first axis fastest. That axis holds all tiles of `kv_heads_together` KV heads, the second one
the groups of KV heads: programs that run at the same time read the same keys and values if they belong to one KV head, and only that
head's then have to stay in the L2. With all KV heads together each wave of programs fetches all keys and values again, once they
outgrow it (counted: labs/part2/flash-attention-traffic.ipynb). Inside the axis late tiles, which see most keys, start first.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def locate_tile(cu_seqlens_q, num_requests, tile, min_query_len, BLOCK_M: tl.constexpr, REQUESTS: tl.constexpr):
    """(request, tile inside it) of a flat tile number; request >= num_requests past the last. Requests below the minimum have no tile."""
    r = tl.arange(0, REQUESTS)
    here = r < num_requests
    start = tl.load(cu_seqlens_q + r, mask=here, other=0)
    end = tl.load(cu_seqlens_q + r + 1, mask=here, other=0)
    length = end - start
    tiles = tl.where(length >= min_query_len, (length + BLOCK_M - 1) // BLOCK_M, 0)
    ends = tl.cumsum(tiles, 0)
    before = ends <= tile
    request = tl.sum(before.to(tl.int32), 0)
    first = tl.sum(tl.where(before, tiles, 0), 0)
    return request, tile - first


def grid(num_tiles: int, heads: int, kv_heads: int, kv_heads_together: int) -> tuple[int, int]:
    """num_tiles: of a head, over all requests."""
    together = heads // kv_heads * kv_heads_together
    return num_tiles * together, heads // together
