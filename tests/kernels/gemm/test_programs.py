"""The benchmark and tuning programs run here too: scripts that only a GPU runs die unnoticed (CASEBOOK 25). And no default is left open."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | {
        "PYTHONPATH": str(ROOT / "src"),
        "CUDA_VISIBLE_DEVICES": "",
    }
    return subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def test_without_a_gpu_the_tuner_says_so_and_exits_with_2() -> None:
    for program in (["benchmarks/tune_gemm.py"],):
        done = run(*program)
        assert done.returncode == 2 and "no CUDA device" in done.stderr and "Traceback" not in done.stderr


def test_casebook_26_no_product_of_floats_leaves_its_precision_to_the_default() -> None:
    kernels = ROOT / "src/infer_lab/kernels"
    for name in ("w4a16", "w8a16", "skinny_gemm", "teaching/tiled_matmul"):
        dots = re.findall(r"tl\.dot\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)", (kernels / f"{name}.py").read_text())
        assert dots and all('input_precision="ieee"' in dot for dot in dots), name
