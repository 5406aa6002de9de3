"""What a machine really sustains: the limits that measured times are divided by.

Why measure: sheets print nominal figures that no program reaches. Three numbers describe a machine well enough to predict decode and
prefill: a read-only stream (what decode does with weights and KV), a device copy (bytes read plus bytes written), and a matrix product.
Random data (zeros run faster), buffers far larger than any cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from infer_lab.bench.timer import Timing, measure, percentile
from infer_lab.units import Quantity


@dataclass(frozen=True, slots=True)
class LimitSizes:
    """stream_bytes: of the buffer that is read or copied. matrix: side of the square product."""

    stream_bytes: int
    matrix: int
    repeats: int

    @staticmethod
    def of(device: str, quick: bool = False) -> LimitSizes:
        """Sizes for a claim; `quick` ones only show that it runs."""
        if quick:
            return LimitSizes(2**24, 256, 3)
        return LimitSizes(2**32, 8192, 50) if device.startswith("cuda") else LimitSizes(2**28, 1024, 10)


@dataclass(frozen=True, slots=True)
class Rate:
    """Work per second in `unit`, one sample per repetition."""

    samples: tuple[float, ...]
    unit: str

    @property
    def median(self) -> Quantity:
        return Quantity(percentile(self.samples, 50), self.unit)


def read_stream(device: str, size: LimitSizes) -> Rate:
    """Bytes read per second by a sum, which writes next to nothing. Of two ways to sum, the faster one is nearer to the limit."""
    data = torch.randn(size.stream_bytes // 4, device=device, dtype=torch.float32)
    rows = data.view(-1, 2**14)
    ways = (lambda: torch.sum(data), lambda: torch.sum(rows, dim=1))
    best = min((measure(way, device, warmup=3, repeats=size.repeats) for way in ways), key=lambda timing: timing.median)
    return _rate(size.stream_bytes / 1e9, best, "GB/s")


def copy(device: str, size: LimitSizes) -> Rate:
    """Bytes read and written per second by a copy: twice the buffer's size."""
    source = torch.randn(size.stream_bytes // 4, device=device, dtype=torch.float32)
    target = torch.empty_like(source)
    timing = measure(lambda: target.copy_(source), device, warmup=3, repeats=size.repeats)
    return _rate(2 * size.stream_bytes / 1e9, timing, "GB/s")


def matmul(device: str, size: LimitSizes, dtype: torch.dtype) -> Rate:
    """Operations per second of a square matrix product, a multiply-add counted as 2."""
    n = size.matrix
    a, b = (torch.randn(n, n, device=device).to(dtype) for _ in range(2))
    out = torch.empty(n, n, device=device, dtype=dtype)
    timing = measure(lambda: torch.mm(a, b, out=out), device, warmup=10, repeats=size.repeats)
    return _rate(2 * n**3 / 1e12, timing, "TFLOP/s")


def _rate(work: float, timing: Timing, unit: str) -> Rate:
    return Rate(tuple(work / seconds for seconds in timing.samples), unit)
