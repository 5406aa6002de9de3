"""Compile what a call would launch, for a chip that need not be here: to see what the assembler says, or to fill the cache early.

Why: spills, a lost matrix instruction or too much shared memory make a kernel slow or unlaunchable on a GPU that the tests do not have;
and on a GPU, compiling in parallel before the first request beats compiling one by one in it. The wrapper itself runs, on tensors that
need no storage (device "meta") and as if on the chip, so what is compiled is exactly what it would launch there.
Must run in a process without TRITON_INTERPRET (a kernel's decorator reads it at import).
"""

# pyright: reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia.compiler import get_ptxas
from triton.compiler import ASTSource, make_backend
from triton.experimental.gluon._runtime import GluonASTSource
from triton.runtime.jit import JITFunction, create_function_from_signature

from infer_lab.kernels import _common

# Shared memory one block may have, multiprocessors: A100, RTX 4090, H100/H200.
CHIPS = {80: (163 * 1024, 108), 89: (99 * 1024, 128), 90: (227 * 1024, 132)}


def target_for(arch: int) -> _common.Target:
    shared, sms = CHIPS[arch]
    return _common.Target(f"untuned-sm{arch}", (arch // 10, arch % 10), shared, sms)


def compile_launch(kernel: JITFunction, args: tuple[Any, ...], kwargs: dict[str, Any], arch: int) -> Any:
    """The CompiledKernel that `kernel[grid](*args, **kwargs)` would run on this architecture."""
    target = GPUTarget("cuda", arch, 32)
    backend = make_backend(target)
    bound, specialization, _ = create_function_from_signature(kernel.signature, kernel.params, backend)(*args, **kwargs)
    options, signature, constexprs, attrs = kernel._pack_args(backend, kwargs, bound, specialization, None)
    source = (GluonASTSource if kernel.is_gluon() else ASTSource)(kernel, signature, constexprs, attrs)
    return triton.compile(source, target=target, options=options.__dict__)


def resources(compiled: Any, arch: int) -> dict[str, Any]:
    """Registers a thread, bytes spilled, bytes of shared memory a block, warps, and whether Hopper's matrix instruction is there."""
    ptx = compiled.asm["ptx"]
    with tempfile.TemporaryDirectory() as d:
        path = Path(d) / "k.ptx"
        path.write_text(ptx)
        name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        command = [get_ptxas(arch).path, "-v", f"--gpu-name={name}", str(path), "-o", f"{d}/k.cubin"]
        log = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    return {
        "registers": int(re.findall(r"Used (\d+) registers", log)[-1]),
        "spill_bytes": sum(int(a) + int(b) for a, b in spills),
        "shared_bytes": int(compiled.metadata.shared),
        "warps": int(compiled.metadata.num_warps),
        "wgmma": "wgmma.mma_async" in ptx,
    }


@contextmanager
def launches(arch: int, target: _common.Target | None = None) -> Iterator[list[tuple[str, Any]]]:
    """Inside, every kernel launch is compiled for `arch` instead of run, and listed as (kernel name, CompiledKernel)."""
    seen: list[tuple[str, Any]] = []

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        seen.append((self.fn.__name__, compile_launch(self, args, kwargs, arch)))

    chip = target or target_for(arch)
    with mock.patch.object(JITFunction, "run", run), mock.patch.object(_common, "target_of", lambda device: chip):
        yield seen


def report(case: Callable[[], Any], arch: int) -> dict[str, dict[str, Any]]:
    """Resources of each kernel that `case` launches, by kernel name."""
    with launches(arch) as seen:
        case()
    return {name: resources(compiled, arch) for name, compiled in seen}


def _compile_job(arch: int, target: _common.Target, job: Callable[[], Any]) -> str | None:
    try:
        with launches(arch, target):
            job()
    except Exception as error:  # a configuration that does not fit is an answer, not a failure
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def compile_in_parallel(
    jobs: Sequence[Callable[[], Any]], arch: int, target: _common.Target, workers: int | None = None
) -> list[str | None]:
    """Fill Triton's cache with every kernel that the jobs launch, on all cores. Jobs must be picklable and build their own meta tensors.

    Returns, per job, None or what went wrong.
    """
    workers = workers or max(1, (os.cpu_count() or 2) - 1)
    if len(jobs) <= 1 or workers == 1:
        return [_compile_job(arch, target, job) for job in jobs]
    with concurrent.futures.ProcessPoolExecutor(min(workers, len(jobs)), multiprocessing.get_context("spawn")) as pool:
        return list(pool.map(functools.partial(_compile_job, arch, target), jobs))
