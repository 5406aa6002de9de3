"""The memory that keys and values live in: one tensor on the device, optionally one in host memory for swapped requests.

    [num_layers, 2 (k, v), num_blocks, block_size, num_kv_heads, head_dim]

A block of one layer is contiguous, so moving a block is a few large copies. Which block belongs to whom is the block pool's business; here
are only bytes. Memory is not cleared: attention reads no slot that its request did not write.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from infer_lab.config import ModelConfig
from infer_lab.core.plan import BlockCopy


def bytes_per_block(config: ModelConfig, block_size: int, dtype: torch.dtype) -> int:
    """Bytes of one block over all layers."""
    return config.num_layers * 2 * block_size * config.num_kv_heads * config.head_dim * dtype.itemsize


class KVCache:
    """layers[i] is (k, v) of layer i, each [num_blocks · block_size, num_kv_heads, head_dim]: views of `device`."""

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
        head = (config.num_kv_heads, config.head_dim)
        self.device = torch.empty((config.num_layers, 2, num_blocks, block_size, *head), dtype=dtype, device=device)
        pin = device.type == "cuda" and num_host_blocks > 0
        self.host = torch.empty((config.num_layers, 2, num_host_blocks, block_size, *head), dtype=dtype, pin_memory=pin)
        self.layers = [(layer[0].view(-1, *head), layer[1].view(-1, *head)) for layer in self.device]

    @property
    def nbytes(self) -> int:
        return self.device.nbytes

    def copy(self, copies: Iterable[BlockCopy]) -> None:
        _copy_blocks(self.device, self.device, copies)

    def swap_out(self, copies: Iterable[BlockCopy]) -> None:
        _copy_blocks(self.device, self.host, copies)

    def swap_in(self, copies: Iterable[BlockCopy]) -> None:
        _copy_blocks(self.host, self.device, copies)


def _copy_blocks(source: Tensor, destination: Tensor, copies: Iterable[BlockCopy]) -> None:
    copies = tuple(copies)
    if not copies:
        return
    sources = torch.tensor([copy.source for copy in copies], device=source.device)
    destinations = torch.tensor([copy.destination for copy in copies], device=destination.device)
    # read everything before anything is written: a block may be source of one copy and destination of another
    blocks = source.index_select(2, sources).to(destination.device)
    destination.index_copy_(2, destinations, blocks)
