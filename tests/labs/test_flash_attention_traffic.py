"""Faults that leave attention right and its traffic wrong, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from infer_course import labkit
from infer_course.labkit import CheckFailed
from infer_lab.kernels import reference
from infer_lab.teaching import attention
from infer_lab.teaching.memory import InPages
from infer_lab.teaching.softmax import State
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/flash-attention-traffic"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "flash-attention-traffic.json").is_file()
    assert {"standard_elements", "flash_elements", "exponent_flash_m", "softmax_part_rate", "speedup_128"} <= set(lab.values)
    assert {"standard", "flash", "standard_floor", "flash_floor"} == set(lab.series)


def walks_keys_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """FlashAttention-1's order: the same result, and the output through memory once a tile of keys."""
    monkeypatch.setattr(attention, "_queries_outside", attention._keys_outside)


def keeps_the_scores_in_fast_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def fused(q, k, v, out):
        n = len(k.data)
        out[:] = (q[:] @ k[:].T * q.data.shape[1] ** -0.5).softmax(-1) @ v[:]
        return [attention.Slow.empty(len(q.data), n, like=q.data) for _ in range(2)]

    monkeypatch.setattr(attention, "standard_attention", fused)


def forgets_to_rescale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention, "merge", lambda a, b: State(torch.maximum(a.m, b.m), a.l + b.l, a.u + b.u))


def scales_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = attention.state_of
    monkeypatch.setattr(attention, "state_of", lambda scores, values: sound(scores / 2, values))


def ignores_the_block_table(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = reference.gather_pages

    def in_order(cache, scale, table, length, compute_dtype):
        return sound(cache, scale, torch.arange(len(table), dtype=table.dtype), length, compute_dtype)

    monkeypatch.setattr(reference, "gather_pages", in_order)


def looks_up_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = InPages.__getitem__

    def one_by_one(self, index):
        return torch.cat([sound(self, slice(i, i + 1)) for i in range(*index.indices(len(self.data)))])

    monkeypatch.setattr(InPages, "__getitem__", one_by_one)


def never_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Query heads share a KV head by name only."""
    sound = attention.grouped_attention
    monkeypatch.setattr(
        attention, "grouped_attention", lambda q, k, v, out, block_q, block_k, packed: sound(q, k, v, out, block_q, block_k, False)
    )


def reads_each_key_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The counters of a kernel that would hold all queries of a head at once."""
    sound = labkit.counters

    def wrong(topic: str) -> labkit.Counts:
        found = sound(topic)
        return replace(found, cases={name: replace(one, values={**one.values, "from_l2": one.nbytes}) for name, one in found.cases.items()})

    monkeypatch.setattr(labkit, "counters", wrong)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (walks_keys_outside, "flash attention moves"),
        (keeps_the_scores_in_fast_memory, "standard attention moves"),
        (forgets_to_rescale, "tiling is exact"),
        (scales_twice, "tiling is exact"),
        (reads_each_key_once, "pulls all keys and values into its SM"),
        (looks_up_every_key, "one look-up"),
        (never_packs, "packed into one tile"),
        (ignores_the_block_table, "pages change where keys lie"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
