"""Faults in the counting that the lab rests on, and one in the model's attention that only a count can see."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infer_course.labkit import CheckFailed
from infer_lab import calculator
from infer_lab.layers import attention
from infer_lab.presets import PRESETS
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/intensity-from-shapes"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setitem(PRESETS, "smollm2-135m", PRESETS["smollm2-135m"].with_(num_layers=2, vocab_size=2048))
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "intensity-from-shapes.json").is_file()
    assert {"turning_rows", "five_queries_over_one", "attention_rate_b2_s32_g8", "product_64_rows"} <= set(lab.values)
    assert {"product", "by_bytes", "by_operations"} == set(lab.series)


def forgets_input_and_output(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.gemm_intensity
    monkeypatch.setattr(calculator, "gemm_intensity", lambda m, k, n, w=2, b=2: sound(m, k, n, w, 0))


def reads_every_weight_as_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.gemm_intensity
    monkeypatch.setattr(calculator, "gemm_intensity", lambda m, k, n, w=2, b=2: sound(m, k, n, 2, b))


def counts_kv_heads_in_the_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.decode_flops
    fewer = lambda model: model.with_(num_heads=model.num_kv_heads)  # noqa: E731
    monkeypatch.setattr(calculator, "decode_flops", lambda model, batch, context: sound(fewer(model), batch, context))


def attention_for_one_query_head(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.decode_attention_intensity
    lonely = lambda model: model.with_(num_heads=model.num_kv_heads)  # noqa: E731
    monkeypatch.setattr(calculator, "decode_attention_intensity", lambda model, queries=1, b=2: sound(lonely(model), queries, b))


def copies_kv_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is the same; every query head reads keys and values of its own."""
    sdpa = attention.F.scaled_dot_product_attention

    def copied(q, k, v, attn_mask=None, **kwargs):
        k, v = (x.repeat_interleave(q.shape[2], 1) for x in (k, v))
        mask = None if attn_mask is None else attn_mask.expand(q.shape[0], *attn_mask.shape[1:])
        return sdpa(q.flatten(1, 2).unsqueeze(2), k, v, attn_mask=mask, **kwargs).view(q.shape)

    class Copying:
        scaled_dot_product_attention = staticmethod(copied)

    monkeypatch.setattr(attention, "F", Copying)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (forgets_input_and_output, "weight, input and output"),
        (reads_every_weight_as_16_bits, "four with 4-bit weights"),
        (counts_kv_heads_in_the_operations, "query heads and all"),
        (attention_for_one_query_head, "as query heads share a KV head"),
        (copies_kv_heads, "handed over once, for all query heads"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
