"""The tests of tests/kernels/gemm, on a GPU: all three dtypes, and inline PTX instead of the interpreter's shifts."""

from __future__ import annotations

import pytest
import torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(needs_gpu)


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cuda")


@pytest.fixture(params=[torch.float16, torch.bfloat16, torch.float32], ids=["fp16", "bf16", "fp32"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param
