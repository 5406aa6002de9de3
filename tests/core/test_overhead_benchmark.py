"""The overhead benchmark runs, and writes a record that can be traced back."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_overhead_benchmark_runs_and_its_last_line_is_json() -> None:
    done = subprocess.run([sys.executable, "benchmarks/core_overhead.py", "--quick"], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["step_ms"] > 0 and results["hash_ms"] > 0 and results["simulated_hour_2_s"] > 0
