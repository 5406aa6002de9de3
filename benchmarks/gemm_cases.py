"""Inputs of the matrix-product benchmarks: our kernels and their peers over copies of a weight that do not fit the L2 together."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any

import torch

from infer_lab.kernels._common import cdiv
from infer_lab.kernels._gemm import make_locks
from infer_lab.kernels.fp8_gemm import fp8_gemm
from infer_lab.kernels.int8_gemm import int8_gemm
from infer_lab.kernels.pack import PackedWeight, default_block_k
from infer_lab.kernels.skinny_gemm import skinny_gemm
from infer_lab.kernels.w4a16 import w4a16
from infer_lab.kernels.w8a16 import w8a16

ROTATE_BYTES = 256 * 2**20
GROUP = 128  # of the 4-bit weights
Call = Callable[[Any], torch.Tensor]  # of a launch configuration; None takes the shipped one


@dataclass(frozen=True, slots=True)
class Product:
    """One product: x [m, k] times the transpose of a weight [n, k]. dtype: of the activations where they are 16-bit.

    as_engine: the integers as the engine's own schemes keep them: w4a16 with zero points, w8a16 in groups.
    """

    op: str
    m: int
    n: int
    k: int
    dtype: torch.dtype = torch.bfloat16
    as_engine: bool = False

    @property
    def name(self) -> str:
        return f"{self.op.replace('_', '-')}-{self.n}x{self.k}-m{self.m}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def weight_bytes(self) -> int:
        """What a pass over the weight must read: values, and scales where they are many."""
        if self.op == "w4a16":
            return self.n * self.k // 2 + self.n * (self.k // GROUP) * 2
        return self.n * self.k * (2 if self.op == "skinny_gemm" else 1)

    @property
    def nbytes(self) -> int:
        """The fewest bytes: weight and activations read once, the result written once."""
        width = 1 if self.op in ("fp8_gemm", "int8_gemm") else 2
        return self.weight_bytes + self.m * self.k * width + self.m * self.n * 2

    def copies(self, device: str) -> int:
        return max(2, min(32, cdiv(ROTATE_BYTES, self.weight_bytes))) if device.startswith("cuda") else 1


def packed(case: Product, device: str, pack_k: int | None = None) -> PackedWeight:
    """Random words: every bit pattern is a valid weight."""
    bits, group = (4, GROUP) if case.op == "w4a16" else (8, GROUP if case.as_engine else max(case.k, 129))
    pack_k = pack_k or default_block_k(bits, group)
    shape = (cdiv(case.n, 64), cdiv(case.k, pack_k), 64, pack_k * bits // 16)
    data = torch.randint(-32768, 32767, shape, dtype=torch.int16, device=device)
    scales = torch.rand(cdiv(case.k, group), shape[0] * 64, device=device).mul_(0.01).to(case.dtype)
    zeros = torch.randint(0, 16, scales.shape, dtype=torch.int16, device=device) if case.as_engine and bits == 4 else None
    return PackedWeight(data, scales, zeros, case.n, case.k, group, bits, pack_k, make_locks(case.n, device))


def eight_bit(op: str, rows: int, k: int, device: str) -> torch.Tensor:
    values = (torch.randn(rows, k, device=device) * 40).clamp_(-127, 127)
    return values.to(torch.float8_e4m3fn if op == "fp8_gemm" else torch.int8)


def ours(case: Product, device: str, count: int, pack_k: int | None = None) -> tuple[list[Call], Callable[[], torch.Tensor]]:
    """One call per copy of the weight, and the float32 reference of the first."""
    m, n, k = case.m, case.n, case.k
    if case.op in ("w4a16", "w8a16"):
        kernel = w4a16 if case.op == "w4a16" else w8a16
        x = torch.randn(m, k, device=device, dtype=case.dtype)
        weights = [packed(case, device, pack_k) for _ in range(count)]
        return [lambda c, w=w: kernel(x, w, config=c) for w in weights], lambda: _weight_only_by_rows(x, weights[0])
    if case.op == "skinny_gemm":
        x = torch.randn(m, k, device=device, dtype=case.dtype)
        locks = make_locks(n, device)
        dense = [torch.randn(n, k, device=device, dtype=case.dtype) for _ in range(count)]
        return [lambda c, w=w: skinny_gemm(x, w, locks=locks, config=c) for w in dense], lambda: x.float() @ dense[0].float().T
    kernel8 = fp8_gemm if case.op == "fp8_gemm" else int8_gemm
    locks = make_locks(max(n, m), device)
    x8, xs, ws = eight_bit(case.op, m, k, device), torch.rand(m, device=device), torch.rand(n, device=device)
    narrow = [eight_bit(case.op, n, k, device) for _ in range(count)]
    reference = lambda: (x8.float() @ narrow[0].float().T) * xs[:, None] * ws  # noqa: E731
    return [lambda c, w=w: kernel8(x8, xs, w, ws, out_dtype=case.dtype, locks=locks, config=c) for w in narrow], reference


def _weight_only_by_rows(x: torch.Tensor, weight: PackedWeight, rows: int = 4096) -> torch.Tensor:
    """The reference, a few rows of the weight at a time: unpacked, a large one would take gigabytes."""
    from infer_lab.kernels import reference_gemm

    parts = []
    for start in range(0, weight.n, rows):
        n = min(rows, weight.n - start)
        part = PackedWeight(
            weight.data[start // 64 : cdiv(start + n, 64)], weight.scales[:, start : start + n], None, n, weight.k, weight.group_size,
            weight.bits, weight.block_k, weight.locks,
        )  # fmt: skip
        parts.append(reference_gemm.weight_only(x, part))
    return torch.cat(parts, dim=1)


def peers(case: Product, device: str, known: Container[str] = ()) -> dict[str, list[Callable[[], torch.Tensor]]]:
    """What a user would pick instead, by name; each a list of calls over copies of its weight. `known` ones are left out."""
    m, n, k = case.m, case.n, case.k
    found: dict[str, list[Callable[[], torch.Tensor]]] = {}
    on_gpu = device.startswith("cuda")
    x = torch.randn(m, k, device=device, dtype=case.dtype)
    if "cublas" not in known and (on_gpu or case.op in ("w4a16", "w8a16", "skinny_gemm")):
        dense = [torch.randn(n, k, device=device, dtype=case.dtype) for _ in range(Product("skinny_gemm", m, n, k).copies(device))]
        found["cublas"] = [lambda w=w: x @ w.T for w in dense]
    if not on_gpu:
        return found
    if case.op == "w4a16" and m in (1, 16) and "int4pack" not in known:
        words = [torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=device) for _ in range(case.copies(device))]
        tiles = [torch.ops.aten._convert_weight_to_int4pack(w, 8) for w in words]
        scales = torch.rand(k // GROUP, n, 2, device=device).to(case.dtype)
        found["int4pack"] = [lambda w=w: torch.ops.aten._weight_int4pack_mm(x, w, GROUP, scales) for w in tiles]
    if case.op in ("fp8_gemm", "int8_gemm"):
        a, weights = eight_bit(case.op, m, k, device), [eight_bit(case.op, n, k, device) for _ in range(case.copies(device))]
        if case.op == "int8_gemm":
            found["int-mm"] = [lambda b=b: torch._int_mm(a, b.T) for b in weights]
            return found
        sa, sb = torch.rand(m, 1, device=device), torch.rand(1, n, device=device)
        for name, fast in (("scaled-mm", False), ("scaled-mm-fast", True)):
            found[name] = [
                lambda b=b, fast=fast: torch._scaled_mm(a, b.T, sa, sb, out_dtype=torch.bfloat16, use_fast_accum=fast) for b in weights
            ]
    return found
