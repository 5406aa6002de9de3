"""Turns the packed bytes of a GGUF tensor into numbers: one short function per block format.

Why here: it runs wherever the bytes are (two CPU cores: 0.7 s for SmolLM2, against 5 s through numpy; a GPU: at once), and the formats
are worth reading. Every format stores blocks of 32 weights along the input dimension; the arithmetic equals ggml's in float32, bit for bit.

    Q4_1  f16 d · f16 m · 16 bytes    w = d·q + m,  q = 0..15: low nibbles are weights 0..15, high nibbles 16..31
    Q8_0  f16 d · 32 × i8             w = d·q
"""

from __future__ import annotations

import torch

from infer_lab.models.gguf_file import GgufFile, GgufTensor


def _q4_1(raw: torch.Tensor) -> torch.Tensor:
    blocks = raw.view(-1, 20)
    scale = blocks[:, 0:2].contiguous().view(torch.float16).float()
    minimum = blocks[:, 2:4].contiguous().view(torch.float16).float()
    packed = blocks[:, 4:]
    quants = torch.cat((packed & 15, packed >> 4), dim=1).float()
    return quants.mul_(scale).add_(minimum)


def _q8_0(raw: torch.Tensor) -> torch.Tensor:
    blocks = raw.view(-1, 34)
    scale = blocks[:, 0:2].contiguous().view(torch.float16).float()
    return blocks[:, 2:].contiguous().view(torch.int8).float().mul_(scale)


_FORMATS = {
    "F32": lambda raw: raw.view(torch.float32),
    "F16": lambda raw: raw.view(torch.float16).float(),
    "BF16": lambda raw: raw.view(torch.bfloat16).float(),
    "Q4_1": _q4_1,
    "Q8_0": _q8_0,
}


def dequantize(file: GgufFile, tensor: GgufTensor, device: torch.device | str = "cpu") -> torch.Tensor:
    """float32 values of `tensor`, shape tensor.shape = (out, in), on `device`; the packed bytes travel, not the numbers."""
    # bytearray: torch wants memory that it may write to, and the map is read-only
    raw = torch.frombuffer(bytearray(file.data[tensor.start : tensor.start + tensor.nbytes]), dtype=torch.uint8).to(device)
    return _FORMATS[tensor.type](raw).reshape(tensor.shape)
