"""Fixed buffers of a device's steps, without a device: nothing is overwritten before it was copied, and every batch finds its graph."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from infer_lab.worker.staging import Fields, StagingRing
from infer_lab.worker.step_graphs import StepGraphs, StepShape, graph_shapes

CPU = torch.device("cpu")


class LateCopies(StagingRing):
    """A device that copies as late as it may: when somebody waits for an event that was recorded after the copy."""

    def __init__(self, num_bytes: int) -> None:
        self.queue: list[Callable[[], None]] = []
        self.landed: list[list[int]] = []
        super().__init__(CPU, num_bytes, lambda device: LateEvent(self.queue))

    def send(self, num_bytes: int) -> None:
        host = self._host[self._at]
        self.queue.append(lambda: self.landed.append(host[:num_bytes].tolist()))
        self._copied[self._at].record()


class LateEvent:
    def __init__(self, queue: list[Callable[[], None]]) -> None:
        self._queue, self._marker = queue, None

    def record(self) -> None:
        self._marker = lambda: None
        self._queue.append(self._marker)

    def synchronize(self) -> None:
        while self._marker in self._queue:
            self._queue.pop(0)()


@pytest.mark.parametrize("seed", range(5))
def test_staging_memory_is_never_overwritten_before_it_was_copied(seed: int) -> None:
    rng, ring, sent = random.Random(seed), LateCopies(8), []
    for _ in range(50):
        values = [rng.randrange(256) for _ in range(rng.randint(1, 8))]
        ring.acquire()[: len(values)] = values
        ring.send(len(values))
        sent.append(values)
        assert ring.landed == sent[: len(ring.landed)]
    while ring.queue:
        ring.queue.pop(0)()
    assert ring.landed == sent


def test_fields_arrive_by_name_where_a_graph_looks_for_them() -> None:
    fields = Fields({"a": (torch.int64, [3]), "b": (torch.float32, [3, 2]), "c": (torch.int32, [2, 2])}, CPU)
    addresses = {name: tensor.data_ptr() for name, tensor in fields.on_device.items()}
    for step in range(5):
        host = fields.acquire()
        host["a"][:], host["b"][:], host["c"][:] = (1, 2, step), [[step, 2], [3, 4], [5, 6]], 7 + step
        fields.send(1)
        assert fields.on_device["a"].tolist() == [1, 2, step]
        assert fields.on_device["b"].tolist() == [[step, 2], [3, 4], [5, 6]]
        assert fields.on_device["c"].tolist() == [[7 + step] * 2, [0, 0]], "of the last no more than was asked for"
    assert addresses == {name: tensor.data_ptr() for name, tensor in fields.on_device.items()}


class Recorded:
    def capture(self, body: Callable[[], None]) -> None:
        body()
        self.replay = body


@pytest.mark.parametrize("most", [*range(1, 70), 100, 255, 256, 257, 300, 1000, 1024])
def test_every_batch_that_may_run_has_a_graph(most: int) -> None:
    graphs = StepGraphs(graph_shapes(most, 2048), lambda shape: None, Recorded)
    sizes = [shape.tokens for shape in graphs.shapes if not shape.chunks]
    assert sizes == sorted(set(sizes)) and sizes[-1] == most, "the largest batch has its own (CASEBOOK 11)"
    for count in range(1, most + 1):
        found = graphs.shape_for(StepShape(count, count, count, False))
        assert found is not None and not found.chunks and found.tokens == found.requests == found.sampled
        assert count <= found.tokens <= max(2 * count, count + 32)


def test_a_step_with_chunks_is_padded_only_where_it_fits() -> None:
    graphs = StepGraphs(graph_shapes(256, 300), lambda shape: None, Recorded)
    assert graphs.shape_for(StepShape(17, 3, 1, True)) == StepShape(32, 16, 16, True)
    assert graphs.shape_for(StepShape(256, 16, 16, True)) == StepShape(256, 16, 16, True)
    assert graphs.shape_for(StepShape(257, 3, 1, True)) is None, "no more tokens than a step may have are captured"
    assert graphs.shape_for(StepShape(40, 17, 17, True)) is None


def test_graphs_are_captured_after_a_run_and_replay_their_own_shape() -> None:
    one, four = StepShape(1, 1, 1, False), StepShape(4, 4, 4, False)
    ran: list[StepShape] = []
    graphs = StepGraphs([one, four], ran.append, Recorded)
    graphs.capture()
    assert ran == [four, four, one, one]
    graphs.replay(one)
    assert ran[4:] == [one]
