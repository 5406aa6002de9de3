"""CUDA graphs of the decode step: one launch in place of hundreds.

Why buckets: a graph has fixed shapes, so a batch is padded to the next captured size; the largest is always the most requests that the
scheduler may run (CASEBOOK 11). A padding row has slot -1 and length 0, so it writes into no block (CASEBOOK 12).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import torch


class Graph(Protocol):
    def capture(self, body: Callable[[], None]) -> None: ...
    def replay(self) -> None: ...


class CudaGraph:
    """pool: memory that graphs share; they never run at the same time."""

    def __init__(self, pool: Any) -> None:
        self._graph, self._pool = torch.cuda.CUDAGraph(), pool

    def capture(self, body: Callable[[], None]) -> None:
        with torch.cuda.graph(self._graph, pool=self._pool):
            body()

    def replay(self) -> None:
        self._graph.replay()


def bucket_sizes(max_num_seqs: int) -> list[int]:
    """Batch sizes to capture: close together where a padded row costs most, always up to max_num_seqs itself."""
    sizes = [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, max_num_seqs, 32)]
    return [size for size in sizes if size < max_num_seqs] + [max_num_seqs]


class DecodeGraphs:
    """body(size): a decode step of the first `size` rows of the static buffers."""

    def __init__(self, sizes: Sequence[int], body: Callable[[int], None], make_graph: Callable[[], Graph]) -> None:
        self.sizes = sorted(sizes)
        self._body, self._make_graph = body, make_graph
        self._graphs: dict[int, Graph] = {}

    def capture(self, steps: Callable[[Iterable[int]], Iterable[int]] = iter) -> None:
        """Largest first, so that the smaller ones find room in its memory. steps: shows progress."""
        for size in steps(self.sizes[::-1]):
            self._body(size)  # compiles, and lets libraries take their scratch memory outside of the graph
            graph = self._make_graph()
            graph.capture(lambda size=size: self._body(size))
            self._graphs[size] = graph

    def size_for(self, num_rows: int) -> int:
        return self.sizes[bisect_left(self.sizes, num_rows)]

    def replay(self, size: int) -> None:
        self._graphs[size].replay()
