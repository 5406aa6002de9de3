"""What every kernel needs to know about the machine, and the configurations tuned for it.

Why: a Triton kernel is correct anywhere but fast only with block shapes, warps and stages that fit the chip. They are tuned once on a
device, shipped as `configs/<device>.json`, and looked up by kernel and shape; a device without a file gets the kernel's own
heuristic, which asks `Target` for the shared memory a block may have. Nothing is ever tuned at import, in a test or in a request.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from triton import knobs

from infer_lab.errors import UnsupportedHardwareError, UnsupportedOptionError

CONFIG_DIR = Path(__file__).parent / "configs"
LOG2_E = 1.4426950408889634

FP8 = torch.float8_e4m3fn
FP8_MAX = 448.0
INT8_MAX = 127.0


@dataclass(frozen=True, slots=True)
class Target:
    """The chip that a launch is for.

    slug: names the file of tuned configurations ("h200").
    capability: (major, minor) compute capability; (0, 0) in the CPU interpreter.
    shared_memory: bytes of shared memory one block may have (227 KiB on sm_90, 163 on sm_80, 99 on sm_86, sm_89 and sm_120).
    """

    slug: str
    capability: tuple[int, int]
    shared_memory: int
    num_sms: int

    @property
    def interpreted(self) -> bool:
        return self.capability == (0, 0)

    @property
    def has_fp8(self) -> bool:
        """FP8 conversions exist from sm_89 on; the interpreter computes them in software."""
        return self.interpreted or self.capability >= (8, 9)


def device_slug(name: str) -> str:
    """`NVIDIA H200` becomes `h200`; `NVIDIA GeForce RTX 4090` becomes `rtx-4090`."""
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-").split("-")
    return "-".join(w for w in words if w not in ("nvidia", "geforce")) or "unknown"


def interpreting() -> bool:
    """Whether kernels run in Triton's CPU interpreter (TRITON_INTERPRET=1 at import)."""
    return bool(knobs.runtime.interpret)


@functools.cache
def _cuda_target(index: int) -> Target:
    p = torch.cuda.get_device_properties(index)
    shared = getattr(p, "shared_memory_per_block_optin", 99 * 1024)
    return Target(device_slug(p.name), (p.major, p.minor), shared, p.multi_processor_count)


def target_of(device: torch.device) -> Target:
    """The chip behind `device`.

    Raises UnsupportedHardwareError for a CPU tensor outside the interpreter.
    """
    if device.type == "cuda":
        return _cuda_target(device.index if device.index is not None else torch.cuda.current_device())
    if device.type == "cpu" and interpreting():
        return Target("cpu", (0, 0), 99 * 1024, 4)
    raise UnsupportedHardwareError(
        f"Triton kernels cannot run on device {device}: use a CUDA device, set TRITON_INTERPRET=1 before the import"
        " to run them in the CPU interpreter, or call the function of the same name in infer_lab.kernels.reference"
    )


def cdiv(a: int, b: int) -> int:
    return -(-a // b)


def next_power_of_2(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def launch(kernel: Any, grid: tuple[int, ...], *args: Any, **meta: Any) -> None:
    """`kernel[grid](*args, **meta)`, where a type checker need not know that a kernel also takes num_warps and num_stages."""
    kernel[grid](*args, **meta)


@functools.cache
def _configs_of(slug: str) -> dict[str, dict[str, dict[str, Any]]]:
    path = CONFIG_DIR / f"{slug}.json"
    return json.loads(path.read_text())["kernels"] if path.exists() else {}


def tuned(target: Target, kernel: str, key: str) -> dict[str, Any] | None:
    """The configuration tuned on this device for this kernel and shape key, or None where nobody has tuned it."""
    return _configs_of(target.slug).get(kernel, {}).get(key)


def require_fp8(target: Target) -> None:
    if not target.has_fp8:
        major, minor = target.capability
        raise UnsupportedHardwareError(
            f"FP8 needs compute capability 8.9 or newer, this GPU has {major}.{minor}: use INT8 (same bytes, per-token scales) or bf16"
        )


def require_head_dim(head_dim: int) -> None:
    if head_dim not in (16, 32, 64, 128, 256):
        raise UnsupportedOptionError(
            f"head_dim {head_dim} has no kernel here (16, 32, 64, 128 and 256 have): use infer_lab.kernels.reference for this model"
        )


def require_unit_stride(**tensors: torch.Tensor | None) -> None:
    """Every stride is an argument of the kernels except the last, which must be 1 (rows are read as vectors)."""
    for name, t in tensors.items():
        if t is not None and t.ndim and t.shape[-1] > 1 and t.stride(-1) != 1:
            raise UnsupportedOptionError(f"{name} has stride {t.stride(-1)} in its last dimension, kernels need 1: call .contiguous()")
