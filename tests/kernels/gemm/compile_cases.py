"""The launches whose resources are recorded in compile_table.json. Run in a process of its own, without TRITON_INTERPRET:

python -m tests.kernels.gemm.compile_cases            # prints the table of this machine's compiler
python -m tests.kernels.gemm.compile_cases --record   # and stores it
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
from infer_lab.kernels._gemm import make_locks
from infer_lab.kernels.dequantize_weight import dequantize_weight
from infer_lab.kernels.fp8_gemm import fp8_gemm
from infer_lab.kernels.int8_gemm import int8_gemm
from infer_lab.kernels.pack import PackedWeight
from infer_lab.kernels.skinny_gemm import skinny_gemm
from infer_lab.kernels.teaching.tiled_matmul import tiled_matmul
from infer_lab.kernels.teaching.transpose import transpose
from infer_lab.kernels.w4a16 import w4a16
from infer_lab.kernels.w8a16 import w8a16

TABLE = Path(__file__).with_name("compile_table.json")
N, K = 14336, 4096


def empty(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device="meta")


def packed(bits: int, group: int, block_k: int, zeros: bool, minima: bool = False) -> PackedWeight:
    shape = (N // 64, K // block_k, 64, block_k * bits // 16)
    groups = (K // group, N)
    zero = empty(*groups, dtype=torch.int16) if zeros else None
    low = empty(*groups, dtype=torch.float16) if minima else None
    data, scales = empty(*shape, dtype=torch.int16), empty(*groups, dtype=torch.float16 if minima else torch.bfloat16)
    return PackedWeight(data, scales, zero, N, K, group, bits, block_k, make_locks(N, "meta"), low)


def eight_bit(kernel: Callable[..., torch.Tensor], dtype: torch.dtype, m: int) -> torch.Tensor:
    one = empty(m, dtype=torch.float32), empty(N, dtype=torch.float32)
    return kernel(empty(m, K, dtype=dtype), one[0], empty(N, K, dtype=dtype), one[1], locks=make_locks(max(m, N), "meta"))


CASES: dict[str, Callable[[], object]] = {
    "w4a16 m=1 group 128": lambda: w4a16(empty(1, K), packed(4, 128, 256, False)),
    "w4a16 m=16 group 64 zeros": lambda: w4a16(empty(16, K), packed(4, 64, 256, True)),
    "w4a16 m=1 group 128 zeros": lambda: w4a16(empty(1, K), packed(4, 128, 256, True)),
    "w4a16 m=64 group 128 zeros": lambda: w4a16(empty(64, K), packed(4, 128, 256, True)),
    "w4a16 m=512 group 128": lambda: w4a16(empty(512, K), packed(4, 128, 256, False)),
    "w4a16 m=512 group 128 zeros": lambda: w4a16(empty(512, K), packed(4, 128, 256, True)),
    "w4a16 m=16 minima": lambda: w4a16(empty(16, K), packed(4, 32, 128, False, minima=True)),
    "w8a16 m=16 per row": lambda: w8a16(empty(16, K), packed(8, K, 128, False)),
    "dequantize 4 bits": lambda: dequantize_weight(packed(4, 128, 256, True), empty(N, K)),
    "skinny m=16": lambda: skinny_gemm(empty(16, K), empty(N, K), locks=make_locks(N, "meta")),
    "fp8 m=16": lambda: eight_bit(fp8_gemm, torch.float8_e4m3fn, 16),
    "fp8 m=4096": lambda: eight_bit(fp8_gemm, torch.float8_e4m3fn, 4096),
    "int8 m=4096": lambda: eight_bit(int8_gemm, torch.int8, 4096),
    "teaching matmul 3 stages": lambda: tiled_matmul(empty(2048, K), empty(K, 2048), stages=3),
    "teaching transpose": lambda: transpose(empty(4096, 4096, dtype=torch.float32)),
}


def table() -> dict[str, object]:
    rows: dict[str, object] = {"triton": triton.__version__}
    for arch in precompile.CHIPS:
        for name, case in CASES.items():
            try:
                (resources,) = precompile.report(case, arch).values()
            except UnsupportedHardwareError as error:
                resources = {"refused": str(error)}
            rows[f"sm_{arch} {name}"] = resources
    return rows


if __name__ == "__main__":
    document = json.dumps(table(), indent=1)
    print(document)
    if "--record" in sys.argv:
        TABLE.write_text(document + "\n")
