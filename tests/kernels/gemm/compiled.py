"""Compile what a wrapper would launch, for a chip that is not here, and read what the assembler says about it.

The wrapper itself runs, on tensors without storage and as if on the chip, so what is compiled is exactly what it would launch there.
Must run in a process without TRITON_INTERPRET (a kernel's decorator reads it at import).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
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


def report(case: Callable[[], Any], arch: int) -> dict[str, dict[str, Any]]:
    """Resources of each kernel that `case` would launch on this chip, by kernel name. Tuned configurations are left out of account."""
    seen: dict[str, dict[str, Any]] = {}

    def run(self: JITFunction, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> None:
        seen[self.fn.__name__] = resources(compile_launch(self, args, kwargs, arch), arch)

    shared, sms = CHIPS[arch]
    chip = _common.Target(f"untuned-sm{arch}", (arch // 10, arch % 10), shared, sms)
    with mock.patch.object(JITFunction, "run", run), mock.patch.object(_common, "target_of", lambda device: chip):
        case()
    return seen
