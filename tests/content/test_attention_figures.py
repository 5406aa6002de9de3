"""The drawn timelines are the simulated ones: every bar begins and ends where its task does."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from infer_lab.hardware import h200_141gb
from infer_lab.teaching.pipeline import SCHEDULES, Costs, simulate

FIGURE = Path(__file__).parents[2] / "book" / "part2" / "figures" / "one-sm-four-schedules.svg"
TILES = 4


def test_each_bar_of_the_timelines_is_a_simulated_task() -> None:
    bars = [
        (r.get("class", "").removeprefix("fat-"), float(r.get("x", "")), float(r.get("width", "")))
        for r in ET.parse(FIGURE).getroot().iter("{http://www.w3.org/2000/svg}rect")
        if r.get("height") == "13"  # the legend's squares are lower
    ]
    tasks = [task for schedule in SCHEDULES for task in simulate(schedule, Costs.of(h200_141gb, 128), TILES)]
    assert [kind for kind, _, _ in bars] == [task.unit for task in tasks]
    scale = 386 / max(task.end for task in tasks)
    for (_, x, width), task in zip(bars, tasks, strict=True):
        assert x == pytest.approx(1 + task.start * scale, abs=0.06)
        assert width == pytest.approx((task.end - task.start) * scale - 1, abs=0.06)
