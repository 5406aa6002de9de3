"""Traces and tables say what the scheduler recorded, and nothing else."""

from __future__ import annotations

import json
import sys
from itertools import pairwise

import pytest

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.plan import StepOutput
from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine import trace_export
from infer_lab.errors import UserError


@pytest.fixture
def run() -> tuple[list[Request], Scheduler]:
    """Two requests of which the second is preempted; steps take one second."""
    now = 100.0
    config = SchedulerConfig(num_blocks=7, block_size=4, max_model_len=24, admission="chunk", watermark=0.0)
    scheduler = Scheduler(config, clock=lambda: now)
    requests = [Request(name, [i] * 8, 12) for i, name in enumerate(("a", "b"))]
    for request in requests:
        scheduler.add(request)
    while scheduler.has_unfinished():
        plan = scheduler.schedule()
        now += 1.0
        scheduler.apply(plan, StepOutput(plan.step_id, {s.request_id: (7,) for s in plan.scheduled if s.samples}))
    return requests, scheduler


def test_the_trace_shows_every_step_and_every_state_of_a_request(run, tmp_path) -> None:
    requests, scheduler = run
    path = trace_export.write_chrome_trace(tmp_path / "trace.json", requests, scheduler.step_records)
    events = json.loads(path.read_text())["traceEvents"]
    steps = [event for event in events if event["ph"] == "X" and event["pid"] == 1]
    assert len(steps) == len(scheduler.step_records) and steps[0]["ts"] == 0 and steps[0]["dur"] == 1e6
    assert steps[0]["args"]["prefill_tokens"] == 16
    states = [event["name"] for event in events if event["ph"] == "X" and event["pid"] == 2 and event["tid"] == 1]
    assert states == ["waiting", "running", "waiting again (KV thrown away)", "running"]
    spans = [event for event in events if event["ph"] == "X" and event["pid"] == 2 and event["tid"] == 1]
    assert all(a["ts"] + a["dur"] == b["ts"] for a, b in pairwise(spans)), "states follow each other without a gap"
    tokens = [event for event in events if event["ph"] == "i" and event["tid"] == 0]
    assert [token["name"] for token in tokens[:2]] == ["first token", "token"] and len(tokens) == 12
    assert {event["name"] for event in events if event["ph"] == "C"} == {"tokens", "requests", "KV blocks"}


def test_nothing_recorded_is_an_empty_trace() -> None:
    assert all(event["ph"] == "M" for event in trace_export.chrome_trace([], [])["traceEvents"])


def test_frames_have_a_row_for_each(run) -> None:
    pytest.importorskip("pandas", reason="data frames are optional")
    requests, scheduler = run
    steps, rows = trace_export.steps_frame(scheduler.step_records), trace_export.requests_frame(requests)
    assert len(steps) == len(scheduler.step_records) and steps["num_preempted"].sum() == requests[1].num_preemptions == 1
    assert list(rows["output_tokens"]) == [12, 12] and list(rows["finish_reason"]) == ["length"] * 2
    assert (rows["ttft_s"] == 1.0).all()
    assert list(trace_export.steps_frame([]).columns) == list(steps.columns)


def test_without_pandas_the_error_says_what_to_do(run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pip install pandas"):
        trace_export.steps_frame(run[1].step_records)
