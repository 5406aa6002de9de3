"""The launches of attention, elementwise and sampling whose resources are recorded in compile_table.json.

Run in a process of its own, without TRITON_INTERPRET:

python -m tests.kernels.compile_cases            # prints the table of this machine's compiler
python -m tests.kernels.compile_cases --record   # and stores it
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import torch
import triton

from infer_lab.errors import UnsupportedHardwareError
from infer_lab.kernels import precompile
from infer_lab.kernels.flash_prefill import flash_prefill, flash_prefill_paged
from infer_lab.kernels.paged_decode import paged_decode
from infer_lab.kernels.rmsnorm import rmsnorm
from infer_lab.kernels.rope_kv_write import rope_kv_write
from infer_lab.kernels.sampling import SamplingBatch, sample

TABLE = Path(__file__).with_name("compile_table.json")
BF16, FP32, FP8, INT8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn, torch.int8


def empty(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def ints(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return empty(*shape, dtype=dtype)


def dense(d: int, dtype: torch.dtype = BF16) -> object:
    return flash_prefill(empty(4096, 32, d, dtype=dtype), *(empty(4096, 8, d, dtype=dtype) for _ in range(2)), ints(2), ints(2))


def scales(kind: torch.dtype) -> dict[str, torch.Tensor]:
    return {n: empty(100, 16, 8, dtype=FP32) for n in ("k_scale", "v_scale")} if kind != BF16 else {}


def paged(d: int, page: int = 16, kind: torch.dtype = BF16) -> object:
    caches = (empty(100, page, 8, d, dtype=kind) for _ in range(2))
    return flash_prefill_paged(empty(4096, 32, d), *caches, ints(1, 256), ints(2), ints(1), **scales(kind))


def decode(d: int, kind: torch.dtype = BF16) -> object:
    caches = (empty(100, 16, 8, d, dtype=kind) for _ in range(2))
    return paged_decode(empty(64, 32, d), *caches, ints(64, 256), ints(65), ints(64), 4096, **scales(kind))


def rope(kind: torch.dtype) -> object:
    longs = ints(64, dtype=torch.int64)
    caches = (empty(100, 16, 8, 128, dtype=kind) for _ in range(2))
    weights = empty(128), empty(128)
    heads = empty(64, 32, 128), empty(64, 8, 128), empty(64, 8, 128)
    return rope_kv_write(*heads, longs, empty(4096, 128, dtype=FP32), *caches, longs, False, *weights, **scales(kind))


def sampling() -> object:
    longs = ints(64, dtype=torch.int64)
    batch = SamplingBatch(empty(64, 8, dtype=FP32), ints(64, 2), longs, True, False, True, False)
    return sample(empty(64, 131072, dtype=FP32), batch, longs)


CASES: dict[str, Callable[[], object]] = {
    "prefill d64": lambda: dense(64),
    "prefill d128": lambda: dense(128),
    "prefill d256": lambda: dense(256),
    "prefill d128 page 16": lambda: paged(128),
    "prefill d64 fp32": lambda: dense(64, FP32),
    "prefill d128 page 16 fp8": lambda: paged(128, kind=FP8),
    "decode d64": lambda: decode(64),
    "decode d128": lambda: decode(128),
    "decode d256": lambda: decode(256),
    "decode d128 fp8": lambda: decode(128, FP8),
    "decode d128 int8": lambda: decode(128, INT8),
    "residual rmsnorm": lambda: rmsnorm(empty(2048, 4096), empty(4096), 1e-5, residual=empty(2048, 4096)),
    "rope kv write fp8": lambda: rope(FP8),
}
HOPPER_CASES: dict[str, Callable[[], object]] = {"sampling top-p": sampling}


def table() -> dict[str, object]:
    rows: dict[str, object] = {"triton": triton.__version__}
    for arch in precompile.CHIPS:
        for name, case in (CASES | HOPPER_CASES if arch == 90 else CASES).items():
            try:
                for kernel, resources in precompile.report(case, arch).items():
                    rows[f"sm_{arch} {name}" + (f" {kernel}" if name in HOPPER_CASES else "")] = resources
            except UnsupportedHardwareError as error:
                rows[f"sm_{arch} {name}"] = {"refused": str(error)}
    return rows


if __name__ == "__main__":
    document = json.dumps(table(), indent=1)
    print(document)
    if "--record" in sys.argv:
        TABLE.write_text(document + "\n")
