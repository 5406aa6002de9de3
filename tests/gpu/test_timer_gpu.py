"""A CUDA graph replays the same work into the same tensors, without calling the function again."""

from __future__ import annotations

import pytest
import torch

from infer_lab.bench import graphed

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]


def test_a_replayed_graph_computes_on_what_its_tensors_hold_now() -> None:
    x, out, calls = torch.zeros(4, device="cuda"), torch.zeros(4, device="cuda"), []

    def work() -> None:
        calls.append(1)
        torch.add(x, 1, out=out)

    replay = graphed(work, "cuda")
    before = len(calls)
    x.fill_(41)
    replay()
    assert out.tolist() == [42.0] * 4
    assert len(calls) == before
