from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from infer_lab import LLM
from tests.poison import unwritten_kv_is_nan  # noqa: F401


@pytest.fixture(scope="session")
def smollm2() -> Iterator[LLM]:
    """The default model in memory, once for all tests."""
    llm = LLM("smollm2", device="cpu", dtype="float32")
    yield llm
    llm.close()


@pytest.fixture
def engine_of(smollm2: LLM) -> Callable[..., LLM]:
    """Another engine around the same weights."""
    return lambda **options: LLM("smollm2", loaded=smollm2.loaded, device="cpu", dtype="float32", **options)


@pytest.fixture(scope="session")
def reference() -> dict[str, dict[str, Any]]:
    """transformers' greedy tokens and margins by prompt name; see make_reference.py."""
    data = json.loads((Path(__file__).parent / "reference" / "smollm2_greedy.json").read_text(encoding="utf-8"))
    return {row["name"]: row for row in data["prompts"]}
