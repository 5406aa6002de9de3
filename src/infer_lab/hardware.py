"""What GPUs can do according to their makers: capacity, bandwidth, peak operations.

Why: a prediction needs a limit to divide by. These are nominal limits; what a machine really sustains is *measured* and lives in
measurement records (`<device>/limits`), never here.

Conventions, each of which people get wrong:
- Peaks are **dense**. NVIDIA's sheets print Hopper's and Ada's tensor rates with 2:4 sparsity, twice the dense rate.
- `memory` is the number on the box in decimal GB. The driver reports more (an "80 GB" H100 shows 81,559 MiB = 85.5 GB):
  `driver_memory` holds that figure. An engine's memory fraction applies to the driver's figure, so `memory` is the careful estimate.
- bf16 and fp16 share one peak on all these cards (with float32 accumulation).

`source` is the maker's page; `checked` says what the figures were compared with, and when.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from infer_lab.errors import NotApplicableError, UserError
from infer_lab.units import Quantity

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class Gpu:
    """Nominal limits of one card. peak: dense FLOP/s by dtype. shared_memory_per_block: the most that one thread block may ask for."""

    key: str
    name: str
    memory: Quantity
    driver_memory: Quantity
    bandwidth: Quantity
    peak: Mapping[str, Quantity]
    l2: Quantity
    sms: int
    shared_memory_per_block: Quantity
    compute_capability: str
    source: str
    checked: str

    def peak_flops(self, dtype: str = "bf16") -> Quantity:
        """Dense peak of `dtype`; NotApplicableError where the card has no unit for it."""
        if dtype not in self.peak:
            raise NotApplicableError(f"{self.name} has no {dtype} peak on its sheet; it has {', '.join(self.peak)}")
        return self.peak[dtype]


def _gpu(key: str, name: str, gb: int, driver_mib: int, bandwidth_gb_s: float, bf16_tflops: float, fp8_tflops: float | None,
         l2_mb: int, sms: int, smem_kib: int, capability: str, source: str, checked: str) -> Gpu:  # fmt: skip
    peak = {"bf16": Quantity(bf16_tflops, "TFLOP/s"), "fp16": Quantity(bf16_tflops, "TFLOP/s")}
    if fp8_tflops is not None:
        peak["fp8"] = Quantity(fp8_tflops, "TFLOP/s")
    return Gpu(
        key=key, name=name, memory=Quantity(gb, "GB"), driver_memory=Quantity(driver_mib * _MIB, "B"),
        bandwidth=Quantity(bandwidth_gb_s, "GB/s"), peak=MappingProxyType(peak), l2=Quantity(l2_mb, "MB"), sms=sms,
        shared_memory_per_block=Quantity(smem_kib, "KiB"), compute_capability=capability, source=source, checked=checked,
    )  # fmt: skip


_A100 = "https://www.nvidia.com/en-us/data-center/a100/"
_H100 = "https://www.nvidia.com/en-us/data-center/h100/"
_H200 = "https://www.nvidia.com/en-us/data-center/h200/"
_L4 = "https://www.nvidia.com/en-us/data-center/l4/"
_ADA = "https://images.nvidia.com/aem-dam/Solutions/geforce/ada/nvidia-ada-gpu-architecture.pdf"
_DRIVER = "driver total: nvidia-smi, github.com/modal-labs/modal-client/pull/2797"
_A100_CHECK = f"2026-11-29, stas00/ml-engineering; {_DRIVER}"
_H100_CHECK = f"2026-11-29, glennklockwood.com/garden/processors/h100; {_DRIVER}"
_H200_CHECK = (
    "2026-11-29, glennklockwood.com/garden/processors/h100; driver total: nvidia-smi; L2: what the driver reports, 60 MiB (2026-11-30)"
)
_L4_CHECK = f"2026-11-29, half of the sheet's 242 and 485 with sparsity; {_DRIVER}"
_4090_CHECK = "2026-11-29, float32 accumulation (float16 accumulation doubles it); driver total: nvidia-smi"

_ALL = (
    _gpu("a100_40gb", "A100 SXM 40 GB", 40, 40_960, 1555, 312, None, 40, 108, 163, "8.0", _A100, _A100_CHECK),
    _gpu("a100_80gb", "A100 SXM 80 GB", 80, 81_920, 2039, 312, None, 40, 108, 163, "8.0", _A100, _A100_CHECK),
    _gpu("a100_80gb_pcie", "A100 PCIe 80 GB", 80, 81_920, 1935, 312, None, 40, 108, 163, "8.0", _A100, _A100_CHECK),
    _gpu("h100_80gb", "H100 SXM 80 GB", 80, 81_559, 3350, 989.4, 1978.9, 50, 132, 227, "9.0", _H100, _H100_CHECK),
    _gpu("h200_141gb", "H200 SXM 141 GB", 141, 143_771, 4800, 989.4, 1978.9, 60, 132, 227, "9.0", _H200, _H200_CHECK),
    _gpu("l4", "L4 24 GB", 24, 23_034, 300, 121, 242.5, 48, 58, 99, "8.9", _L4, _L4_CHECK),
    _gpu("rtx_4090", "GeForce RTX 4090 24 GB", 24, 24_564, 1008, 165.2, 330.3, 72, 128, 99, "8.9", _ADA, _4090_CHECK),
)  # fmt: skip

GPUS: Mapping[str, Gpu] = MappingProxyType({g.key: g for g in _ALL})

a100_40gb, a100_80gb, a100_80gb_pcie, h100_80gb, h200_141gb, l4, rtx_4090 = _ALL


@dataclass(frozen=True, slots=True)
class Link:
    """What GPUs talk over. bandwidth: what one GPU sends in one direction; the headline figure of NVLink and PCIe counts both."""

    key: str
    name: str
    bandwidth: Quantity
    source: str
    checked: str


_BOTH = "2026-11-29, half of the sheet's figure for both directions"
LINKS: Mapping[str, Link] = MappingProxyType({
    link.key: link
    for link in (
        Link("nvlink4", "NVLink 4 (H100, H200)", Quantity(450, "GB/s"), _H100, _BOTH),
        Link("nvlink3", "NVLink 3 (A100)", Quantity(300, "GB/s"), _A100, _BOTH),
        Link("pcie5", "PCIe 5.0 x16", Quantity(64, "GB/s"), _H100, _BOTH),
        Link("pcie4", "PCIe 4.0 x16", Quantity(32, "GB/s"), _A100, _BOTH),
        Link("ib_ndr", "InfiniBand NDR, 400 Gbit/s", Quantity(50, "GB/s"), "https://www.nvidia.com/en-us/networking/quantum2/",
             "2026-11-29, 400 Gbit/s over 8"),
    )
})  # fmt: skip


def gpu(name: str) -> Gpu:
    """The card called `name` ("h100_80gb" or "h100-80gb"); the error lists the names that exist."""
    key = name.lower().replace("-", "_")
    if key not in GPUS:
        raise UserError(f"no GPU is called {name!r}; known: {', '.join(GPUS)}")
    return GPUS[key]
