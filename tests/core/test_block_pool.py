"""The pool hands out each block once, evicts the oldest first, and keeps what is used."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.core.block_hash import BlockKey
from infer_lab.core.block_pool import NULL_BLOCK, BlockPool


def key(name: str) -> BlockKey:
    return BlockKey(name.encode(), b"", name.encode())


def test_the_null_block_is_never_handed_out() -> None:
    pool = BlockPool(5)
    assert sorted(pool.allocate(4)) == [1, 2, 3, 4]
    assert NULL_BLOCK == 0 and pool.num_free == 0


def test_empty_blocks_go_before_cached_ones_and_the_oldest_cached_goes_first() -> None:
    pool = BlockPool(5)
    a, b, c, d = pool.allocate(4)
    for block, name in ((a, "a"), (b, "b"), (c, "c")):
        pool.file(block, key(name))
    pool.release([a, b])  # b first, being the tail
    pool.release([c])
    pool.release([d])
    assert pool.allocate(1) == [d]
    assert pool.allocate(1) == [b]
    assert pool.lookup(key("b")) is None and pool.lookup(key("a")) == a
    pool.hold([a])  # a hit saves it
    pool.release([a])
    assert pool.allocate(2) == [c, a]
    assert pool.num_evicted == 3


def test_freeing_twice_is_our_bug_and_is_noticed() -> None:
    pool = BlockPool(3)
    blocks = pool.allocate(1)
    pool.release(blocks)
    with pytest.raises(AssertionError, match="freed twice"):
        pool.release(blocks)


def test_the_older_copy_of_equal_content_stays_the_one_that_is_found() -> None:
    pool = BlockPool(3)
    a, b = pool.allocate(2)
    pool.file(a, key("x"))
    pool.file(b, key("x"))
    assert pool.lookup(key("x")) == a
    pool.release([b])
    assert pool.num_cached == 1 and pool.allocate(1) == [b]
    pool.check_invariants([[a], [b]])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
@settings(max_examples=200, deadline=None)
def test_any_order_of_operations_keeps_the_books(operations: list[tuple[int, int]]) -> None:
    pool, tables = BlockPool(9), []
    for kind, number in operations:
        if kind == 0 and pool.num_free:
            tables.append(pool.allocate(1 + number % min(3, pool.num_free)))
        elif kind == 1 and tables:
            pool.release(tables.pop(number % len(tables)))
        elif kind == 2 and tables:
            block = tables[number % len(tables)][0]
            if pool._keys[block] is None:
                pool.file(block, key(str(number)))
        elif kind == 3 and (block := pool.lookup(key(str(number)))) is not None:
            pool.hold([block])
            tables.append([block])
        pool.check_invariants(tables)
        assert pool.num_cached <= pool.num_usable
    pool.clear_cache()
    pool.check_invariants(tables)
