"""Faults in the prefix cache, in chunking and in the formulas of prefill, which the lab's checks must catch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from infer_course.labkit import CheckFailed
from infer_lab import calculator
from infer_lab.core import kv_manager
from infer_lab.llm import LLM
from infer_lab.presets import PRESETS
from tests.labs.lab_cells import run_cells, small_sizes

LAB = "part2/low-latency-prefill"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setitem(PRESETS, "smollm2-135m", PRESETS["smollm2-135m"].with_(num_layers=2, vocab_size=1024))
    with small_sizes(monkeypatch, tmp_path):
        yield


def test_the_lab_passes_and_records_on_a_sound_library(tmp_path: Path) -> None:
    lab = run_cells(LAB)["lab"]
    assert (tmp_path / lab.environment.slug / "low-latency-prefill.json").is_file()
    assert {"turning_point", "ttft_ms_8", "called_ms_48", "prefix_hit_ms", "chunked_ms", "chunk_steps"} <= set(lab.values)


def change_keys(monkeypatch: pytest.MonkeyPatch, of: Callable[[list[int], int], list[int]]) -> None:
    """Blocks are known by other tokens than their own: of(tokens, block_size)."""
    sound = kv_manager.extend_block_keys
    monkeypatch.setattr(kv_manager, "extend_block_keys", lambda keys, tokens, extra, size: sound(keys, of(list(tokens), size), extra, size))


def ignores_the_first_token(monkeypatch: pytest.MonkeyPatch) -> None:
    change_keys(monkeypatch, lambda tokens, size: [0, *tokens[1:]])


def counts_the_last_token_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each block is known by all tokens that there are so far, so that nothing is ever found again."""
    change_keys(monkeypatch, lambda tokens, size: [token + sum(tokens) for token in tokens])


def chunks_of_half_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = LLM.__init__

    def init(self, model="smollm2", **options):
        sound(self, model, **(options | ({"max_num_batched_tokens": 8} if options["max_num_batched_tokens"] == 16 else {})))

    monkeypatch.setattr(LLM, "__init__", init)


def forgets_the_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.prefill_bytes
    monkeypatch.setattr(calculator, "prefill_bytes", lambda *args: sound(*args) * 1e-6)


def a_prompt_costs_one_token(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = calculator.prefill_flops
    monkeypatch.setattr(calculator, "prefill_flops", lambda model, tokens, *rest: sound(model, 1, *rest) * tokens**2)


@pytest.mark.parametrize(
    ("plant", "says"),
    [
        (ignores_the_first_token, "whose first token differs shares nothing"),
        (counts_the_last_token_too, "all whole blocks of the shared prefix"),
        (chunks_of_half_the_budget, "tokens / budget"),
        (forgets_the_weights, "below the turning point reading decides"),
        (a_prompt_costs_one_token, "a little faster than in proportion"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_planted_fault_is_caught(plant: Callable[[pytest.MonkeyPatch], None], says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(CheckFailed, match=says):
        run_cells(LAB)
