"""Turns the packed bytes of a GGUF tensor into numbers, or into the integers and scales that they are: a short function for each format.

Why here: it runs wherever the bytes are (two CPU cores: 0.7 s for SmolLM2, against 5 s through numpy; a GPU: at once), and the formats
are worth reading. Every format stores blocks of 32 weights along the input dimension; the arithmetic equals ggml's in float32, bit for bit.

    Q4_1  f16 d · f16 m · 16 bytes    w = d·q + m,  q = 0..15: low nibbles are weights 0..15, high nibbles 16..31
    Q8_0  f16 d · 32 × i8             w = d·q
"""

from __future__ import annotations

import torch

from infer_lab.kernels.pack import QuantizedWeight
from infer_lab.models.gguf_file import GgufFile, GgufTensor

BLOCK = 32


def _float16(octets: torch.Tensor) -> torch.Tensor:
    return octets.contiguous().view(torch.float16)


def _q4_1(raw: torch.Tensor, columns: int) -> QuantizedWeight:
    blocks = raw.view(-1, columns // BLOCK, 20)
    packed = blocks[..., 4:]
    quants = torch.cat((packed & 15, packed >> 4), dim=-1).flatten(1)
    return QuantizedWeight(quants, _float16(blocks[..., 0:2])[..., 0], None, BLOCK, 4, minima=_float16(blocks[..., 2:4])[..., 0])


def _q8_0(raw: torch.Tensor, columns: int) -> QuantizedWeight:
    blocks = raw.view(-1, columns // BLOCK, 34)
    quants = blocks[..., 2:].contiguous().view(torch.int8).flatten(1)
    return QuantizedWeight(quants, _float16(blocks[..., 0:2])[..., 0], None, BLOCK, 8)


_FLOATS = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
_QUANTIZED = {"Q4_1": _q4_1, "Q8_0": _q8_0}


def _raw(file: GgufFile, tensor: GgufTensor, device: torch.device | str) -> torch.Tensor:
    """The packed bytes travel to the device, not the numbers."""
    # bytearray: torch wants memory that it may write to, and the map is read-only
    return torch.frombuffer(bytearray(file.data[tensor.start : tensor.start + tensor.nbytes]), dtype=torch.uint8).to(device)


def as_stored(file: GgufFile, tensor: GgufTensor, device: torch.device | str = "cpu") -> QuantizedWeight | torch.Tensor:
    """A matrix of integers and scales as the file has them; float32 numbers where it has floats."""
    if tensor.type in _QUANTIZED and len(tensor.shape) == 2:
        return _QUANTIZED[tensor.type](_raw(file, tensor, device), tensor.shape[1])
    return dequantize(file, tensor, device)


def dequantize(file: GgufFile, tensor: GgufTensor, device: torch.device | str = "cpu") -> torch.Tensor:
    """float32 values of `tensor`, shape tensor.shape = (out, in), on `device`."""
    raw = _raw(file, tensor, device)
    if tensor.type in _FLOATS:
        return raw.view(_FLOATS[tensor.type]).float().reshape(tensor.shape)
    quantized = _QUANTIZED[tensor.type](raw, tensor.shape[-1])
    groups = quantized.q.unflatten(1, (-1, BLOCK)).float().mul_(quantized.scales.float()[..., None])
    if quantized.minima is not None:
        groups.add_(quantized.minima.float()[..., None])
    return groups.reshape(tensor.shape)
