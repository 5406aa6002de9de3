"""These tests run the kernels in Triton's CPU interpreter; the variable must be set before the first import of a kernel."""

from __future__ import annotations

import os

os.environ["TRITON_INTERPRET"] = "1"

import pytest
import torch

from infer_lab.kernels import _common


def pytest_configure(config: pytest.Config) -> None:
    # Triton 3.6's interpreter under numpy 2.3; not ours to mend
    config.addinivalue_line("filterwarnings", "ignore:overflow encountered:RuntimeWarning")  # a masked logit, clamped next
    config.addinivalue_line("filterwarnings", "ignore:Conversion of an array with ndim > 0 to a scalar:DeprecationWarning")


@pytest.fixture(scope="session", autouse=True)
def _kernels_are_interpreted() -> None:
    torch.set_num_threads(1)
    assert _common.interpreting(), "infer_lab.kernels was imported before TRITON_INTERPRET was set: run tests/kernels in its own process"


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device("cpu")


@pytest.fixture(params=[torch.float16], ids=["fp16"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    """bfloat16 products are wrong in the interpreter (they multiply bit patterns): the GPU tests run that type."""
    return request.param
