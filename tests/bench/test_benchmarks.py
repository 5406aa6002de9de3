"""Every benchmark at least prints its help and runs its CPU path: what needs a GPU to run at all dies unnoticed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUICK = {
    "perplexity.py": {"perplexity_float", "perplexity_w4a16", "perplexity_gguf", "loss_added_int8", "loss_added_kv_fp8"},
    "limits.py": {"read_stream", "copy", "matmul_fp32"},
    "speculation.py": {"tok_s_repetitive_plain", "speedup_repetitive_ngram", "tokens_per_step_free_draft_10"},
    "kv_pool_throughput.py": {"tok_s_smallest_pool", "tok_s_largest_pool", "preemptions_pool_1", "knee_requests", "step_ms_pool_4"},
}


def run(name: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, f"benchmarks/{name}", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | environment, timeout=300)


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_benchmark_explains_itself(name: str) -> None:
    done = run(name, "--help")
    assert done.returncode == 0 and "--quick" in done.stdout and "--record" in done.stdout


@pytest.mark.parametrize("name", sorted(QUICK))
def test_the_cpu_path_runs_and_records(name: str, tmp_path: Path) -> None:
    done = run(name, "--device", "cpu", "--quick", "--record", INFER_LAB_MEASUREMENTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    document = json.loads(Path(last["record"]).read_text())
    assert QUICK[name] <= set(document["values"])
    assert document["git"]["commit"] and document["sources"] and document["command"].startswith("python benchmarks/")


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_gpu_is_asked_for_by_name_where_there_is_none(name: str) -> None:
    done = run(name, "--device", "cuda", "--quick", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 2 and "no CUDA device" in done.stderr and "Traceback" not in done.stderr


def test_a_step_launched_ahead_of_the_one_before_begins_when_that_one_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from kv_pool_throughput import durations

    from infer_lab.core.record import StepRecord

    def step(scheduled_at: float, applied_at: float) -> StepRecord:
        return StepRecord(*(0 for _ in StepRecord._fields))._replace(scheduled_at=scheduled_at, applied_at=applied_at)

    assert durations([step(0, 2), step(1, 5), step(6, 7)]) == [2, 3, 1]
