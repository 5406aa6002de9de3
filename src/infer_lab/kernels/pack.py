"""Quantize weights and lay them out the way the weight-only kernels read them.

Why a layout of its own: decode streams every weight once, so what counts is that a tile arrives as one contiguous run of bytes
and that unpacking costs less than one instruction per weight. `PackedWeight.data` is a grid of blocks, 64 output rows by
`block_k` input columns, each stored contiguously. In a block the columns are cut into *planes* (4 for int4, 2 for int8) and one
int16 word holds the same column of every plane:

    int4:  word c = q[c] | q[c + P] << 4 | q[c + 2P] << 8 | q[c + 3P] << 12        P = block_k / 4
    int8:  word c = (b[c] & 255) | b[c + P] << 8                                     P = block_k / 2

so each plane leaves the word by one shift and one mask for two columns at a time, already in the order in which the matrix unit
wants it, and no two columns ever have to be swapped between threads. (Pairing k with k + BK/2 in a byte is the idea of the
Triton mixed-precision tutorials; Marlin, Frantar et al. 2024, is where the offline re-layout comes from.)

Grouped quantization: weight[n, k] = (q[n, k] - zero[n, k // group]) * scale[n, k // group]. Symmetric weights have no zeros tensor
(zero is 8 for int4, 0 for int8); GGUF's Q4_1 has minima instead: q * scale + minimum. An all-zero group gets scale 1, never 0:
dividing by its maximum would give NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch

from infer_lab.errors import QuantizationError

ROWS_PER_BLOCK = 64
FP8_MAX = 448.0  # the largest finite value of float8_e4m3fn
GROUP_SIZES = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A weight in integers, before packing.

    q: [n, k] uint8 0..15 for 4 bits; int8 for 8 bits. scales: [n, groups], in the dtype that the kernels will read.
    zeros: [n, groups] int16, or None when symmetric. group_size: columns that share a scale; k itself means one scale per row.
    minima: [n, groups] in the dtype of the scales, in place of any zero: the weight is q * scale + minimum.
    """

    q: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    group_size: int
    bits: int
    minima: torch.Tensor | None = None

    def to(self, device: torch.device | str) -> QuantizedWeight:
        return replace(self, **{name: t.to(device) for name, t in self._tensors().items()})

    def in_order(self, order: Callable[[torch.Tensor], torch.Tensor]) -> QuantizedWeight:
        """With its rows in another order: `order` is applied to each of its tensors."""
        return replace(self, **{name: order(t) for name, t in self._tensors().items()})

    @classmethod
    def stacked(cls, parts: Sequence[QuantizedWeight]) -> QuantizedWeight:
        """The rows of all parts, which are quantized alike."""
        whole = {name: torch.cat([part._tensors()[name] for part in parts]) for name in parts[0]._tensors()}
        return replace(parts[0], **whole)

    def floats(self) -> torch.Tensor:
        """All that could be NaN or infinite, float32."""
        return (self.scales if self.minima is None else torch.stack((self.scales, self.minima))).float()

    def _tensors(self) -> dict[str, torch.Tensor]:
        found = {"q": self.q, "scales": self.scales, "zeros": self.zeros, "minima": self.minima}
        return {name: t for name, t in found.items() if t is not None}

    def dequantize(self, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """[n, k]: exactly what the kernels must multiply by, before any rounding of their own."""
        k = self.q.shape[1]
        scales = _per_column(self.scales.to(dtype), self.group_size, k)
        if self.minima is not None:
            return self.q.to(dtype) * scales + _per_column(self.minima.to(dtype), self.group_size, k)
        zero = (8.0 if self.bits == 4 else 0.0) if self.zeros is None else _per_column(self.zeros.to(dtype), self.group_size, k)
        return (self.q.to(dtype) - zero) * scales


@dataclass(frozen=True, slots=True)
class PackedWeight:
    """A quantized weight as the kernels read it.

    data: [n_blocks, k_blocks, 64, block_k / planes] int16. scales, zeros, minima: [groups, n_padded] (neighbouring rows adjacent).
    locks: int32, one per output tile; split-K counts arrivals there and always leaves zeros behind. Two streams must not use the
    same weight at once.
    """

    data: torch.Tensor
    scales: torch.Tensor
    zeros: torch.Tensor | None
    n: int
    k: int
    group_size: int
    bits: int
    block_k: int
    locks: torch.Tensor = field(repr=False)
    minima: torch.Tensor | None = None

    @property
    def planes(self) -> int:
        return 16 // self.bits

    @property
    def per_row(self) -> bool:
        """One scale for each whole row."""
        return self.group_size not in GROUP_SIZES

    @property
    def nbytes(self) -> int:
        """Bytes that one pass over the weight must read: integers, scales, zeros or minima."""
        return sum(t.nbytes for t in (self.data, self.scales, self.zeros, self.minima) if t is not None)

    def to(self, device: torch.device | str) -> PackedWeight:
        tensors = {name: getattr(self, name) for name in ("data", "scales", "zeros", "locks", "minima")}
        return replace(self, **{name: t.to(device) for name, t in tensors.items() if t is not None})


def quantize_weight(
    weight: torch.Tensor, bits: int, group_size: int | None = 128, symmetric: bool = True, scale_dtype: torch.dtype | None = None
) -> QuantizedWeight:
    """Round-to-nearest quantization of [n, k]. group_size None: one scale per row (8 bits only).

    Scales are rounded to `scale_dtype` (the weight's own by default) *before* the integers are chosen, so storing them loses nothing.
    Raises QuantizationError for bits, group sizes or values that cannot be represented.
    """
    if weight.dim() != 2:
        raise QuantizationError(f"a weight has the shape [n, k]; got {list(weight.shape)}")
    if bits not in (4, 8):
        raise QuantizationError(f"weights have 4 or 8 bits here; got {bits}")
    if group_size is not None and group_size not in GROUP_SIZES:
        raise QuantizationError(f"group_size is one of {GROUP_SIZES}; got {group_size}")
    if group_size is None and bits == 4:
        raise QuantizationError(f"4-bit weights need a group_size of {GROUP_SIZES}: one scale per row loses too much")
    if not bool(torch.isfinite(weight).all()):
        raise QuantizationError(f"the weight {list(weight.shape)} holds NaN or infinity; it cannot be quantized")
    n, k = weight.shape
    group = group_size or _whole_row(k)
    groups = -(-k // group)
    w = torch.nn.functional.pad(weight.float(), (0, groups * group - k)).view(n, groups, group)
    lowest, highest = (0, 15) if bits == 4 else (-128, 127)
    dtype = scale_dtype or weight.dtype
    if symmetric:
        scales = _safe(w.abs().amax(-1) / (7.0 if bits == 4 else 127.0), dtype)
        zeros = None
        offset = torch.full_like(scales, 8.0 if bits == 4 else 0.0, dtype=torch.float32)
    else:
        low, high = w.amin(-1).clamp(max=0.0), w.amax(-1).clamp(min=0.0)
        scales = _safe((high - low) / (highest - lowest), dtype)
        offset = (lowest - low / scales.float()).round().clamp(lowest, highest)
        zeros = offset.to(torch.int16)
    q = (w / scales.float()[..., None]).round_().add_(offset[..., None]).clamp_(lowest, highest)
    q = q.view(n, groups * group)[:, :k].to(torch.uint8 if bits == 4 else torch.int8).contiguous()
    return QuantizedWeight(q, scales, zeros, group, bits)


def default_block_k(bits: int, group_size: int) -> int:
    """Columns per block: a plane never spans two groups, and a block row is 64 or 128 contiguous bytes."""
    planes = 16 // bits
    return min(32 * planes if group_size < 64 else 64 * planes, 256)


def pack_weight(weight: QuantizedWeight, block_k: int | None = None) -> PackedWeight:
    """Lay a quantized weight out in blocks. Rows and columns are padded to whole blocks with q = 0 and scale 0."""
    planes = 16 // weight.bits
    block_k = block_k or default_block_k(weight.bits, weight.group_size)
    plane = block_k // planes
    if block_k % planes or plane & (plane - 1) or plane < 16 or plane > weight.group_size:
        raise QuantizationError(
            f"block_k {block_k} gives planes of {plane} columns; they must be a power of two from 16 to the group of {weight.group_size}"
        )
    n, k = weight.q.shape
    n_pad, k_pad = -n % ROWS_PER_BLOCK, -k % block_k
    q = torch.nn.functional.pad(weight.q.to(torch.int32) & (15 if weight.bits == 4 else 255), (0, k_pad, 0, n_pad))
    q = q.view((n + n_pad) // ROWS_PER_BLOCK, ROWS_PER_BLOCK, (k + k_pad) // block_k, planes, plane)
    words = torch.zeros_like(q[:, :, :, 0])
    for j in range(planes):
        words |= q[:, :, :, j] << (weight.bits * j)
    words = torch.where(words >= 1 << 15, words - (1 << 16), words).to(torch.int16)
    group_pad = -(-(k + k_pad) // weight.group_size) - weight.scales.shape[1]
    scales, zeros, minima = (
        None if t is None else torch.nn.functional.pad(t, (0, group_pad, 0, n_pad)).t().contiguous()
        for t in (weight.scales, weight.zeros, weight.minima)
    )
    assert scales is not None
    locks = torch.zeros((n + n_pad) // 16, dtype=torch.int32, device=words.device)
    data = words.permute(0, 2, 1, 3).contiguous()
    return PackedWeight(data, scales, zeros, n, k, weight.group_size, weight.bits, block_k, locks, minima)


def unpack_weight(packed: PackedWeight) -> QuantizedWeight:
    """The inverse of `pack_weight`, for checks and for exporting."""
    words = packed.data.permute(0, 2, 1, 3).to(torch.int32) & 0xFFFF
    planes = [(words >> (packed.bits * j)) & (15 if packed.bits == 4 else 255) for j in range(packed.planes)]
    q = torch.stack(planes, dim=3).reshape(words.shape[0] * ROWS_PER_BLOCK, -1)[: packed.n, : packed.k]
    q = q.to(torch.uint8) if packed.bits == 4 else torch.where(q >= 128, q - 256, q).to(torch.int8)
    groups = -(-packed.k // packed.group_size)
    scales, zeros, minima = (
        None if t is None else t.t()[: packed.n, :groups].contiguous() for t in (packed.scales, packed.zeros, packed.minima)
    )
    assert scales is not None
    return QuantizedWeight(q.contiguous(), scales, zeros, packed.group_size, packed.bits, minima)


def quantize_rows(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Symmetric quantization with one float32 scale per row of the last dimension; a zero row gets scale 0 and stays zero."""
    limit = FP8_MAX if dtype == torch.float8_e4m3fn else 127.0
    scale = x.float().abs().amax(-1) / limit
    y = x.float() * torch.where(scale > 0, 1.0 / scale, 0.0)[..., None]
    return (y.round() if dtype == torch.int8 else y).clamp(-limit, limit).to(dtype), scale


def quantize_rows_fp8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, k] to float8_e4m3fn and one float32 scale per row, x = q * scale. A row of zeros has scale 1."""
    scale = _safe(x.float().abs().amax(-1) / FP8_MAX, torch.float32)
    return (x.float() / scale[:, None]).clamp_(-FP8_MAX, FP8_MAX).to(torch.float8_e4m3fn), scale


def quantize_rows_int8(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """[rows, k] to int8 (-127..127) and one float32 scale per row, x = q * scale. A row of zeros has scale 1."""
    scale = _safe(x.float().abs().amax(-1) / 127.0, torch.float32)
    return (x.float() / scale[:, None]).round_().clamp_(-127, 127).to(torch.int8), scale


def _whole_row(k: int) -> int:
    """A group size that covers k columns and is none of GROUP_SIZES, so that it means "the whole row"."""
    return max(k, max(GROUP_SIZES) + 1)


def _safe(scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Rounded to dtype, with 1 where that is 0 (all-zero groups, and groups too small for the dtype)."""
    rounded = scales.to(dtype)
    return torch.where(rounded == 0, torch.ones_like(rounded), rounded)


def _per_column(groups: torch.Tensor, group_size: int, k: int) -> torch.Tensor:
    return groups.repeat_interleave(group_size, dim=1)[:, :k]
