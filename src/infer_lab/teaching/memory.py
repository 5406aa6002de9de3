"""Two levels of memory: what lives in `Slow` costs when it is touched; what a function holds in local variables is free.

Why: an argument about traffic is settled by counting. The same algorithm runs, gives the same numbers, and says what it moved.
"""

from __future__ import annotations

from typing import Any

import torch

from infer_lab.errors import UnsupportedOptionError


class Slow:
    """A tensor in slow memory. Each index expression reads or writes one slice; elements are counted."""

    def __init__(self, data: torch.Tensor) -> None:
        self.data = data
        self.read = 0
        self.written = 0

    @classmethod
    def empty(cls, *shape: int, like: torch.Tensor) -> Slow:
        return cls(like.new_full(shape, float("nan")))

    def __getitem__(self, index: Any) -> torch.Tensor:
        found = self.data[index]
        self.read += found.numel()
        return found.clone()

    def __setitem__(self, index: Any, value: torch.Tensor) -> None:
        self.data[index] = value
        self.written += self.data[index].numel()


class InPages(Slow):
    """Rows of one request in pages: row i is `pages[table[i // page], i % page]`, with `pages [blocks, page, d]`. To read only.

    Stands where a `Slow` of rows stands, so that one algorithm runs over either layout. A slice of rows looks up each page that it
    touches once, and counts that in `table`. `data` holds the rows in order, for their number and for references.
    """

    def __init__(self, pages: torch.Tensor, table: Slow, length: int) -> None:
        super().__init__(pages[table.data.long()].flatten(0, 1)[:length])
        self.pages = pages
        self.table = table

    def __getitem__(self, index: slice) -> torch.Tensor:
        start, stop, _ = index.indices(len(self.data))
        page, parts = self.pages.shape[1], []
        for number in range(start // page, -(-stop // page)):
            first = number * page
            parts.append(self.pages[int(self.table[number]), max(start - first, 0) : stop - first])
        found = torch.cat(parts)
        self.read += found.numel()
        return found

    def __setitem__(self, index: Any, value: torch.Tensor) -> None:
        raise UnsupportedOptionError("rows in pages are to read only")


def moved(*tensors: Slow) -> int:
    """Elements read and written, together."""
    return sum(tensor.read + tensor.written for tensor in tensors)
