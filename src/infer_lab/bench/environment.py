"""Which machine, which software, which commit: what a figure needs to be traced back.

Nothing here fails for lack of a tool: without a GPU, without `nvidia-smi` or without a repository the field says so, and
`record.py` decides what a record cannot do without. For a copy of the files that is no checkout of its commit, INFER_LAB_COMMIT says
which it is (and INFER_LAB_DIRTY=1 that the copy had uncommitted changes).
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

_PACKAGES = ("torch", "triton", "numpy", "infer-lab")
_SMI_FIELDS = ("clocks.sm", "clocks.mem", "driver_version")


@dataclass(frozen=True, slots=True)
class Environment:
    """device: slug, name, kind ("cpu" or "cuda"), memory, cores … ; software: versions; git: commit and dirty; date: UTC, ISO 8601."""

    device: Mapping[str, Any]
    software: Mapping[str, str]
    git: Mapping[str, Any]
    date: str
    command: str

    @property
    def slug(self) -> str:
        return str(self.device["slug"])


def capture(device: str = "cpu", command: str | None = None) -> Environment:
    """The state of things now. device: "cpu", "cuda" or "cuda:1"."""
    info = _cuda_device(device) if device.startswith("cuda") else _cpu_device()
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Environment(info, _software(), _git(repository_root()), now, command or _command())


def clocks_mhz(device: str = "cuda") -> dict[str, int] | None:
    """Current SM and memory clock, from `nvidia-smi`; None where it cannot say."""
    row = _smi(device)
    if row is None:
        return None
    try:
        return {"sm": int(row["clocks.sm"]), "memory": int(row["clocks.mem"])}
    except ValueError:
        return None


def gpu_slug(name: str, memory_bytes: int) -> str:
    """ "NVIDIA H200" → h200; "NVIDIA A100-SXM4-80GB" → a100-80gb; others: the name without the maker, in lower case."""
    plain = re.sub(r"\b(nvidia|geforce|tesla|graphics|gpu)\b", "", name.lower())
    for family in ("h200", "h100", "b200", "b300", "l40s", "l4", "a10g"):
        if re.search(rf"\b{family}\b", plain):
            return family + ("-pcie" if "pcie" in plain else "")
    if "a100" in plain:
        return f"a100-{80 if memory_bytes > 60e9 else 40}gb" + ("-pcie" if "pcie" in plain else "")
    return sanitize(plain)


def sanitize(text: str) -> str:
    """Lower case, digits and single hyphens: fit for a file name and an id."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "unknown"


def repository_root(start: Path | None = None) -> Path:
    """The nearest folder above `start` (default: here) that holds `measurements/` and `pyproject.toml`; else `start` itself."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / "pyproject.toml").is_file() and (folder / "measurements").is_dir():
            return folder
    return here


def _cuda_device(device: str) -> dict[str, Any]:
    import torch

    index = torch.device(device).index or 0
    props = torch.cuda.get_device_properties(index)
    row = _smi(device)
    return {
        "slug": gpu_slug(props.name, props.total_memory),
        "name": props.name,
        "kind": "cuda",
        "driver": row["driver_version"] if row else "unknown",
        "memory_bytes": props.total_memory,
        "sm_count": props.multi_processor_count,
        "compute_capability": f"{props.major}.{props.minor}",
        "clocks_mhz_before": clocks_mhz(device),
        "clocks_mhz_after": None,
        "cpu": _cpu_name(),
        "cpu_cores": os.cpu_count(),
    }


def _cpu_device() -> dict[str, Any]:
    name, cores = _cpu_name(), os.cpu_count() or 1
    return {"slug": f"cpu-{cores}c-{sanitize(_short_cpu(name))}", "name": name, "kind": "cpu", "cpu": name, "cpu_cores": cores}


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown"


def _short_cpu(name: str) -> str:
    """Without trade marks and clock: "Intel(R) Xeon(R) Platinum 8480C @ 2.0GHz" → "Intel Xeon Platinum 8480C"."""
    return re.sub(r"\s+", " ", re.sub(r"\((r|tm)\)|@.*|\b(cpu|processor)\b", " ", name, flags=re.IGNORECASE)).strip()


def _software() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package.replace("-", "_")] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    if "infer_lab" not in found:
        found["infer_lab"] = "source"
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = str(torch.__version__)
        if torch.version.cuda:
            found["cuda"] = str(torch.version.cuda)
    return found


def _git(root: Path) -> dict[str, Any]:
    """INFER_LAB_COMMIT first: who sets it knows what a copy is of, and the repository of a copy may be older than its files."""
    if "INFER_LAB_COMMIT" in os.environ:
        return {"commit": os.environ["INFER_LAB_COMMIT"], "dirty": os.environ.get("INFER_LAB_DIRTY", "") == "1"}
    commit = _output(["git", "-C", str(root), "rev-parse", "HEAD"])
    if commit:
        changed = _output(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
        return {"commit": commit, "dirty": bool(changed)}
    return {"commit": "", "dirty": False}


def _command() -> str:
    """What a reader types to measure again: INFER_LAB_COMMAND when a runner set it, else this program with its arguments."""
    if "INFER_LAB_COMMAND" in os.environ:
        return os.environ["INFER_LAB_COMMAND"]
    program = Path(sys.argv[0])
    try:
        shown = program.resolve().relative_to(repository_root()).as_posix()
    except ValueError:
        shown = program.name
    return " ".join(["python", shown, *sys.argv[1:]])


def _smi(device: str) -> dict[str, str] | None:
    index = device.partition(":")[2] or "0"
    text = _output(["nvidia-smi", f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits", "-i", index])
    cells = [cell.strip() for cell in text.splitlines()[0].split(",")] if text else []
    return dict(zip(_SMI_FIELDS, cells, strict=True)) if len(cells) == len(_SMI_FIELDS) else None


def _output(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
