"""Runs a lab's code cells as they stand, on the CPU and at sizes that take no time: what the tests that plant faults share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.pyplot
import nbformat
import pytest
import torch

ROOT = Path(__file__).parents[2]


@contextmanager
def small_sizes(monkeypatch: pytest.MonkeyPatch, records: Path) -> Iterator[None]:
    """Quick sizes, one thread, no window; records go to `records`."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # tiny products: waiting for a second core costs more than it gives
    matplotlib.use("agg")
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("INFER_LAB_QUICK", "1")
    monkeypatch.setenv("INFER_LAB_DEVICE", "cpu")
    monkeypatch.setenv("INFER_LAB_MEASUREMENTS", str(records))
    yield
    matplotlib.pyplot.close("all")
    torch.set_num_threads(threads)


def run_cells(lab: str) -> dict:
    """Executes every code cell of `labs/<lab>.ipynb` in one namespace, as a kernel would."""
    namespace: dict = {"__name__": "lab"}
    for cell in nbformat.read(ROOT / "labs" / f"{lab}.ipynb", as_version=4).cells:
        if cell.cell_type == "code":
            exec(compile(cell.source, f"<{cell.id}>", "exec"), namespace)
    return namespace
