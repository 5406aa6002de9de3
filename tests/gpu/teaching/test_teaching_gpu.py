"""The teaching kernels on a GPU, and the transposes, which exist only there."""

from __future__ import annotations

import pytest
import torch

from infer_lab.kernels.teaching.transpose import STAGES, transpose
from tests.kernels.teaching.test_teaching import *  # noqa: F403


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("rows, columns", [(32, 32), (100, 33), (1, 257)])
def test_every_transpose_is_a_transpose(stage: str, rows: int, columns: int, device: torch.device) -> None:
    x = torch.randn(rows, columns + 5, device=device)[:, :columns]
    assert torch.equal(transpose(x, stage), x.T)
