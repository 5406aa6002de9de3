"""Fixed buffers of a device's steps, without a device: nothing is overwritten before it was copied, and every batch finds its graph."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from infer_lab.worker.decode_graphs import DecodeGraphs, bucket_sizes
from infer_lab.worker.staging import Fields, StagingRing

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
        values = [rng.randrange(256) for _ in range(rng.randint(1, 8 + 3 * (rng.random() < 0.1)))]  # now and then it must grow
        ring.acquire(len(values))[: len(values)] = values
        ring.send(len(values))
        sent.append(values)
        assert ring.landed == sent[: len(ring.landed)]
    while ring.queue:
        ring.queue.pop(0)()
    assert ring.landed == sent


def test_fields_arrive_by_name_where_a_graph_looks_for_them() -> None:
    fields = Fields({"a": (torch.int64, [3]), "b": (torch.float32, [3, 2]), "c": (torch.int32, [1])}, CPU)
    addresses = {name: tensor.data_ptr() for name, tensor in fields.on_device.items()}
    for step in range(5):
        host = fields.acquire()
        host["a"][:], host["b"][:], host["c"][:] = (1, 2, step), [[step, 2], [3, 4], [5, 6]], 7 + step
        fields.send()
        assert fields.on_device["a"].tolist() == [1, 2, step]
        assert fields.on_device["b"].tolist() == [[step, 2], [3, 4], [5, 6]]
        assert fields.on_device["c"].tolist() == [7 + step]
    assert addresses == {name: tensor.data_ptr() for name, tensor in fields.on_device.items()}


@pytest.mark.parametrize("most", [*range(1, 70), 100, 255, 256, 257, 300, 1000, 1024])
def test_every_batch_that_may_run_has_a_graph(most: int) -> None:
    sizes = bucket_sizes(most)
    assert sizes == sorted(set(sizes)) and sizes[-1] == most, "the largest batch has its own (CASEBOOK 11)"
    graphs = DecodeGraphs(sizes, lambda size: None, Recorded)
    graphs.capture()
    for count in range(1, most + 1):
        assert count <= graphs.size_for(count) <= max(2 * count, count + 32)


class Recorded:
    def capture(self, body: Callable[[], None]) -> None:
        body()
        self.replay = body


def test_graphs_are_captured_after_a_run_and_replay_their_own_size() -> None:
    ran: list[int] = []
    graphs = DecodeGraphs([1, 4], ran.append, Recorded)
    graphs.capture()
    assert ran == [4, 4, 1, 1]
    graphs.replay(graphs.size_for(2))
    graphs.replay(graphs.size_for(1))
    assert ran[4:] == [4, 1]
