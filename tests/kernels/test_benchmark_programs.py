"""The benchmarks of these kernels explain themselves, run their CPU path and record it: what needs a GPU to run at all dies unnoticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VALUES = {
    "attention.py": {"prefill-d64-s64", "prefill-d64-s64-sdpa", "prefill-d64-s64-page16", "decode-b2-s48-fp8", "limit-read-stream"},
    "elementwise.py": {"norm-3x64", "sample-b2-p90", "sample-b2-p90-sort", "logprobs-b2-torch"},
    "gemm.py": {"w4a16-128x256-m3", "cublas-128x256-m3", "skinny-gemm-128x128-m3", "w8a16-128x256-m3", "fp8-gemm-64x128-m32"},
}


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"benchmarks/{name}", *arguments]
    inherited = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=inherited | environment, timeout=300)


@pytest.mark.parametrize("name", sorted(VALUES))
def test_the_cpu_path_runs_and_records(name: str, tmp_path: Path) -> None:
    done = run(name, "--device", "cpu", "--quick", "--record", INFER_LAB_MEASUREMENTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    document = json.loads(Path(json.loads(done.stdout.splitlines()[-1])["record"]).read_text())
    assert VALUES[name] <= set(document["values"])
    assert set(document["cases"]) <= set(document["values"]) and document["cases"]
    for case in document["cases"].values():
        assert case["bytes"] > 0 and case["floor_us"] > 0 and set(case["peers"].values()) <= set(document["values"])
    assert document["git"]["commit"] and document["sources"] and document["workload"]["quick"]


@pytest.mark.parametrize("name", [*sorted(VALUES), "tune_attention.py"])
def test_help_and_a_missing_gpu_are_answered_in_words(name: str) -> None:
    help_text = run(name, "--help")
    assert help_text.returncode == 0 and ("--record" in help_text.stdout or "--ship" in help_text.stdout)
    done = run(name, *(() if name == "tune_attention.py" else ("--device", "cuda")), CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and "no CUDA device" in done.stderr and "Traceback" not in done.stderr
