"""What happened, for other tools: Chrome trace JSON (chrome://tracing, ui.perfetto.dev) and tables.

Why outside the core: the core records plain data (a `Timeline` a request, a `StepRecord` a step) and knows no format. This reads them.
Times of the trace are microseconds from the first event.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer_lab.core.record import StepRecord
from infer_lab.core.request import Request
from infer_lab.errors import UserError

if TYPE_CHECKING:
    import pandas

_ENGINE, _REQUESTS = 1, 2  # the two "processes" of the trace
_STATE_AFTER = {
    "arrived": "waiting",
    "admitted": "running",
    "preempted": "waiting again (KV thrown away)",
    "swapped_out": "swapped to the host",
    "resumed": "running",
    "swapped_in": "running",
}


def chrome_trace(requests: Iterable[Request], steps: Iterable[StepRecord]) -> dict[str, Any]:
    """One lane of steps with counters beside it, and one lane a request with the states it went through and its tokens."""
    requests, steps = [r for r in requests if r.timeline.events], list(steps)
    times = [step.scheduled_at for step in steps] + [request.timeline.events[0].time for request in requests]
    origin = min(times, default=0.0)

    def us(time: float) -> float:
        return round((time - origin) * 1e6, 3)

    events: list[dict[str, Any]] = [_name("process_name", _ENGINE, 0, "engine"), _name("process_name", _REQUESTS, 0, "requests")]
    for step in steps:
        start, end = us(step.scheduled_at), us(step.applied_at)
        events.append(
            {"ph": "X", "pid": _ENGINE, "tid": 0, "name": f"step {step.step_id}", "ts": start, "dur": end - start, "args": step_row(step)}
        )
        for name, values in (
            ("tokens", {"prefill": step.prefill_tokens, "decode": step.decode_tokens, "draft": step.draft_tokens}),
            ("requests", {"running": step.num_running, "waiting": step.num_waiting}),
            ("KV blocks", {"used": step.used_blocks}),
        ):
            events.append({"ph": "C", "pid": _ENGINE, "tid": 0, "name": name, "ts": start, "args": values})
    for lane, request in enumerate(requests):
        timeline = request.timeline
        events.append(_name("thread_name", _REQUESTS, lane, request.request_id))
        last = max([timeline.events[-1].time, *timeline.token_times[-1:]])
        for event, until in zip(timeline.events, [*(e.time for e in timeline.events[1:]), last], strict=True):
            if event.name in _STATE_AFTER:
                span = {"ph": "X", "pid": _REQUESTS, "tid": lane, "name": _STATE_AFTER[event.name], "ts": us(event.time)}
                events.append(span | {"dur": us(until) - us(event.time), "args": {"step": event.step_id, "tokens": event.tokens}})
        for number, time in enumerate(timeline.token_times):
            name = "first token" if number == 0 else "token"
            events.append({"ph": "i", "s": "t", "pid": _REQUESTS, "tid": lane, "name": name, "ts": us(time), "args": {"number": number}})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write_chrome_trace(path: str | Path, requests: Iterable[Request], steps: Iterable[StepRecord]) -> Path:
    path = Path(path)
    path.write_text(json.dumps(chrome_trace(requests, steps)), encoding="utf-8")
    return path


def step_row(step: StepRecord) -> dict[str, int | float]:
    """A step as a flat row."""
    return step._asdict() | {"num_tokens": step.num_tokens, "kv_usage": step.kv_usage}


def request_row(request: Request) -> dict[str, Any]:
    """A request as a flat row. Times in seconds; None for what has not happened."""
    timeline = request.timeline
    return {
        "request_id": request.request_id,
        "tenant": request.tenant,
        "priority": request.priority,
        "status": request.status.value,
        "finish_reason": request.finish_reason,
        "prompt_tokens": request.num_prompt_tokens,
        "output_tokens": request.num_output_tokens,
        "cached_tokens": request.num_cached_tokens,
        "preemptions": request.num_preemptions,
        "arrival_s": timeline.arrival_time,
        "queue_s": timeline.queue_time,
        "ttft_s": timeline.ttft,
        "tpot_s": timeline.tpot,
        "finish_s": timeline.finish_time,
    }


def steps_frame(steps: Iterable[StepRecord]) -> pandas.DataFrame:
    """One row a step."""
    return _frame([step_row(step) for step in steps], list(step_row(_EMPTY_STEP)))


def requests_frame(requests: Iterable[Request]) -> pandas.DataFrame:
    """One row a request."""
    return _frame([request_row(request) for request in requests], list(request_row(_EMPTY_REQUEST)))


_EMPTY_STEP = StepRecord(*[1] * len(StepRecord._fields))
_EMPTY_REQUEST = Request("", [0], 1)


def _frame(rows: Sequence[dict[str, Any]], columns: list[str]) -> pandas.DataFrame:
    try:
        import pandas
    except ImportError as error:
        raise UserError(
            "data frames need pandas, which is not installed: pip install pandas (rows without it: step_row, request_row)"
        ) from error
    return pandas.DataFrame(rows, columns=columns)


def _name(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}
