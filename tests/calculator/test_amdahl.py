"""The numbers that everybody quotes, and the ends of the range."""

from __future__ import annotations

import pytest

from infer_lab.calculator import amdahl_speedup
from infer_lab.errors import UserError


@pytest.mark.parametrize(("part", "factor", "gain"), [(0.3, 2, 1 / 0.85), (0.0, 100, 1), (1.0, 4, 4), (0.5, 1, 1), (0.2, 0.5, 1 / 1.2)])
def test_gain(part: float, factor: float, gain: float) -> None:
    assert float(amdahl_speedup(part, factor)) == pytest.approx(gain)


def test_a_part_is_no_more_than_the_whole() -> None:
    with pytest.raises(UserError):
        amdahl_speedup(1.1, 2)
