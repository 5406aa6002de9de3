"""Runs the labs from top to bottom, here or on a GPU: what `make labs` and `make labs-gpu` call.

On a GPU with `--store`, the outputs go into the notebooks (they are what the book shows) and each lab's record into `measurements/`.
Nothing is stored from a lab whose run fails. There, the next lab's kernel imports its libraries while a lab runs: the GPU does not wait
for them, and the processor has cores to spare.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer_lab.bench import repository_root
from infer_lab.bench.environment import capture


class RunError(Exception):
    """A lab cannot be run, or one of its cells failed. The message is for the person at the terminal."""


@dataclass(frozen=True, slots=True)
class Options:
    device: str
    store: bool
    only: tuple[str, ...]
    timeout: int
    keep_going: bool
    command: str


def main(argv: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if argv is None else argv
    options = _parse(arguments)
    root = repository_root()
    try:
        _require_device(options.device)
        if options.store and not capture("cpu", options.command).git.get("commit"):
            raise RunError(
                "outputs are stored with the commit that they come from, and there is no git repository here: set INFER_LAB_COMMIT"
            )
        failed = _run_all(root, find_labs(root, options.only), options)
    except RunError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped" + ("; the outputs of the labs before this one are stored" if options.store else ""), file=sys.stderr)
        return 130
    if failed:
        print(f"error: these labs failed: {', '.join(failed)}", file=sys.stderr)
    return 2 if failed else 0


def _run_all(root: Path, labs: list[Path], options: Options) -> list[str]:
    """The names of those that failed, with keep_going; without it, the first failure is raised."""
    failed = []
    ready: _Ready | None = None
    try:
        for i, path in enumerate(labs, 1):
            print(f"[{i}/{len(labs)}] {path.relative_to(root)} on {options.device}", flush=True)
            lab, ready = ready or _make_ready(path, options), None
            if options.device.startswith("cuda") and i < len(labs):
                ready = _make_ready(labs[i], options)
            try:
                run(lab, options)
            except RunError as error:
                if not options.keep_going:
                    raise
                print(f"error: {error}", file=sys.stderr, flush=True)
                failed.append(path.stem)
    finally:
        if ready is not None:
            ready.stop()
    return failed


def find_labs(root: Path, only: tuple[str, ...] = ()) -> list[Path]:
    """The notebooks under `labs/`, in order of their path; `only` names ids (file names without ending)."""
    found = sorted(p for p in (root / "labs").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
    unknown = set(only) - {p.stem for p in found}
    if unknown:
        raise RunError(f"no lab is called {', '.join(sorted(unknown))}; there are: {', '.join(p.stem for p in found) or 'none'}")
    chosen = [p for p in found if not only or p.stem in only]
    if not chosen:
        raise RunError(f"there is no notebook under {root.name}/labs")
    return chosen


@dataclass(frozen=True, slots=True)
class _Ready:
    """A lab whose kernel has been started."""

    path: Path
    notebook: Any
    client: Any
    progress: _Progress

    def stop(self) -> None:
        from jupyter_core.utils import run_sync

        run_sync(self.client.km.shutdown_kernel)(now=True)


def _make_ready(path: Path, options: Options) -> _Ready:
    import nbformat
    from jupyter_core.utils import run_sync
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    progress = _Progress(sum(c.cell_type == "code" for c in notebook.cells))
    arguments = ["--IPKernelApp.log_level=50"]
    if options.device.startswith("cuda"):
        arguments.append("--IPKernelApp.exec_lines=import torch as _torch, matplotlib.pyplot as _pyplot, infer_course.labkit as _labkit")
    client = NotebookClient(
        notebook, timeout=options.timeout, kernel_name="python3", record_timing=False, resources={"metadata": {"path": str(path.parent)}},
        on_cell_executed=progress.executed, extra_arguments=arguments,
    )  # fmt: skip
    environment = {
        "INFER_LAB_DEVICE": options.device,
        "INFER_LAB_COMMAND": f"{options.command} --only {path.stem}",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    }
    client.create_kernel_manager()
    run_sync(client.async_start_new_kernel)(env=os.environ | environment)
    return _Ready(path, notebook, client, progress)


def run(lab: _Ready, options: Options) -> None:
    """Executes one notebook in a fresh kernel, in its own folder; with `store`, writes its outputs back."""
    import nbformat
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    path, notebook, progress = lab.path, lab.notebook, lab.progress
    progress.start = time.perf_counter()
    start = time.perf_counter()
    try:
        lab.client.execute()
    except CellExecutionError as error:
        kept = _keep(notebook, path)
        raise RunError(
            f"{path.name}, {progress.where(notebook)}: {error.ename}: {error.evalue}\n{_tail(error.traceback)}\n{kept}"
        ) from None
    except CellTimeoutError:
        kept = _keep(notebook, path)
        raise RunError(
            f"{path.name}, {progress.where(notebook)}: took longer than {options.timeout} s; --timeout raises the limit\n{kept}"
        ) from None
    except DeadKernelError:
        raise RunError(f"{path.name}, {progress.where(notebook)}: the kernel died (out of memory?)\n{_keep(notebook, path)}") from None
    except AssertionError:
        if lab.client.km is not None:
            raise
        # nbclient has caught Ctrl-C or SIGTERM and ended the kernel; its tasks that still wait for it would each leave a traceback
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise KeyboardInterrupt from None
    seconds = time.perf_counter() - start
    print(f"    {progress.total} cells in {seconds:.1f} s", flush=True)
    if options.store:
        _forget_the_machine(notebook)
        notebook.metadata.setdefault("infer_course", {})["run"] = _run_info(options, seconds)
        nbformat.write(notebook, path)
        print("    outputs stored", flush=True)


def _keep(notebook: Any, path: Path) -> str:
    """Saves what a failed run has shown, beside the repository's own files: minutes of a GPU are in it."""
    import nbformat

    kept = repository_root() / ".infer-lab" / "failed" / path.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, kept)
    return f"its outputs up to there: .infer-lab/failed/{path.name}"


class _Progress:
    """One line per executed cell, and which cell is running."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.perf_counter()

    def executed(self, cell: Any, cell_index: int, execute_reply: Any) -> None:
        if cell.cell_type != "code":
            return
        self.done += 1
        print(f"    {self.done}/{self.total}  {time.perf_counter() - self.start:6.1f} s  {_first_line(cell.source)}", flush=True)

    def where(self, notebook: Any) -> str:
        code = [c for c in notebook.cells if c.cell_type == "code"]
        # a cell that raised is reported as executed before the error reaches us
        index = max(0, min(self.done, len(code)) - 1)
        return f"code cell {index + 1} ({_first_line(code[index].source)})"


def _first_line(source: str) -> str:
    lines = [line for line in source.splitlines() if line.strip()]
    return lines[0][:80] if lines else ""


def _tail(traceback: str) -> str:
    import re

    plain = re.sub(r"\x1b\[[0-9;]*m", "", traceback)
    return "\n".join(plain.strip().splitlines()[-12:])


def _run_info(options: Options, seconds: float) -> dict[str, Any]:
    """Where the outputs come from, as `schema.LabRun`: the *Status* page shows it."""
    here = capture(options.device, options.command)
    return {
        "device": str(here.device["name"]), "date": here.date, "seconds": round(seconds, 1),
        "commit": str(here.git.get("commit") or "unknown"), "software": dict(here.software),
    }  # fmt: skip


def _forget_the_machine(notebook: Any) -> None:
    """Keeps what readers see and drops what changes with each run for no reason: warnings name files of the machine, progress its speed."""
    notebook.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]


def _require_device(device: str) -> None:
    if not device.startswith("cuda"):
        return
    try:
        import torch
    except ImportError:
        raise RunError("the labs need torch: run `make setup` first") from None
    if not torch.cuda.is_available():
        raise RunError("no CUDA device was found here: torch sees none. `make labs` runs the labs on the CPU.")


def _parse(arguments: list[str]) -> Options:
    parser = argparse.ArgumentParser(prog="python -m infer_course.run_labs", description="Run the labs from top to bottom.")
    parser.add_argument("--device", default="cpu", help="cpu (default) or cuda")
    parser.add_argument("--store", action="store_true", help="write the outputs into the notebooks")
    parser.add_argument("--only", nargs="+", default=[], metavar="ID", help="ids of labs, e.g. kv-cache-by-hand")
    parser.add_argument("--keep-going", action="store_true", help="run the other labs when one fails, and say at the end which did")
    parser.add_argument("--timeout", type=int, default=600, metavar="S", help="seconds that one cell may take (default 600)")
    found = parser.parse_args(arguments)
    command = f"python -m infer_course.run_labs --device {found.device}" + (" --store" if found.store else "")
    return Options(found.device, found.store, tuple(found.only), found.timeout, found.keep_going, command)


if __name__ == "__main__":
    sys.exit(main())
