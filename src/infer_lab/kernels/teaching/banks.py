"""Bank conflicts, counted: how many turns shared memory needs to serve one access of a warp.

Shared memory has 32 banks of 4 bytes; word w lies in bank w % 32. Each bank serves one word a turn (lanes that want the same word share
it), so the access takes as many turns as the most wanted bank has distinct words. 1 is conflict-free, 32 is the worst.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

BANKS = 32


def turns(words: Iterable[int]) -> int:
    """Turns for one access whose lanes want these 4-byte words (index of the word in shared memory)."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for word in words:
        wanted[word % BANKS].add(word)
    return max((len(distinct) for distinct in wanted.values()), default=0)


def plain(row: int, column: int) -> int:
    """Word of element (row, column) of a 32 by 32 tile of 4-byte values, row after row."""
    return row * 32 + column


def padded(row: int, column: int) -> int:
    """One word of padding after every row: neighbours in a column fall into neighbouring banks."""
    return row * 33 + column


def swizzled(row: int, column: int) -> int:
    """No padding: the columns of each row are permuted by exclusive-or with the row number."""
    return row * 32 + (column ^ row)


def row_turns(place: Callable[[int, int], int]) -> int:
    """A warp writes a row of the tile (32 neighbouring columns)."""
    return max(turns(place(row, lane) for lane in range(32)) for row in range(32))


def column_turns(place: Callable[[int, int], int]) -> int:
    """A warp reads a column of the tile (32 neighbouring rows)."""
    return max(turns(place(lane, column) for lane in range(32)) for column in range(32))
