"""The memory that keys and values live in: one tensor on the device, optionally one in host memory for swapped requests.

    values   [num_layers, 2 (k, v), num_blocks, block_size, num_kv_heads, head_dim]
    scales   [num_layers, 2 (k, v), num_blocks, block_size, num_kv_heads], float32: beside FP8 and INT8 values only

A block of one layer is contiguous, so moving a block is a few large copies. Which block belongs to whom is the block pool's business; here
are only bytes. Memory is not cleared: attention reads no slot that its request did not write.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from infer_lab.calculator import kv_bytes_per_token
from infer_lab.config import ModelConfig
from infer_lab.core.plan import BlockCopy
from infer_lab.layers.kv_layer import KVLayer, is_quantized, octets

SCALE_BYTES = torch.float32.itemsize


def bytes_per_block(config: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
    """Bytes of one block over all layers, in a cache of this type, its scales included."""
    scale_bytes = SCALE_BYTES if is_quantized(dtype) else 0
    return block_size * int(kv_bytes_per_token(config, dtype.itemsize, scale_bytes=scale_bytes).base)


class KVCache:
    """dtype: of the values; float8_e4m3fn and int8 have scales beside them. layers: views of `device` (and of `scales`)."""

    def __init__(
        self,
        config: ModelConfig,
        *,
        num_blocks: int,
        block_size: int,
        dtype: torch.dtype,
        device: torch.device,
        num_host_blocks: int = 0,
    ) -> None:
        shape = (block_size, config.num_kv_heads, config.head_dim)
        pin = device.type == "cuda" and num_host_blocks > 0
        self.device = torch.empty((config.num_layers, 2, num_blocks, *shape), dtype=dtype, device=device)
        self.host = torch.empty((config.num_layers, 2, num_host_blocks, *shape), dtype=dtype, pin_memory=pin)
        self.scales = self.host_scales = None
        if is_quantized(dtype):
            self.scales = torch.empty(self.device.shape[:-1], device=device)
            self.host_scales = torch.empty(self.host.shape[:-1], pin_memory=pin)
        scales = [(None, None)] * config.num_layers if self.scales is None else self.scales
        self.layers = [KVLayer(*values, *scale) for values, scale in zip(self.device, scales, strict=True)]

    @property
    def nbytes(self) -> int:
        return self.device.nbytes + (0 if self.scales is None else self.scales.nbytes)

    def copy(self, copies: Iterable[BlockCopy]) -> None:
        self._move((self.device, self.scales), (self.device, self.scales), copies)

    def swap_out(self, copies: Iterable[BlockCopy]) -> None:
        self._move((self.device, self.scales), (self.host, self.host_scales), copies)

    def swap_in(self, copies: Iterable[BlockCopy]) -> None:
        self._move((self.host, self.host_scales), (self.device, self.scales), copies)

    def _move(self, source: tuple[Tensor, Tensor | None], destination: tuple[Tensor, Tensor | None], copies: Iterable[BlockCopy]) -> None:
        copies = tuple(copies)
        for old, new in zip(source, destination, strict=True):
            if copies and old is not None and new is not None:
                _copy_blocks(octets(old), octets(new), copies)


def _copy_blocks(source: Tensor, destination: Tensor, copies: tuple[BlockCopy, ...]) -> None:
    sources = torch.tensor([copy.source for copy in copies], device=source.device)
    destinations = torch.tensor([copy.destination for copy in copies], device=destination.device)
    # read everything before anything is written: a block may be source of one copy and destination of another
    blocks = source.index_select(2, sources).to(destination.device)
    destination.index_copy_(2, destinations, blocks)
