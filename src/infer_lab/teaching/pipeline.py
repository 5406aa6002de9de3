"""When the parts of one SM work while a tile of queries walks its keys: a schedule is an order of waiting, not of work.

Three units: the copy engine brings a tile of keys and values, the tensor cores multiply (scores, then weights times values), the special
function units take exponentials. Four schedules of the same work:

- `sequential`: copy, scores, softmax, values; the next copy starts when all is done.
- `prefetch`: values are copied under the scores, the next keys under softmax and values (FlashAttention-2's cp.async). Scores, softmax
  and values still wait for each other.
- `pipelined`: the scores of the next tile are issued before the weights times values of this one, so that its softmax runs under the
  latter (overlap inside a warpgroup, FlashAttention-3).
- `ping-pong`: two warpgroups with half of the queries each: one multiplies while the other takes exponentials (overlap between
  warpgroups, FlashAttention-3, which does both). These two keep two tiles of keys and of values beside each other.

Left out: the rest of the softmax (maximum, subtraction, conversion), barriers, the first query tile, and that the warps of a simple
kernel drift apart by themselves, which overlaps a part of what `sequential` and `prefetch` put in a row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from infer_lab.errors import UnsupportedOptionError
from infer_lab.hardware import Gpu

SCHEDULES = ("sequential", "prefetch", "pipelined", "ping-pong")

# Per SM and cycle on Hopper. Tensor cores: dense, 16-bit inputs. Exponentials: CUDA C++ Programming Guide, throughput of native
# arithmetic, compute capability 9.0. L2: bytes a cycle of the whole chip (PMC10448217, table 3: 8,986 GB/s at 1,755 MHz).
TENSOR_FLOPS, EXPONENTIALS, L2_BYTES = 4096, 16, 5120


@dataclass(frozen=True, slots=True)
class Costs:
    """Cycles that one tile of keys takes for all queries of the SM: copy in, scores, exponentials, weights times values."""

    copy: float
    scores: float
    softmax: float
    values: float

    @staticmethod
    def of(gpu: Gpu, head_dim: int, block_q: int = 128, block_k: int = 128, element_bytes: int = 2) -> Costs:
        """From shapes. One-byte elements multiply twice as fast; exponentials do not care."""
        product = 2 * block_q * block_k * head_dim / (TENSOR_FLOPS * 2 / element_bytes)
        copied = 2 * block_k * head_dim * element_bytes / (L2_BYTES / gpu.sms)
        return Costs(copied, product, block_q * block_k / EXPONENTIALS, product)


@dataclass(frozen=True, slots=True)
class Task:
    """One piece of work: what, of which tile and warpgroup, on which unit, from when to when (cycles)."""

    kind: str
    tile: int
    group: int
    unit: str
    start: float
    end: float


def simulate(schedule: str, costs: Costs, tiles: int) -> list[Task]:
    """Every task, in the order of its start. A unit does one thing at a time, and whatever could start first on it does."""
    if schedule not in SCHEDULES:
        raise UnsupportedOptionError(f"schedules are {', '.join(SCHEDULES)}; got {schedule!r}")
    waiting = _work(schedule, costs, tiles)
    free = {"copy": 0.0, "tensor": 0.0, "exp": 0.0}
    ended: dict[tuple[str, int, int], float] = {}
    done = []
    while waiting:
        ready = [
            (max([free[unit], *(ended[key] for key in needs)]), order, name, unit, cycles)
            for order, (name, unit, cycles, needs) in enumerate(waiting)
            if all(key in ended for key in needs)
        ]
        start, order, name, unit, cycles = min(ready)
        del waiting[order]
        free[unit] = ended[name] = start + cycles
        done.append(Task(*name, unit, start, start + cycles))
    return sorted(done, key=lambda task: (task.start, task.end))


def _work(schedule: str, costs: Costs, tiles: int) -> list[tuple[tuple[str, int, int], str, float, list[tuple[str, int, int]]]]:
    """(name, unit, cycles, what must have ended), in the order in which it is issued."""
    groups = 2 if schedule == "ping-pong" else 1
    stages = 1 if schedule in ("sequential", "prefetch") else 2  # tiles of keys, and of values, that fit beside each other
    work = []
    for j in range(tiles):
        for kind, user in (("keys", "scores"), ("vals", "values")):
            last, before = ("values", 1) if schedule == "sequential" else (user, stages)  # whoever must be done with the place
            needs = [(last, j - before, g) for g in range(groups)] if j >= before else []
            work.append(((f"copy {kind}", j, 0), "copy", costs.copy / 2, needs))
        for g in range(groups):
            # threads that take exponentials issue nothing: the next scores wait for the softmax, or for the whole tile
            before = [("softmax" if schedule == "pipelined" else "values", j - 1, g)] if j else []
            ahead = [("scores", j + 1, g)] if schedule == "pipelined" and j + 1 < tiles else []
            arrived = ("copy vals" if schedule == "sequential" else "copy keys", j, 0)
            work += [
                (("scores", j, g), "tensor", costs.scores / groups, [arrived, *before]),
                (("softmax", j, g), "exp", costs.softmax / groups, [("scores", j, g)]),
                (("values", j, g), "tensor", costs.values / groups, [("softmax", j, g), ("copy vals", j, 0), *ahead]),
            ]
    return work


def utilization(tasks: Iterable[Task]) -> float:
    """Share of the time in which the tensor cores multiply."""
    tasks = list(tasks)
    busy = sum(task.end - task.start for task in tasks if task.unit == "tensor")
    return busy / max(task.end for task in tasks)
