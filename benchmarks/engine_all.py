"""Every figure of the engine that PERFORMANCE asks for, each in a process of its own, so that one that fails or hangs loses no other.

    python benchmarks/engine_all.py --record             # on the GPU: throughput, latency, tests, soak, perplexity, quantization, prefill
    python benchmarks/engine_all.py --only latency-large soak
    python benchmarks/engine_all.py --device cpu --quick # tiny sizes, to see that it runs

A job that takes longer than its own limit, or than what is left of --budget, is stopped. Rows that a command measured before it was
stopped are kept: run the same job again with --resume. What each job said is written to <logs>/<job>.log. The last line of output is one
JSON document; exit code 1 if a job failed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SMALL, LARGE = "dummy:qwen3-0.6b", "dummy:llama-3-8b"
SCHEMES = ("w4a16", "w8a16", "fp8", "int8")
TESTS = sorted((ROOT / "tests" / "gpu").glob("test_engine_*.py"))


@dataclass(frozen=True, slots=True)
class Job:
    """command: arguments of Python. limit_s: seconds. check: it times nothing, so it may run beside the checks next to it; the others are
    each an `infer-lab bench` and have the machine for themselves."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    check: bool = False


def bench(name: str, limit_s: float, *arguments: str) -> Job:
    return Job(name, ("-m", "infer_lab", "bench", *arguments), limit_s)


def cases(*names: str) -> tuple[str, ...]:
    return tuple(word for name in names for word in ("--case", name))


PERPLEXITY = Job("perplexity", ("benchmarks/perplexity.py",), 150)  # alone: each of its engines takes the memory that is free

# The most wanted first: what the budget cuts off is at the end.
ON_GPU = (
    bench("throughput", 170, "throughput", "--model", SMALL, "--patience", "25", "--timeline"),
    bench("latency-large", 90, "latency", "--model", LARGE, *cases("1x128x256", "32x2048x128"), "--timeline"),
    bench("latency-small", 60, "latency", "--model", SMALL, *cases("1x128x256", "32x1024x128", "256x512x128"), "--timeline"),
    *(Job(path.stem, ("-m", "pytest", "-s", "-p", "no:cacheprovider", str(path)), 120, check=True) for path in TESTS),
    Job("soak", ("benchmarks/soak.py",), 120, check=True),
    PERPLEXITY,
    *(bench(f"quantization-{name}", 60, "quantization", "--scheme", name) for name in ("none", *SCHEMES)),
    bench("quantization", 30, "quantization"),  # all of them, from the rows that are there
    bench("prefill", 50, "prefill"),
)
ON_CPU = (
    bench("throughput", 120, "throughput", "--timeline"),
    bench("latency", 120, "latency", *cases("1x8", "2x8")),
    Job("soak", ("benchmarks/soak.py",), 120, check=True),
    *(bench(f"quantization-{name}", 60, "quantization", "--scheme", name, *cases("1x8")) for name in ("none", "w8a16")),
    bench("quantization", 30, "quantization", *cases("1x8")),
    bench("prefill", 60, "prefill", "--length", "8"),
)
FROM_ROWS = "quantization"
"""The job that only puts together what the jobs `quantization-<scheme>` have measured."""


@dataclass(frozen=True, slots=True)
class Done:
    """last: the JSON document that the job ended with."""

    name: str
    state: str
    seconds: float
    last: Mapping[str, Any]


def run(job: Job, flags: Sequence[str], limit_s: float, log: Path) -> Done:
    """The job's standard output and error go to the log and to ours; after limit_s its whole process group is ended."""
    start = time.monotonic()
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": path}
    command = [sys.executable, *job.command, *flags]
    with log.open("w") as file:
        process = subprocess.Popen(command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, start_new_session=True, env=environment)
        try:
            code: int | None = process.wait(timeout=limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            code = None
    text = log.read_text(errors="replace")
    state = f"stopped after {limit_s:.0f} s" if code is None else "ok" if code == 0 else f"exit code {code}"
    return Done(job.name, state, round(time.monotonic() - start, 1), _last_document(text))


def _last_document(text: str) -> dict[str, Any]:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                continue
    return {}


def flags_of(job: Job, options: argparse.Namespace, schemes: Sequence[str]) -> list[str]:
    """schemes: those whose rows are there, for the job that puts them together."""
    if job.name.startswith("test_"):
        return []
    flags = ["--device", options.device, *(["--quick"] if options.quick else [])]
    if job.check:
        return flags
    if job is PERPLEXITY:
        return [*flags, "--record"] if options.record else flags
    whole = job.name == FROM_ROWS
    if whole:
        flags += [word for scheme in schemes for word in ("--scheme", scheme)]
    # parts of a table are kept as rows, and recorded with the whole of it
    if options.record and not job.name.startswith(FROM_ROWS + "-"):
        flags.append("--record")
    # a command that resumes keeps the rows of the jobs before it
    return [*flags, "--resume"] if options.resume or job.name.startswith(FROM_ROWS) else flags


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--record", action="store_true", help="write measurements/<device>/engine-*.json")
    parser.add_argument("--resume", action="store_true", help="keep the rows that were measured before with the same code")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it runs; the figures mean nothing")
    parser.add_argument("--only", nargs="+", metavar="JOB", help="some of: " + ", ".join(job.name for job in ON_GPU))
    parser.add_argument("--budget", type=float, default=300, help="seconds for all jobs together")
    parser.add_argument("--logs", type=Path, default=ROOT / ".infer-lab" / "engine-logs", help="folder for what the jobs say")
    options = parser.parse_args(argv)
    jobs = ON_CPU if options.device == "cpu" else ON_GPU
    unknown = set(options.only or ()) - {job.name for job in jobs}
    if unknown:
        parser.error(f"no job is called {', '.join(sorted(unknown))}; jobs are {', '.join(job.name for job in jobs)}")
    options.logs.mkdir(parents=True, exist_ok=True)
    start = time.monotonic()
    done: list[Done] = []
    wanted = [job for job in jobs if not options.only or job.name in options.only]
    for _, together in itertools.groupby(enumerate(wanted), lambda each: "checks" if each[1].check else each[0]):
        left = options.budget - (time.monotonic() - start)
        measured = [one.name.removeprefix(FROM_ROWS + "-") for one in done if one.name.startswith(FROM_ROWS + "-") and one.state == "ok"]

        def one(job: Job, left: float = left, schemes: list[str] = measured) -> Done:
            if left < 5 or (job.name == FROM_ROWS and not schemes):
                return Done(job.name, "no time left" if left < 5 else "no rows to put together", 0.0, {})
            say(f"── {job.name}: python {' '.join(job.command)}")
            found = run(job, flags_of(job, options, schemes), min(job.limit_s, left), options.logs / f"{job.name}.log")
            report(found, options.logs / f"{job.name}.log", options.budget - (time.monotonic() - start))
            return found

        with ThreadPoolExecutor() as pool:
            done += pool.map(one, [job for _, job in together])
    print(json.dumps({"seconds": round(time.monotonic() - start, 1), "jobs": {one.name: [one.state, one.last] for one in done}}))
    return 0 if all(one.state == "ok" for one in done) else 1


def report(done: Done, log: Path, left: float) -> None:
    lines = [line[:200] for line in log.read_text(errors="replace").splitlines() if not line.startswith(("{", "USDT"))]
    say("\n".join([*lines[-60:], f"── {done.name}: {done.state} after {done.seconds} s ({left:.0f} s left)"]))


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
