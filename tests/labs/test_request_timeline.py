"""The lab of one request end to end: its checks must catch an engine that miscounts, loses text, or keeps what it should give back.

The notebook's cells run as they stand, on two small random layers behind SmolLM2's own tokenizer.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from matplotlib import pyplot as plt

from infer_course.labkit import CheckFailed
from infer_lab.core.block_pool import BlockPool
from infer_lab.core.kv_manager import KVCacheManager
from infer_lab.core.planner import Planner
from infer_lab.core.record import Timeline
from infer_lab.engine import build
from infer_lab.engine.detokenizer import ByteDetokenizer
from infer_lab.models.checkpoint import Checkpoint, open_checkpoint
from tests.labs.lab_cells import run_cells, small_sizes


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    """SmolLM2's tokenizer, and a shape of which random weights are quickly drawn."""
    whole = open_checkpoint("smollm2")
    shape = whole.config.with_(num_layers=2, hidden_size=96, intermediate_size=128, num_heads=3, num_kv_heads=1, head_dim=32)
    return replace(whole, config=shape, tensors=None)


@pytest.fixture(autouse=True)
def small(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        monkeypatch.setattr(build, "open_checkpoint", lambda name: checkpoint)
        yield
    plt.close("all")


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells("part0/request-timeline")["lab"]
    assert (tmp_path / lab.environment.slug / "request-timeline.json").is_file()
    assert {"ttft_ms_long", "tokenize_share", "hit_ttft_ms", "ttft_share_prefill_short", "token_ms_sample_long"} <= set(lab.values)


def first_token_is_timed_from_admission(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a server reports that starts its clock when it finds time for a request."""

    def ttft(self: Timeline) -> float | None:
        admitted = self.time_of("admitted")
        return None if admitted is None or not self.token_times else self.token_times[0] - admitted

    monkeypatch.setattr(Timeline, "ttft", property(ttft))


def prefill_leaves_its_last_token_to_a_step_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Planner._compute

    def shy(self, request, count, missing, step, **more):
        sound(self, request, count - (count == missing > 1), missing, step, **more)

    monkeypatch.setattr(Planner, "_compute", shy)


def text_that_drops_unfinished_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    def each_token_alone(self, new: bytes, final: bool) -> str:
        return codecs.utf_8_decode(new, "ignore", True)[0]

    monkeypatch.setattr(ByteDetokenizer, "_decode", each_token_alone)


def hashes_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KVCacheManager, "file", lambda self, request, num_tokens: None)


def blocks_counted_as_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """One block fewer comes back than was taken."""
    sound = BlockPool.num_used
    monkeypatch.setattr(BlockPool, "num_used", property(lambda self: sound.__get__(self) + 1))


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (first_token_is_timed_from_admission, "counted from arrival"),
        (prefill_leaves_its_last_token_to_a_step_of_its_own, "as many prefill steps|n − 1 decode steps"),
        (text_that_drops_unfinished_characters, "shown once it is whole"),
        (hashes_are_forgotten, "finds all its full blocks"),
        (blocks_counted_as_held, "no request holds a block"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells("part0/request-timeline")
