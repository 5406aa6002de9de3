from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from speculating import write_looping_model
from tiny_model import write_tiny_model

from infer_lab import LLM
from tests.poison import unwritten_kv_is_nan  # noqa: F401


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Threads only wait for each other on tensors as small as these."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def tiny(tiny_folder: Path) -> Iterator[LLM]:
    with LLM(str(tiny_folder), device="cpu", kv_cache_memory=2**20, seed=1) as llm:
        yield llm
        llm.engine.scheduler.check_invariants()


@pytest.fixture(scope="session")
def loopy(tmp_path_factory: pytest.TempPathFactory) -> LLM:
    """A tiny model that mostly repeats itself, so that drafts have a chance."""
    folder = write_looping_model(tmp_path_factory.mktemp("loopy"))
    return LLM(str(folder), device="cpu", kv_cache_memory=2**20, seed=1)
