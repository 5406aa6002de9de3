"""What bounds a measured time: the resource whose own floor explains most of it.

Why: "memory-bound" is a statement about a measured time, not about an operator's name. Work that computes, moves, starts and sends so
much takes at least as long as each of the four alone; the largest of these floors, as a share of the time measured, is the verdict.
Where none explains half of it, something waits that no throughput describes: too few reads in flight, a chain of dependent steps,
a synchronization. That is called latency here, and more of any throughput does not help it.
"""

from __future__ import annotations

from dataclasses import dataclass

from infer_lab.units import Number, Quantity, quantity

ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Work:
    """The fewest operations, bytes of memory, launches and bytes over a link that a piece of work needs."""

    flops: Number
    nbytes: Number
    launches: int = 1
    sent: Number = 0


@dataclass(frozen=True, slots=True)
class MachineLimits:
    """Best measured: FLOP/s of this work's dtype, B/s of memory, seconds a launch, B/s of one GPU's link in one direction."""

    peak: Quantity
    bandwidth: Quantity
    launch: Quantity
    link: Quantity | None = None

    def floors(self, work: Work) -> dict[str, Quantity]:
        """The time that each resource alone would take."""
        times = {
            "compute": quantity(work.flops, "FLOP") / self.peak,
            "bandwidth": quantity(work.nbytes, "B") / self.bandwidth,
            "launch": work.launches * self.launch,
        }
        if self.link is not None:
            times["communication"] = quantity(work.sent, "B") / self.link
        return {name: time.to("s") for name, time in times.items()}


@dataclass(frozen=True, slots=True)
class Bound:
    """name: compute, bandwidth, launch, communication or latency. share: of the measured time that the largest floor explains."""

    name: str
    share: float


def name_bound(work: Work, limits: MachineLimits, measured: Quantity) -> Bound:
    """The verdict on a measured time."""
    floors = limits.floors(work)
    name = max(floors, key=lambda each: floors[each].base)
    share = float(floors[name].base / measured.to("s").base)
    return Bound(name if share >= ENOUGH else "latency", share)
