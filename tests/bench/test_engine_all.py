"""The program that runs every engine benchmark: a job that hangs, or fails, loses no other. And the soak that it runs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def engine_all() -> ModuleType:
    spec = importlib.util.spec_from_file_location("engine_all", ROOT / "benchmarks" / "engine_all.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_a_job_that_hangs_is_stopped_and_one_that_fails_is_told(engine_all: ModuleType, tmp_path: Path) -> None:
    def run(program: str, limit: float) -> tuple[str, dict]:
        done = engine_all.run(engine_all.Job("job", ("-c", program), 9.0), [], limit, tmp_path / "log")
        return done.state, done.last

    assert run("print('{\"a\": 1}', flush=True); input_ = open('/dev/stdin'); import threading; threading.Event().wait()", 2.0) == (
        "stopped after 2 s", {"a": 1},
    )  # fmt: skip
    assert run("print('{not json'); raise SystemExit(3)", 60.0) == ("exit code 3", {})
    assert run("print('{\"b\": 2}')", 60.0) == ("ok", {"b": 2})


def test_parts_of_a_table_are_kept_and_recorded_with_the_whole(engine_all: ModuleType) -> None:
    options = argparse.Namespace(device="cuda", quick=False, record=True, resume=False)
    jobs = {job.name: job for job in engine_all.ON_GPU}
    assert engine_all.flags_of(jobs["throughput"], options, []) == ["--device", "cuda", "--record"]
    assert engine_all.flags_of(jobs["quantization-fp8"], options, []) == ["--device", "cuda", "--resume"]
    assert engine_all.flags_of(engine_all.PERPLEXITY, options, []) == ["--device", "cuda", "--record"]
    whole = engine_all.flags_of(jobs["quantization"], options, ["none", "fp8"])
    assert whole == ["--device", "cuda", "--scheme", "none", "--scheme", "fp8", "--record", "--resume"]
    assert engine_all.flags_of(jobs["test_engine_tokens"], options, []) == [] and engine_all.flags_of(jobs["soak"], options, []) == [
        "--device",
        "cuda",
    ]


def test_the_soak_ends_as_empty_as_it_began() -> None:
    command = [sys.executable, "benchmarks/soak.py", "--device", "cpu", "--requests", "200"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["leaks"] == [] and last["ended"] == 200 and last["aborted"] and last["preemptions"]


@pytest.mark.full
def test_twenty_thousand_requests_leave_nothing_behind() -> None:
    done = subprocess.run([sys.executable, "benchmarks/soak.py", "--device", "cpu"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
