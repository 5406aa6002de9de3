"""Faults in the head map, in the cache's size and in the counts that the lab compares, each caught by the check that is about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from infer_course.labkit import CheckFailed
from infer_lab import calculator
from infer_lab.layers import attention
from infer_lab.worker import kv_cache
from infer_lab.worker.kv_cache import KVCache
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part0/attention-by-kv-heads"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "attention-by-kv-heads.json").is_file()
    assert {"mha_ms", "gqa8_ms", "mqa_ms", "mha_over_gqa8", "gqa8_repeated_ms"} <= set(lab.values)
    assert {"measured", "predicted"} == set(lab.series)


def scattered_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Query head h reads KV head h % kv_heads: the shapes fit."""
    sound = attention.paged_attention

    def scattered(q, k, *rest):
        order = torch.arange(q.shape[1]).view(q.shape[1] // k.shape[1], k.shape[1]).t().flatten()
        return sound(q[:, order], k, *rest)[:, order.argsort()]

    monkeypatch.setattr(attention, "paged_attention", scattered)


def a_slot_for_every_query_head(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = KVCache.nbytes.fget
    monkeypatch.setattr(kv_cache.KVCache, "nbytes", property(lambda self: sound(self) * 32 // self.layers[0].k.shape[2]))


def operations_by_kv_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.decode_flops
    monkeypatch.setattr(calculator, "decode_flops", lambda model, batch, context: sound(model, batch, context * model.num_kv_heads / 32))


def heads_split_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """TP divides the cache even where one KV head a GPU is left."""
    sound = calculator.kv_bytes_per_token
    monkeypatch.setattr(calculator, "kv_bytes_per_token", lambda model, tp=1: sound(model) / tp)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (scattered_heads, r"query head h reads KV head h // \(heads / KV heads\)"),
        (a_slot_for_every_query_head, "2 · KV heads · head_dim · bytes"),
        (operations_by_kv_heads, "the calculator counts as torch does"),
        (heads_split_without_end, "are copied beyond that"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
