from __future__ import annotations

import pytest

from infer_lab.bench.bound import MachineLimits, Work, name_bound
from infer_lab.units import Quantity

LIMITS = MachineLimits(Quantity(1000, "TFLOP/s"), Quantity(4, "TB/s"), Quantity(5, "us"), Quantity(400, "GB/s"))


@pytest.mark.parametrize(
    ("work", "ms", "name", "share"),
    [
        (Work(flops=8e11, nbytes=4e8), 1.0, "compute", 0.8),
        (Work(flops=8e9, nbytes=3.2e9), 1.0, "bandwidth", 0.8),
        (Work(flops=8e9, nbytes=4e8, launches=150), 1.0, "launch", 0.75),
        (Work(flops=8e9, nbytes=4e8, sent=2.4e8), 1.0, "communication", 0.6),
        (Work(flops=3e11, nbytes=1.2e9), 1.0, "latency", 0.3),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_largest_floor_names_the_bound(work: Work, ms: float, name: str, share: float) -> None:
    found = name_bound(work, LIMITS, Quantity(ms, "ms"))
    assert (found.name, found.share) == (name, pytest.approx(share))


def test_a_machine_without_a_link_has_three_floors() -> None:
    alone = MachineLimits(LIMITS.peak, LIMITS.bandwidth, LIMITS.launch)
    assert set(alone.floors(Work(1, 1))) == {"compute", "bandwidth", "launch"}
