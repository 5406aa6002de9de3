"""Faults that waste memory, or miscount what a step reads; each leaves every result right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from torch import nn
from torch.nn import functional as F

from infer_course.labkit import CheckFailed, check
from infer_lab import calculator
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine import memory
from infer_lab.layers.kv_layer import KVLayer
from infer_lab.models.llama import GatedMLP, LlamaModel
from infer_lab.presets import PRESETS
from infer_lab.worker.kv_cache import KVCache
from tests.labs.lab_cells import ROOT, run_cells, small_sizes

LAB = "part2/bytes-and-memory-budget"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setitem(PRESETS, "smollm2-135m", PRESETS["smollm2-135m"].with_(num_layers=2, vocab_size=8192))
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "bytes-and-memory-budget.json").is_file()
    assert {"weights_allocated", "intermediates_per_token", "step_b16_s16", "floor_b1_s64", "cache_passes", "running"} <= set(lab.values)
    assert "step_b16_s64" not in lab.values, "sixteen requests of 64 tokens do not fit the pool"
    assert {"tok_s_16", "floor_16", "tok_s_64", "floor_64"} == set(lab.series)


def a_head_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tied weights are stored twice."""
    sound = LlamaModel.__init__

    def untied(self, config, **kwargs):
        sound(self, config, **kwargs)
        self.head = nn.Parameter(self.embedding.detach().clone(), requires_grad=False)

    monkeypatch.setattr(LlamaModel, "__init__", untied)


def a_slot_for_every_query_head(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = KVCache.__init__

    def generous(self, config, **kwargs):
        sound(self, config.with_(num_kv_heads=config.num_heads), **kwargs)
        self.layers = [KVLayer(layer.k[:, :, : config.num_kv_heads], layer.v[:, :, : config.num_kv_heads]) for layer in self.layers]

    monkeypatch.setattr(KVCache, "__init__", generous)


def forgets_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine sizes its pool by the keys only."""
    sound = memory.bytes_per_block
    monkeypatch.setattr(memory, "bytes_per_block", lambda *args: sound(*args) // 2)


def one_cache_for_the_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.decode_step_bytes
    monkeypatch.setattr(calculator, "decode_step_bytes", lambda model, batch, context, *bytes_: sound(model, 1, context, *bytes_))


def keeps_what_every_layer_made(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []

    def hoarding(self, x):
        kept.append(self.gate_up(x))
        gate, up = kept[-1].chunk(2, dim=-1)
        return self.down(F.silu(gate) * up)

    monkeypatch.setattr(GatedMLP, "forward", hoarding)


def lets_in_half_of_what_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = Scheduler.__init__

    def timid(self, config, *args, **kwargs):
        sound(self, replace(config, max_num_seqs=5), *args, **kwargs)

    monkeypatch.setattr(Scheduler, "__init__", timid)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (a_head_of_its_own, r"the weights take parameters · bytes"),
        (a_slot_for_every_query_head, "blocks · block size · bytes per token"),
        (forgets_the_values, "an engine caches budget / bytes per token"),
        (one_cache_for_the_whole_batch, "each request's own keys and values"),
        (keeps_what_every_layer_made, "gone when the next one needs the memory"),
        (lets_in_half_of_what_fits, "as many run as the pool holds"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)


def ask_the_card(free: int, total: int, reserved: int = 80) -> dict:
    """The cell that asks CUDA who holds the memory, on a made-up card."""
    cuda = SimpleNamespace(mem_get_info=lambda: (free, total), memory_reserved=lambda: reserved)
    names = {
        "torch": SimpleNamespace(cuda=cuda), "device": lambda: "cuda", "check": check, "prompt": 8, "peaks": {16: 3}, "graph_bytes": 1,
        "weights_allocated": 15, "pool_allocated": 64,
    }  # fmt: skip
    cells = nbformat.read(ROOT / "labs" / f"{LAB}.ipynb", as_version=4).cells
    exec(next(cell.source for cell in cells if cell.id == "budget"), names)
    return names


def test_the_card_is_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    names = ask_the_card(free=58, total=140)
    assert names["total"] == 140 and names["parts"]["context, libraries, other"] == 2
    assert "KV pool" in (shown := capsys.readouterr().out) and "45.7% of the card" in shown


@pytest.mark.parametrize(("free", "total"), [(140, 58), (70, 140)], ids=["swapped", "more free than is left"])
def test_a_card_whose_parts_do_not_add_up_is_noticed(free: int, total: int) -> None:
    with pytest.raises(CheckFailed, match="no part of the card is negative"):
        ask_the_card(free, total)
