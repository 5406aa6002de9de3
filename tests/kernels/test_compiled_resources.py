"""What the compiler makes of the kernels for A100, RTX 4090 and H100/H200, without any of them, against a recorded table.

A change of a few registers is not a failure; a spill, a lost matrix instruction or too much shared memory is. With another Triton the
recorded figures do not apply and only the limits are checked. To record anew: python -m tests.kernels.compile_cases --record
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("compile_table.json").read_text())
SHARED_LIMIT = {"sm_80": 163 * 1024, "sm_89": 99 * 1024, "sm_90": 227 * 1024}
ROWS = [name for name in RECORDED if name != "triton"]
# Warp roles on Hopper: a few scalars are kept on the stack where a role begins and in the producer's rare path, none in a loop of products.
ROLE_SPILL = 256


@pytest.fixture(scope="session")
def compiled_now() -> dict[str, Any]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    run = subprocess.run(
        [sys.executable, "-m", "tests.kernels.compile_cases"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout)


def test_the_table_names_every_launch_that_is_compiled(compiled_now: dict[str, Any]) -> None:
    assert set(compiled_now) == set(RECORDED)


@pytest.mark.parametrize("row", ROWS)
def test_resources_are_within_the_chip_and_the_recorded_table(row: str, compiled_now: dict[str, Any]) -> None:
    now, recorded = compiled_now[row], RECORDED[row]
    if "refused" in recorded:
        assert "INT8" in now["refused"]
        return
    assert now["shared_bytes"] <= SHARED_LIMIT[row.split()[0]]
    assert now["spill_bytes"] <= (ROLE_SPILL if now["warps"] == 12 else 0)
    if compiled_now["triton"] == RECORDED["triton"]:
        assert now["registers"] <= recorded["registers"] + 16
        assert now["shared_bytes"] == recorded["shared_bytes"]
        assert (now["wgmma"], now["warps"]) == (recorded["wgmma"], recorded["warps"])


def test_prefill_has_warp_roles_and_warpgroup_products_on_hopper() -> None:
    for name in ("prefill d64", "prefill d128", "prefill d256", "prefill d128 page 16"):
        row = RECORDED[f"sm_90 {name}"]
        assert row["wgmma"] and row["warps"] == 12  # two warpgroups that multiply, and the group of the warp that feeds them


def test_fp8_is_refused_where_the_chip_lacks_it_and_int8_is_not() -> None:
    assert "8.9 or newer" in RECORDED["sm_80 decode d128 fp8"]["refused"]
    assert "registers" in RECORDED["sm_80 decode d128 int8"]
