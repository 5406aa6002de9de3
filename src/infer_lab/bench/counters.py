"""Bytes that a GPU's memory really moved, by the GPU's own counters.

Why: bytes counted from shapes are what a kernel must move, and time tells only how long it took. Between them lie the L2, which answers
some reads, and kernels that read twice. Counters are read by NVIDIA's Nsight Compute (`ncu`), which has to start the process that it looks
into. So the work is named, not passed: "module:function", where the function gives the cases (`Case`) in order. They run in a process of
their own: each once to warm up; then another buffer is read until the L2 holds nothing else (read, not written: dirty lines would be
written back during the call, and counted as its own); then once under `ncu`. A tiny kernel before each tells where one ends. What a call
writes and leaves in the L2 is not counted.

Clocks and caches are left as they are (`--clock-control none`, `--cache-control none`): a sequence of kernels finds in the L2 what the
one before left there, as it does without a profiler. Times under a profiler are not times; take them with `timer`.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from infer_lab.errors import UnsupportedHardwareError, UserError

METRICS: Mapping[str, str] = {"read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum"}
"""What `Counted` calls it → the name of the counter, in bytes. Two that one pass can read: a second pass would find a warm L2."""
_BOUNDARY = "spin_kernel"  # of torch.cuda._sleep: no work of ours is called so
_FLUSH_BYTES = 512 * 2**20
_WHY_NOT = {
    "ERR_NVGPUCTRPERM": "this user may not read the counters: run as root, or see developer.nvidia.com/ERR_NVGPUCTRPERM",
    "LibraryNotLoaded": "this machine's runtime does not let a profiler in",
}


@dataclass(frozen=True, slots=True)
class Case:
    """make: given a device, returns the call to count; it may allocate. nbytes: the fewest bytes by the formula."""

    name: str
    nbytes: float
    make: Callable[[str], Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Counted:
    """Bytes of one call of a case, all its kernels together. nbytes: those by the formula."""

    name: str
    kernels: int
    nbytes: float
    read: float
    written: float

    @property
    def dram(self) -> float:
        """Bytes that the memory read and wrote."""
        return self.read + self.written

    @property
    def over_formula(self) -> float:
        return self.dram / self.nbytes


def find_ncu() -> Path | None:
    """On the path, or the newest under /opt/nvidia/nsight-compute or /usr/local/cuda."""
    found = shutil.which("ncu")
    if found:
        return Path(found)
    installed = [*Path("/opt/nvidia/nsight-compute").glob("*/ncu"), *Path("/usr/local").glob("cuda*/bin/ncu")]
    return max(installed, default=None)


def count(cases: str, *, ncu: Path | None = None, timeout: float = 300) -> list[Counted]:
    """Runs the cases of "module:function" under ncu, in a process of its own. timeout: seconds for all of them.

    Raises UnsupportedHardwareError where the counters cannot be read, UserError where the work itself fails.
    """
    program = ncu or find_ncu()
    if program is None:
        raise UnsupportedHardwareError("the counters are read by Nsight Compute, and there is no `ncu` here: put it on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        table, names = Path(folder, "counters.csv"), Path(folder, "cases.json")
        command = [
            str(program), "--clock-control", "none", "--cache-control", "none", "--profile-from-start", "off",
            "--target-processes", "all", "--metrics", ",".join(METRICS.values()), "--csv", "--print-units", "base",
            "--log-file", str(table),
            sys.executable, "-m", "infer_lab.bench.counters", cases, str(names),
        ]  # fmt: skip
        path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = os.environ | {"PYTHONPATH": path}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment, check=False)
        except subprocess.TimeoutExpired:
            raise UserError(f"{cases} took longer than {timeout:g} s under {program.name}: allow more, or count fewer cases") from None
        said = (table.read_text(errors="replace") if table.exists() else "") + done.stdout + done.stderr
        for sign, why in _WHY_NOT.items():
            if sign in said:
                raise UnsupportedHardwareError(f"the counters cannot be read: {why}")
        if not names.exists():
            raise UserError(f"{cases} did not run under {program.name}:\n" + "\n".join(said.strip().splitlines()[-8:]))
        return in_cases(list(kernels_of(table.read_text())), [(name, nbytes) for name, nbytes in json.loads(names.read_text())])


def kernels_of(table: str) -> Iterator[tuple[str, dict[str, float]]]:
    """Name and counters of each kernel, in the order of launch, from ncu's CSV: a row for each metric, or a column (`--page raw`)."""
    lines = table.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return
    found: dict[str, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(lines[start:]):
        if not row["ID"]:  # the row of units
            continue
        _, counters = found.setdefault(row["ID"], (row["Kernel Name"], {}))
        given = {row["Metric Name"]: row["Metric Value"]} if "Metric Name" in row else row
        counters |= {name: _number(given[metric], metric) for name, metric in METRICS.items() if metric in given}
    yield from found.values()


def _number(text: str, metric: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise UserError(f"the counter {metric} has no value here ({text!r})") from None


def in_cases(kernels: Sequence[tuple[str, Mapping[str, float]]], cases: Sequence[tuple[str, float]]) -> list[Counted]:
    """Adds up the kernels of each case. cases: name and bytes by the formula, in the order in which they ran."""
    groups: list[list[Mapping[str, float]]] = []
    for name, counters in kernels:
        if _BOUNDARY in name:
            groups.append([])
        elif groups:
            groups[-1].append(counters)
    if len(groups) != len(cases):
        raise UserError(f"{len(cases)} cases ran and the counters show {len(groups)}: was a kernel left out by a filter?")
    found = []
    for (name, nbytes), group in zip(cases, groups, strict=True):
        missing = {metric for key, metric in METRICS.items() if any(key not in counters for counters in group)}
        if missing or not group:
            raise UserError(f"{name}: the profiler gave no {', '.join(sorted(missing)) or 'kernel'}")
        found.append(Counted(name, len(group), nbytes, **{key: sum(counters[key] for counters in group) for key in METRICS}))
    return found


def cases_of(named: str) -> list[Case]:
    """The cases of "module:function"."""
    module, _, function = named.partition(":")
    return list(getattr(importlib.import_module(module), function)())


def _run(named: str, names: Path) -> None:
    """What runs under the profiler: everything but one call of each case is outside its view."""
    import torch

    cases = cases_of(named)
    with torch.inference_mode():
        other = torch.zeros(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        for case in cases:
            call = case.make("cuda")
            call()
            other.sum()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1)
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            del call
    names.write_text(json.dumps([(case.name, case.nbytes) for case in cases]))


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]))
