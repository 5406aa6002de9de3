"""A tiny model that repeats itself, engines around it that speculate, and what all of them must have in common."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from tiny_model import write_tiny_model

from infer_lab import LLM, SamplingParams
from infer_lab.outputs import RequestOutput
from infer_lab.spec.config import SpeculativeConfig

VOCAB = 257


def write_looping_model(folder: Path, *, noise: float = 0.04, last_layer_is_silent: bool = False) -> Path:
    """The tiny model with a head that prefers, after each token, its successor in a cycle of two to nine tokens.

    noise: how much the layers have to say beside that; at 0 the text is one loop. last_layer_is_silent: it adds nothing, so the layers
    before it say what the model says."""
    write_tiny_model(folder)
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    r, successor, first = random.Random(7), list(range(VOCAB)), 0
    while first < VOCAB:
        size = min(r.randint(2, 9), VOCAB - first)
        for i in range(size):
            successor[first + i] = first + (i + 1) % size
        first += size
    head = torch.empty_like(weights["model.embed_tokens.weight"])
    head[successor] = weights["model.embed_tokens.weight"]
    weights = {name: tensor * noise if "o_proj" in name or "down_proj" in name else tensor for name, tensor in weights.items()}
    if last_layer_is_silent:
        last = f"layers.{config['num_hidden_layers'] - 1}."
        weights |= {k: torch.zeros_like(w) for k, w in weights.items() if last in k and ("o_proj" in k or "down_proj" in k)}
    save_file(weights | {"lm_head.weight": head}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    return folder


def checked(llm: LLM) -> LLM:
    """Every invariant after every step."""
    step = llm.engine.step

    def checked_step() -> Any:
        updates = step()
        llm.engine.scheduler.check_invariants()
        return updates

    llm.engine.step = checked_step  # type: ignore[method-assign]
    return llm


@contextmanager
def engine(loopy: LLM, speculative: SpeculativeConfig | str | None, **options: Any) -> Iterator[LLM]:
    """The weights of `loopy` in an engine of its own, small pool and all."""
    config = replace(loopy.config, **({"kv_cache_memory": None, "num_kv_blocks": 200} | options), speculative=speculative)
    with LLM(config, loaded=loopy.loaded) as llm:
        yield checked(llm)


def looping_prompts(r: random.Random, count: int) -> list[list[int]]:
    """Text that repeats itself, at awkward lengths, some with a common beginning."""
    stem = [r.randrange(VOCAB) for _ in range(r.randint(1, 8))] * 4
    prompts = []
    for _ in range(count):
        own = [r.randrange(VOCAB) for _ in range(r.randint(1, 6))]
        prompts.append((stem[: r.randint(0, len(stem))] if r.random() < 0.5 else []) + own * r.randint(1, 6))
    return prompts


def tokens(outputs: Sequence[RequestOutput]) -> list[tuple[tuple[int, ...], str]]:
    return [(output.token_ids, output.finish_reason) for output in outputs]


def params(**options: Any) -> SamplingParams:
    return SamplingParams(**({"max_tokens": 24, "ignore_eos": True} | options))


def p_value(counts: Sequence[int], probabilities: Sequence[float]) -> float:
    """Of Pearson's chi-square, cells with fewer than five expected taken together. Cells of probability 0 must be empty."""
    assert all(count == 0 for count, p in zip(counts, probabilities, strict=True) if p == 0), "a token that cannot be drawn was drawn"
    total, cells, rare = sum(counts), [], (0, 0.0)
    for count, p in zip(counts, probabilities, strict=True):
        if total * p >= 5:
            cells.append((count, total * p))
        else:
            rare = (rare[0] + count, rare[1] + total * p)
    cells += [rare] if rare[1] > 0 else []
    if len(cells) == 1:
        return 1.0
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    return float(torch.special.gammaincc(torch.tensor((len(cells) - 1) / 2), torch.tensor(statistic / 2)))
