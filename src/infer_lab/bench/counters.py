"""What a GPU's own counters say of a piece of work: bytes that the memory really moved, sectors, how busy each unit was.

Why: bytes counted from shapes are what a kernel must move, and time tells only how long it took. Between them lie the L2, which answers
some reads, and kernels that read twice. Counters are read by NVIDIA's Nsight Compute (`ncu`), which has to start the process that it looks
into. So the work is named, not passed: "module:function", where the function gives the cases (`Case`) in order. They run in a process of
their own: each once to warm up; then another buffer is read until the L2 holds nothing else (read, not written: dirty lines would be
written back during the call, and counted as its own); then once under `ncu`. A tiny kernel before each tells where one ends. What a call
writes and leaves in the L2 is not counted. A case that does not fit this GPU's memory is left out.

Clocks are left as they are (`--clock-control none`). `TRAFFIC` takes one pass, with the caches as they are: a sequence of kernels finds
in the L2 what the one before left there, as it does without a profiler. `BUSY` takes several; before each `ncu` empties the caches, so
that all passes see the same. Times under a profiler are not times; take them with `timer`.
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
from types import MappingProxyType

from infer_lab.errors import UnsupportedHardwareError, UserError

Metrics = Mapping[str, str]
"""What `Counted.values` calls it → the name of the counter. Sums are added up over the kernels of a case, shares weighted by `ns`."""

TRAFFIC: Metrics = MappingProxyType({
    "read": "dram__bytes_read.sum", "written": "dram__bytes_write.sum", "from_l2": "l1tex__m_xbar2l1tex_read_bytes.sum",
})  # fmt: skip
"""Bytes of the device's memory, and those that the L2 gave to the SMs, whether it had them or not. One pass reads all three."""
STORES: Metrics = MappingProxyType({
    "sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum", "requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
})  # fmt: skip
"""Sectors of 32 bytes that stores touched, and the warps' store instructions that touched them."""
_SHARE = ".avg.pct_of_peak_sustained_elapsed"
BUSY: Metrics = MappingProxyType({
    "ns": "gpu__time_duration.sum", "memory": "dram__throughput" + _SHARE, "tensor": "sm__pipe_tensor_cycles_active" + _SHARE,
    "issue": "sm__issue_active" + _SHARE, "sm": "sm__throughput" + _SHARE,
})  # fmt: skip
"""Duration, and shares of peak in percent: memory, matrix units, instructions issued, and the busiest of all units of an SM."""

UNITS: Mapping[str, str] = MappingProxyType(
    dict.fromkeys(TRAFFIC, "B") | dict.fromkeys(STORES, "1") | dict.fromkeys(BUSY, "%") | {"ns": "ns"}
)
"""Of each value, for a record."""
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
    """One call of a case, all its kernels together. nbytes: the fewest by the formula. values: what was counted."""

    name: str
    kernels: int
    nbytes: float
    values: Mapping[str, float]

    @property
    def dram(self) -> float:
        """Bytes that the memory read and wrote."""
        return self.values["read"] + self.values["written"]

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


def count(cases: str, metrics: Metrics = TRAFFIC, *, ncu: Path | None = None, timeout: float = 300) -> list[Counted]:
    """Runs the cases of "module:function" under ncu, in a process of its own. timeout: seconds for all of them.

    Raises UnsupportedHardwareError where the counters cannot be read, UserError where the work itself fails.
    """
    program = ncu or find_ncu()
    if program is None:
        raise UnsupportedHardwareError("the counters are read by Nsight Compute, and there is no `ncu` here: put it on the PATH")
    with tempfile.TemporaryDirectory() as folder:
        table, names = Path(folder, "counters.csv"), Path(folder, "cases.json")
        command = [
            str(program), "--clock-control", "none", "--cache-control", "all" if "ns" in metrics else "none",
            "--profile-from-start", "off", "--target-processes", "all", "--metrics", ",".join(metrics.values()), "--csv",
            "--print-units", "base", "--log-file", str(table),
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
        ran = [(name, nbytes) for name, nbytes in json.loads(names.read_text())]
        return in_cases(list(kernels_of(table.read_text(), metrics)), ran, metrics)


def kernels_of(table: str, metrics: Metrics = TRAFFIC) -> Iterator[tuple[str, dict[str, float]]]:
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
        counters |= {name: _number(given[metric], metric) for name, metric in metrics.items() if metric in given}
    yield from found.values()


def _number(text: str, metric: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise UserError(f"the counter {metric} has no value here ({text!r})") from None


def in_cases(
    kernels: Sequence[tuple[str, Mapping[str, float]]], cases: Sequence[tuple[str, float]], metrics: Metrics = TRAFFIC
) -> list[Counted]:
    """Puts the kernels of each case together. cases: name and bytes by the formula, in the order in which they ran."""
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
        missing = {metric for key, metric in metrics.items() if any(key not in counters for counters in group)}
        if missing or not group:
            raise UserError(f"{name}: the profiler gave no {', '.join(sorted(missing)) or 'kernel'}")
        found.append(Counted(name, len(group), nbytes, {key: _together(key, metric, group) for key, metric in metrics.items()}))
    return found


def _together(key: str, metric: str, group: Sequence[Mapping[str, float]]) -> float:
    if not metric.endswith(_SHARE):
        return sum(counters[key] for counters in group)
    return sum(counters[key] * counters["ns"] for counters in group) / sum(counters["ns"] for counters in group)


def cases_of(named: str) -> list[Case]:
    """The cases of "module:function"."""
    module, _, function = named.partition(":")
    return list(getattr(importlib.import_module(module), function)())


def _run(named: str, names: Path) -> None:
    """What runs under the profiler: everything but one call of each case is outside its view."""
    import torch

    ran = []
    with torch.inference_mode():
        other = torch.zeros(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")
        for case in cases_of(named):
            try:
                call = case.make("cuda")
                call()
            except torch.OutOfMemoryError:
                call = None
                torch.cuda.empty_cache()
                continue
            for _ in range(3):  # an L2 does not give up its oldest lines first: after one pass some of the case's own are still there
                other.sum()
            torch.cuda.synchronize()
            torch.cuda.profiler.start()
            torch.cuda._sleep(1)
            call()
            torch.cuda.synchronize()
            torch.cuda.profiler.stop()
            ran.append((case.name, case.nbytes))
            del call
    names.write_text(json.dumps(ran))


if __name__ == "__main__":
    _run(sys.argv[1], Path(sys.argv[2]))
