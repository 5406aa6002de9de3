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
    "kv_pool_throughput.py": {
        "tok_s_smallest_pool",
        "tok_s_largest_pool",
        "preemptions_growing_pool_2",
        "doubling_pool_2",
        "arithmetic_pool_4",
        "step_ms_pool_4",
    },
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


@pytest.mark.parametrize(
    ("rates", "expected"),
    [([10, 20, 38, 40, 41], 4), ([10, 20, 40, 80, 90], None), ([10, 20, 21, 40, 42], 8), ([10, 10, 10, 10, 10], 1)],
    ids=["flat after two doublings", "still rising", "a pause is no knee", "flat from the start"],
)
def test_the_knee_is_where_no_doubling_helps_any_more(rates: list[float], expected: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from kv_pool_throughput import knee

    assert knee([1, 2, 4, 8, 16], rates) == expected


def test_requests_that_reserve_their_answer_fill_the_pool_and_are_never_preempted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from kv_pool_throughput import Workload, run_pool

    from infer_lab import LLM

    work = Workload("dummy:smollm2-135m", 3, 20, 20, (4,), 4)
    options = {"device": "cpu", "max_model_len": 40, "block_size": 16, "seed": 0}
    with LLM(work.model, **options, **work.options(4)) as llm:
        reserved, loaded = run_pool(llm, work, 4), llm.loaded
    with LLM(work.model, loaded=loaded, **options, **work.options(4, growing=True)) as llm:
        grown = run_pool(llm, work, 4)
    assert reserved.running == 4 and reserved.preemptions == 0 and reserved.waiting > 0.5
    assert grown.running > 4
