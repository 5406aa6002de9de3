"""The lab of latency metrics: its checks must catch metrics that are defined wrongly, and a scheduler that lets decode starve.

The notebook's cells run as they stand, on a small random model of SmolLM2's architecture.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from infer_course.labkit import CheckFailed
from infer_lab.core.planner import Planner
from infer_lab.core.record import Timeline
from infer_lab.presets import PRESETS
from infer_lab.sim import results
from tests.labs.lab_cells import run_cells, small_sizes


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        shape = PRESETS["smollm2-135m"].with_(num_layers=2, hidden_size=96, intermediate_size=128, vocab_size=512)
        monkeypatch.setitem(PRESETS, "smollm2-135m", shape.with_(num_heads=3, num_kv_heads=1, head_dim=32))
        yield
    plt.close("all")


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells("part0/latency-from-token-log")["lab"]
    assert (tmp_path / lab.environment.slug / "latency-from-token-log.json").is_file()
    assert {"tpot_mean_ms_whole", "itl_p99_ms_chunked", "stall_ms", "tpot_ratio", "long_ttft_ms_whole"} <= set(lab.values)
    assert {"gaps_whole", "gaps_chunked", "served", "goodput"} == set(lab.series)


def tpot_divides_by_all_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    def tpot(self: Timeline) -> float | None:
        return (self.token_times[-1] - self.token_times[0]) / len(self.token_times) if self.token_times else None

    monkeypatch.setattr(Timeline, "tpot", property(tpot))


def gaps_begin_at_arrival(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "pairwise", lambda times: itertools.pairwise([0.0, *times]))


def a_percentile_is_the_rank_above(monkeypatch: pytest.MonkeyPatch) -> None:
    def rank(values, percent):
        ordered = sorted(values)
        return ordered[-(-(len(ordered) - 1) * int(percent) // 100)]

    monkeypatch.setattr(results, "percentile", rank)


def refused_requests_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    def attainment(self, ttft_s=float("inf"), tpot_s=float("inf")):
        return sum(r.ttft_s <= ttft_s and (r.tpot_s or 0.0) <= tpot_s for r in self.requests) / len(self.requests)

    monkeypatch.setattr(results.SimulationResult, "attainment", attainment)


def decode_waits_for_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as a prompt is in the middle, only prompts are computed."""
    sound = Planner._schedule_running

    def prompts_first(self, step):
        running = self.life.running
        partial = [request for request in running if request.num_tokens - request.num_computed_tokens > 1]
        self.life.running = partial or running
        sound(self, step)
        self.life.running = running

    monkeypatch.setattr(Planner, "_schedule_running", prompts_first)


def everything_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit on chunks that was meant for chunked prefill only."""
    sound = Planner.__init__

    def cut(self, life, kv):
        sound(self, life, kv)
        self._most_per_request = 16

    monkeypatch.setattr(Planner, "__init__", cut)
    monkeypatch.setattr(Planner, "_may_be_partial", lambda self, step: True)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (tpot_divides_by_all_tokens, "it divides by n − 1"),
        (gaps_begin_at_arrival, "the wait for the first token is not among them|with one token"),
        (a_percentile_is_the_rank_above, "lies between two ranks"),
        (refused_requests_do_not_count, "a refused request is a missed one"),
        (decode_waits_for_prompts, "everybody who decodes gets a token|as many steps as it fills budgets"),
        (everything_is_cut, "one step computes the whole prompt"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells("part0/latency-from-token-log")
