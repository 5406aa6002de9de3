"""The lab must be able to fail: faults are planted in the library, and its checks must catch each of them for the right reason.

The notebook's cells run as they stand, on a small random model of the same architecture (three layers, GQA 9/3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from infer_course.labkit import CheckFailed
from infer_lab.layers import attention
from infer_lab.layers.kv_layer import KVLayer
from infer_lab.models import llama
from infer_lab.presets import PRESETS
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part0/kv-cache-by-hand"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setitem(PRESETS, "smollm2-135m", PRESETS["smollm2-135m"].with_(num_layers=3, vocab_size=2048))
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "kv-cache-by-hand.json").is_file()
    assert {"kv_bytes_per_token", "step_floor_ms", "cached_ms_per_token_16", "uncached_ms_per_token_48", "speedup_48"} <= set(lab.values)
    assert {"cached", "uncached", "cached_as_called", "uncached_as_called", "predicted_cached", "predicted_uncached"} == set(lab.series)


def wrong_head_map(monkeypatch: pytest.MonkeyPatch) -> None:
    """Query head h reads KV head h % kv_heads instead of h // group: the shapes fit."""
    sound = attention.paged_attention

    def scattered(q, k, v, cache, batch):
        heads, kv_heads = q.shape[1], k.shape[1]
        order = torch.arange(heads).view(heads // kv_heads, kv_heads).t().flatten()
        out = sound(q[:, order], k, v, cache, batch)
        return out[:, order.argsort()]

    monkeypatch.setattr(llama, "paged_attention", scattered)


def missing_causal_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    sdpa = F.scaled_dot_product_attention

    def unmasked(*args, attn_mask=None, is_causal=False, **kwargs):
        return sdpa(*args, attn_mask=attn_mask, is_causal=False, **kwargs)

    monkeypatch.setattr(attention.F, "scaled_dot_product_attention", unmasked)


def a_slot_for_every_query_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool is allocated with num_heads; only kv_heads of each slot are ever used."""
    sound = KVCache.__init__

    def generous(self, config, **kwargs):
        sound(self, config.with_(num_kv_heads=config.num_heads), **kwargs)
        self.layers = [KVLayer(layer.k[:, :, : config.num_kv_heads], layer.v[:, :, : config.num_kv_heads]) for layer in self.layers]

    monkeypatch.setattr(KVCache, "__init__", generous)


def writes_one_slot_too_far(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = attention.paged_attention

    def shifted(q, k, v, cache, batch):
        slots = (batch.slot_mapping + 1) % cache.k[..., 0, 0].numel()
        return sound(q, k, v, cache, attention.AttentionBatch(slots, batch.decodes, batch.prefills))

    monkeypatch.setattr(llama, "paged_attention", shifted)


def keys_without_their_position(monkeypatch: pytest.MonkeyPatch) -> None:
    """RoPE turns the query only."""
    sound = llama.rotate
    calls = []

    def queries_only(x, cos, sin):
        calls.append(1)
        return sound(x, cos, sin) if len(calls) % 2 else x

    monkeypatch.setattr(llama, "rotate", queries_only)


def one_position_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cached step takes the position before its own; a whole prefix is right."""
    sound = InputBatch.prepare

    def late(self, scheduled):
        step = sound(self, scheduled)
        if len(scheduled[0].token_ids) == 1:
            step.positions.sub_(1)
        return step

    monkeypatch.setattr(InputBatch, "prepare", late)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (wrong_head_map, r"query head h reads KV head h // \(heads / KV heads\)"),
        (missing_causal_mask, "nothing after it"),
        (a_slot_for_every_query_head, "2 · layers · KV heads · head_dim · bytes"),
        (writes_one_slot_too_far, "slot p of the cache holds the rotated key of position p"),
        (keys_without_their_position, "slot p of the cache holds the rotated key"),
        (one_position_late, "slot p of the cache holds the rotated key|logits are the same"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
