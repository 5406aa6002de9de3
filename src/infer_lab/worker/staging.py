"""How a step's numbers get to the device: written into pinned host memory, copied asynchronously, never overwritten before they are read.

Why a ring: the copy of step N may not have begun when the host prepares step N+1, since the device is still busy with step N-1. Writing
into the same memory again would change step N under way, and only under load. So host buffers are used in turn, and each waits for the
event of its last copy before it is handed out. The device side needs no second buffer: copies and steps stand in one stream, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import numpy as np
import torch

_ALIGNMENT = 16  # bytes


class Event(Protocol):
    def record(self) -> None: ...
    def synchronize(self) -> None: ...


class _Done:
    """On a CPU everything is over when the call returns."""

    def record(self) -> None:
        pass

    def synchronize(self) -> None:
        pass


def new_event(device: torch.device) -> Event:
    return torch.cuda.Event() if device.type == "cuda" else _Done()


class StagingRing:
    """Bytes for the device. `acquire` gives host memory to write, `send` copies it; `device` is where it lands.

    make_event: of the device, unless a test brings its own."""

    def __init__(
        self, device: torch.device, num_bytes: int, make_event: Callable[[torch.device], Event] = new_event, size: int = 2
    ) -> None:
        self.device = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
        pin = device.type == "cuda"
        self._host = [torch.zeros(num_bytes, dtype=torch.uint8, pin_memory=pin) for _ in range(size)]
        self._copied = [make_event(device) for _ in range(size)]
        self._at = 0

    def acquire(self) -> np.ndarray:
        """The next host buffer, whose last copy is over."""
        self._at = (self._at + 1) % len(self._host)
        self._copied[self._at].synchronize()
        return self._host[self._at].numpy()

    def send(self, num_bytes: int) -> None:
        """Copy the beginning of the buffer that was acquired last."""
        self.device[:num_bytes].copy_(self._host[self._at][:num_bytes], non_blocking=True)
        self._copied[self._at].record()


class Fields:
    """Named arrays at fixed places of a ring's buffer, so that a captured graph finds them. shapes: dtype and shape by name.

    on_device: the arrays that a step reads. `acquire` gives the same arrays on the host, to be written and sent."""

    def __init__(
        self,
        shapes: Mapping[str, tuple[torch.dtype, Sequence[int]]],
        device: torch.device,
        make_event: Callable[[torch.device], Event] = new_event,
    ) -> None:
        self._places: dict[str, tuple[int, int, np.dtype, Sequence[int]]] = {}
        end = 0
        for name, (dtype, shape) in shapes.items():
            num_bytes = int(np.prod(shape)) * dtype.itemsize
            self._places[name] = (end, num_bytes, torch.empty(0, dtype=dtype).numpy().dtype, shape)
            end += -(-num_bytes // _ALIGNMENT) * _ALIGNMENT
        self._last = self._places[list(shapes)[-1]]
        self._ring = StagingRing(device, end, make_event)
        self.on_device = {
            name: self._ring.device[at : at + count].view(shapes[name][0]).view(*shape)
            for name, (at, count, _, shape) in self._places.items()
        }
        self._views: dict[int, dict[str, np.ndarray]] = {}

    def acquire(self) -> dict[str, np.ndarray]:
        buffer = self._ring.acquire()
        key = buffer.ctypes.data
        if key not in self._views:
            self._views[key] = {
                name: buffer[at : at + count].view(dtype).reshape(shape) for name, (at, count, dtype, shape) in self._places.items()
            }
        return self._views[key]

    def send(self, num_last: int) -> None:
        """All of it, but of the last array only the first entries."""
        at, num_bytes, _, shape = self._last
        self._ring.send(at + num_bytes // shape[0] * num_last)
