"""All three dtypes here; the device and the skipping come from tests/gpu."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(params=[torch.float16, torch.bfloat16, torch.float32], ids=["fp16", "bf16", "fp32"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param
