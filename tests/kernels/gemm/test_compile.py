"""What the compiler makes of every product kernel for A100, RTX 4090 and H100/H200, without any of them, against a recorded table.

A change of a few registers is not a failure; a spill, a lost matrix instruction or too much shared memory is. With another Triton the
recorded figures do not apply and only the limits are checked. To record anew: python -m tests.kernels.gemm.compile_cases --record
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("compile_table.json").read_text())
SHARED_LIMIT = {"sm_80": 163 * 1024, "sm_89": 99 * 1024, "sm_90": 227 * 1024}
ROWS = [name for name in RECORDED if name != "triton"]


@pytest.fixture(scope="session")
def compiled_now() -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.gemm.compile_cases"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def test_the_table_names_every_case_that_is_compiled(compiled_now: dict[str, Any]) -> None:
    assert set(compiled_now) == set(RECORDED)


@pytest.mark.parametrize("row", ROWS)
def test_resources_are_within_the_chip_and_the_recorded_table(row: str, compiled_now: dict[str, Any]) -> None:
    now, recorded = compiled_now[row], RECORDED[row]
    if "refused" in recorded:
        assert "INT8" in now["refused"]
        return
    assert now["shared_bytes"] <= SHARED_LIMIT[row.split()[0]]
    assert now["spill_bytes"] == 0
    if compiled_now["triton"] == RECORDED["triton"]:
        assert now["registers"] <= recorded["registers"] + 16
        assert now["shared_bytes"] == recorded["shared_bytes"]
        assert (now["wgmma"], now["warps"]) == (recorded["wgmma"], recorded["warps"])


def test_wide_products_use_the_warpgroup_matrix_instruction_on_hopper() -> None:
    for name in ("w4a16 m=512 group 128", "skinny m=16", "fp8 m=4096", "int8 m=4096"):
        assert RECORDED[f"sm_90 {name}"]["wgmma"]


def test_the_large_fp8_product_is_warp_specialized_on_hopper() -> None:
    # four warps were asked for: twelve means a warp group for the copies and two that multiply; anything else turned it off silently
    assert RECORDED["sm_90 fp8 m=4096"]["warps"] == 12
