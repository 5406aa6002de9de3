"""infer-lab bench: how fast the engine is on this machine, beside what the machine could do at most.

Each command prints a table and, as its last line, one JSON document. Rows are kept as they are measured; `--resume` goes on from there.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from infer_lab import cli_options as options
from infer_lab.errors import UserError
from infer_lab.quant.scheme import SCHEMES

if TYPE_CHECKING:
    from infer_lab.bench.engine_command import EngineBench
    from infer_lab.bench.engine_rows import Row
    from infer_lab.bench.engine_work import Case, Floor
    from infer_lab.llm import LLM

app = typer.Typer(no_args_is_help=True, help="How fast the engine is here, beside what the machine could do at most.")

SMALL, LARGE = "dummy:qwen3-0.6b", "dummy:llama-3-8b"
KERNELS = ("attention", "elementwise", "gemm")
SPARE = 64  # tokens beyond a case's own, for the steps of a timeline

Model = Annotated[
    str | None, typer.Option("--model", "-m", help="Any checkpoint, or dummy:<preset>; by default a shape that fits the task")
]
Set = Annotated[list[str] | None, typer.Option("--set", help="A field of EngineConfig, e.g. block_size=32; may be given several times")]
Record = Annotated[bool, typer.Option("--record", help="Write a measurement record")]
Resume = Annotated[bool, typer.Option("--resume", help="Keep the rows that an earlier run with these settings has measured")]
Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes, to see that it runs; the figures mean nothing")]
Timeline = Annotated[bool, typer.Option("--timeline", help="Show, and record, where the time of a step goes, kernel by kernel")]
Cases = Annotated[list[str] | None, typer.Option("--case", help="<batch>x<prompt>[x<output>], such as 32x2048; may be given several times")]
Output = Annotated[int | None, typer.Option("--output", help="Tokens that each request generates")]


@app.command()
def throughput(
    model: Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    requests: Annotated[int | None, typer.Option(help="256 is the published workload")] = None,
    runs: Annotated[int, typer.Option(help="Measured runs, after warming up until nothing compiles any more")] = 3,
    patience: Annotated[float, typer.Option(help="No further run once they took so many seconds together")] = 60.0,
    settings: Set = None,
    timeline: Timeline = False,
    record: Record = False,
    resume: Resume = False,
    quick: Quick = False,
) -> None:
    """Output tokens a second of the 256-request workload: lengths of 100 to 1024, all arriving together (seed 0, temperature 0.6)."""
    bench = _bench("throughput", model, SMALL, device, dtype, settings, record, resume, quick)
    from infer_lab.bench import engine_measure
    from infer_lab.bench.engine_command import say
    from infer_lab.bench.engine_work import mixed

    sizes = bench.by_size({}, {"requests": 16, "shortest": 16, "longest": 64}, {"requests": 4, "shortest": 4, "longest": 12})
    job = mixed(bench.shape.vocab_size, **(sizes if requests is None else sizes | {"requests": requests}))
    bench.workload |= {"seed": 0, "temperature": job.temperature, "end_tokens": "ignored", "prefix_cache": "reset before each run"}
    # a timeline continues the prompts, all together
    longest = max(job.longest, max(map(len, job.prompts)) + SPARE if timeline else 0)
    seconds = min(patience, 1.0) if quick else patience

    def row(_: str, llm: LLM, floor: Floor) -> Row:
        return engine_measure.throughput(llm, job, floor, runs=runs, patience_s=seconds, timeline=timeline, say=say)

    bench.rows([f"r{len(job.prompts)}"], {"max_num_seqs": len(job.prompts), "max_model_len": longest}, row)
    raise typer.Exit(bench.finish("Throughput"))


@app.command()
def latency(
    model: Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    case: Cases = None,
    output: Output = None,
    settings: Set = None,
    timeline: Timeline = False,
    record: Record = False,
    resume: Resume = False,
    quick: Quick = False,
) -> None:
    """Time of a decode step by batch and prompt length, beside its floor: weights and cached tokens over the measured bandwidth."""
    bench = _bench("latency", model, LARGE, device, dtype, settings, record, resume, quick)
    from infer_lab.bench import engine_measure

    cases = _cases(bench, case, ("1x128", "8x128", "32x128", "1x2048", "32x2048"), output or bench.by_size(128, 16, 4))

    def row(name: str, llm: LLM, floor: Floor) -> Row:
        return engine_measure.latency(llm, cases[name], floor, timeline=timeline)

    bench.rows(list(cases), _sizes(cases, timeline), row)
    raise typer.Exit(bench.finish("Decode step"))


@app.command()
def prefill(
    model: Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    length: Annotated[list[int] | None, typer.Option("--length", help="Prompt tokens; may be given several times")] = None,
    repeats: Annotated[int, typer.Option(help="Measured prompts of each length")] = 5,
    settings: Set = None,
    record: Record = False,
    resume: Resume = False,
    quick: Quick = False,
) -> None:
    """Time to the first token by prompt length, one request at a time, beside its floor."""
    bench = _bench("prefill", model, LARGE, device, dtype, settings, record, resume, quick)
    from infer_lab.bench import engine_measure

    longest = bench.shape.max_model_len - 1
    sweep = bench.by_size((128, 512, 1024, 2048, 4096, 8191), (32, 128), (8, 16))
    names = {f"p{tokens}": tokens for tokens in length or [tokens for tokens in sweep if tokens <= longest]}

    def row(name: str, llm: LLM, floor: Floor) -> Row:
        return engine_measure.prefill(llm, names[name], floor, repeats=repeats)

    bench.rows(list(names), {"max_num_seqs": 1, "max_model_len": max(names.values()) + 1, "enable_prefix_caching": False}, row)
    raise typer.Exit(bench.finish("Time to the first token"))


@app.command()
def quantization(
    model: Model = None,
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    case: Cases = None,
    output: Output = None,
    scheme: Annotated[list[str] | None, typer.Option("--scheme", help=f"none, {', '.join(SCHEMES)}; may be given several times")] = None,
    settings: Set = None,
    timeline: Timeline = False,
    record: Record = False,
    resume: Resume = False,
    quick: Quick = False,
) -> None:
    """Time of a decode step with the weights packed in each way, beside its own floor."""
    if unknown := set(scheme or ()) - {"none", *SCHEMES}:
        raise UserError(f"there is no scheme {', '.join(sorted(unknown))}; there are none, {', '.join(SCHEMES)}")
    bench = _bench("quantization", model, LARGE, device, dtype, settings, record, resume, quick)
    from infer_lab.bench import engine_measure

    cases = _cases(bench, case, ("1x128", "16x128", "64x128"), output or bench.by_size(64, 8, 4))
    for one in dict.fromkeys(scheme or ("none", *SCHEMES)):
        packed = {"quantization": None if one == "none" else one, "quantization_cache": False}

        def row(name: str, llm: LLM, floor: Floor, one: str = one) -> Row:
            found = engine_measure.latency(llm, cases[name.removeprefix(f"{one}-")], floor, timeline=timeline)
            assert found.timed is not None
            timed = replace(found.timed, shape=f"{one}, {found.timed.shape}")
            about = {"weights": one, "GB_read": round(floor.weights / 1e9, 2), **found.about}
            return replace(found, name=name, about=about, timed=timed)

        bench.rows([f"{one}-{name}" for name in cases], _sizes(cases, timeline) | packed, row, optional=True)
    raise typer.Exit(bench.finish("Decode step by quantization"))


@app.command()
def kernels(
    only: Annotated[list[str] | None, typer.Option("--only", help=f"{', '.join(KERNELS)}; may be given several times")] = None,
    device: options.Device = "auto",
    record: Record = False,
    quick: Quick = False,
) -> None:
    """Our kernels beside their peers: runs the programs of `benchmarks/`, so it needs a checkout. On a CPU with --quick only."""
    from infer_lab.bench.environment import repository_root
    from infer_lab.engine.build import resolve_device

    root, where = repository_root(), str(resolve_device(device))
    found: dict[str, Any] = {}
    for name in only or KERNELS:
        program = root / "benchmarks" / f"{name}.py"
        if name not in KERNELS or not program.is_file():
            raise UserError(
                f"there is no benchmark {name!r} here; those of kernels are {', '.join(KERNELS)}, in a checkout of the repository"
            )
        flags = [flag for flag, wanted in (("--record", record), ("--quick", quick)) if wanted]
        done = subprocess.run(
            [sys.executable, program, "--device", where, *flags], cwd=root, stdout=subprocess.PIPE, text=True, check=False
        )
        if done.returncode:
            raise UserError(f"benchmarks/{name}.py ended with exit code {done.returncode}; what it said stands above")
        found[name] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps({"command": "kernels", **found}))


def _bench(
    command: str,
    model: str | None,
    on_gpu: str,
    device: str,
    dtype: str,
    settings: list[str] | None,
    record: bool,
    resume: bool,
    quick: bool,
) -> EngineBench:
    from infer_lab.bench.engine_command import EngineBench

    return EngineBench(command, model, on_gpu, device, dtype, settings or (), record, resume, quick)


def _cases(bench: EngineBench, given: list[str] | None, on_gpu: tuple[str, ...], output: int) -> Mapping[str, Case]:
    """By the names of their rows."""
    from infer_lab.bench.engine_work import Case

    wanted = [Case.parse(text, output) for text in given or bench.by_size(on_gpu, ("1x32", "4x32"), ("1x8", "2x8"))]
    return {case.name: case for case in wanted}


def _sizes(cases: Mapping[str, Case], timeline: bool) -> dict[str, Any]:
    """Options of the engine that every case fits in."""
    longest = max(case.prompt + case.output for case in cases.values()) + (SPARE if timeline else 0)
    return {"max_num_seqs": max(case.batch for case in cases.values()), "max_model_len": longest, "enable_prefix_caching": False}
