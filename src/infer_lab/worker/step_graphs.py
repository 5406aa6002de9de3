"""CUDA graphs of steps: one launch in place of hundreds.

Why shapes: a graph has fixed sizes, so a step is padded to the next captured one. Of decode steps the largest is always the most requests
that the scheduler may run (CASEBOOK 11). A padding row has slot -1 and length 0, so it writes into no block (CASEBOOK 12). Steps with
prompt chunks have graphs while they are small: then launching takes longer than computing, and padding costs little, since the weights
must be read anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch

MOST_CHUNK_REQUESTS = 16  # requests in a captured step with chunks
_CHUNK_TOKENS = (16, 32, 64, 96, 128, 192, 256, 384, 512)


class StepShape(NamedTuple):
    """Sizes of a step: its tokens, its requests, and of how many rows logits are wanted. chunks: whether any request has several tokens;
    without them, every token is a request and a row."""

    tokens: int
    requests: int
    sampled: int
    chunks: bool


class Graph(Protocol):
    def capture(self, body: Callable[[], object]) -> None: ...
    def replay(self) -> None: ...


class CudaGraph:
    """pool: memory that graphs share; they never run at the same time."""

    def __init__(self, pool: Any) -> None:
        self._graph, self._pool = torch.cuda.CUDAGraph(), pool

    def capture(self, body: Callable[[], object]) -> None:
        with torch.cuda.graph(self._graph, pool=self._pool):
            body()

    def replay(self) -> None:
        self._graph.replay()


def graph_shapes(max_num_seqs: int, max_tokens: int) -> list[StepShape]:
    """What to capture: close together where padding costs most."""
    sizes = [1, 2, 4, *range(8, 64, 8), *range(64, 256, 16), *range(256, max_num_seqs, 32)]
    decodes = [StepShape(n, n, n, False) for n in (*(size for size in sizes if size < max_num_seqs), max_num_seqs)]
    requests = min(MOST_CHUNK_REQUESTS, max_num_seqs)
    return decodes + [StepShape(n, requests, requests, True) for n in _CHUNK_TOKENS if n <= max_tokens]


class StepGraphs:
    """body: a step of this shape on the static buffers."""

    def __init__(self, shapes: Sequence[StepShape], body: Callable[[StepShape], object], make_graph: Callable[[], Graph]) -> None:
        self.shapes = sorted(shapes)
        self._body, self._make_graph = body, make_graph
        self._graphs: dict[StepShape, Graph] = {}

    def capture(self, steps: Callable[[Iterable[StepShape]], Iterable[StepShape]] = iter) -> None:
        """Largest first, so that the smaller ones find room in its memory. steps: shows progress."""
        for shape in steps(self.shapes[::-1]):
            self._body(shape)  # compiles, and lets libraries take their scratch memory outside of the graph
            graph = self._make_graph()
            graph.capture(lambda shape=shape: self._body(shape))
            self._graphs[shape] = graph

    def shape_for(self, needed: StepShape) -> StepShape | None:
        """The smallest captured shape that holds such a step."""
        for shape in self.shapes:
            if shape.chunks == needed.chunks and shape.tokens >= needed.tokens and shape.requests >= needed.requests:
                return shape
        return None

    def replay(self, shape: StepShape) -> None:
        self._graphs[shape].replay()
