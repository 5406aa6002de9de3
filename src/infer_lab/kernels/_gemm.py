"""What the matrix-product kernels share: launch configurations, split-K, and unpacking integers in the matrix unit's own order.

All of them compute y[m, n] = sum_k x[m, k] w[n, k] with the weight on the *left* (yT = w xT): rows of the weight fill the 64-row
operand of the matrix unit whatever the batch is, and integers turned into floats reach it from registers, never through shared
memory. The batch is the narrow side: 8 or 16 columns at decode.
"""

# pyright: reportGeneralTypeIssues=false
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl

from infer_lab.errors import InvalidRequestError
from infer_lab.kernels import _common
from infer_lab.kernels._common import Target, cdiv, next_power_of_2

BATCH_BOUNDS = (8, 16, 32, 64, 128, 256, 1 << 30)  # a tuned launch is for the batch sizes up to its bound


@dataclass(frozen=True, slots=True)
class GemmConfig:
    """Tile of one program (block_n weight rows by block_m batch rows, block_k columns a step) and how it is launched.

    split_k: programs that share one tile; their float32 partial sums are added in a fixed order, so results do not vary from run to run.
    """

    block_n: int
    block_m: int
    block_k: int
    split_k: int = 1
    num_warps: int = 4
    num_stages: int = 4


def config_for(target: Target, kernel: str, m: int, n: int, k: int) -> dict[str, Any] | None:
    """The configuration tuned for this weight shape and the next larger batch size, if this device has one."""
    for bound in BATCH_BOUNDS:
        if m <= bound and (found := _common.tuned(target, kernel, f"n{n}-k{k}-m{bound}")) is not None:
            return found
    return None


def split_for(target: Target, tiles: int, steps: int, per_sm: int = 2, most: int = 16) -> int:
    """Programs per tile so that about `per_sm` of them stand on every SM, each with at least four steps: what keeps HBM busy."""
    split = 1
    while split * 2 <= min(most, max(steps // 4, 1)) and tiles * split * 1.5 < per_sm * target.num_sms:
        split *= 2
    return split


def weight_only_config(target: Target, kernel: str, m: int, n: int, k: int, bits: int, pack_k: int, element_size: int) -> GemmConfig:
    """The launch tuned for this device and shape, else a heuristic: tiles of 128 rows, and K split until every SM has two programs.

    pack_k: columns of a packed block; a step may take a part of it. element_size: bytes of an activation. Chips with less shared memory
    get fewer stages and narrower tiles.
    """
    found = config_for(target, kernel, m, n, k)
    if found is not None and pack_k % found["block_k"] == 0 and element_size == 2:
        return GemmConfig(**found)
    if target.interpreted or element_size == 4:
        block_k = pack_k if target.interpreted else min(pack_k, 64)
        return GemmConfig(64, narrow_block(m, 16), block_k, 2 if m <= 16 and k > pack_k else 1, 4, 1)
    if m <= 16:
        split = split_for(target, cdiv(n, 128), cdiv(k, pack_k))
        return GemmConfig(128, narrow_block(m), pack_k, split, 4, 3)
    roomy = target.shared_memory > 120_000
    block_m, block_k = narrow_block(m), min(pack_k, 128)
    block_n = 256 if target.capability == (9, 0) and block_m == 128 else 128 if roomy or block_m <= 64 else 64
    split = split_for(target, cdiv(n, block_n), cdiv(k, pack_k)) if m <= block_m else 1
    step = block_n * block_k * bits // 8 + block_m * block_k * element_size
    stages = max(2, min(3, (target.shared_memory - 8192) // step))
    return GemmConfig(block_n, block_m, block_k, split, 8 if block_n * block_m >= 128 * 128 else 4, stages)


def narrow_block(m: int, largest: int = 128) -> int:
    """Batch columns of a tile: 8 (the narrowest the matrix unit takes), 16, 32, 64, ..."""
    return min(max(8, next_power_of_2(m)), largest)


def check_product(x: torch.Tensor, n: int, k: int, out: torch.Tensor | None) -> tuple[int, torch.Tensor]:
    """Rows of x and the output [m, n] to fill. Raises InvalidRequestError on shapes or dtypes that do not fit."""
    if x.dim() != 2 or x.shape[1] != k:
        raise InvalidRequestError(f"activations {list(x.shape)} do not fit a weight of {n} rows and {k} columns: they must be [m, {k}]")
    m = x.shape[0]
    if out is None:
        return m, torch.empty(m, n, dtype=x.dtype, device=x.device)
    if out.shape != (m, n):
        raise InvalidRequestError(f"out {list(out.shape)} must be [{m}, {n}]")
    return m, out


def make_locks(n: int, device: torch.device | str) -> torch.Tensor:
    """Arrival counters for split-K over a weight of n rows. The kernels leave them at zero; keep one set for each stream."""
    return torch.zeros(cdiv(n, 16), dtype=torch.int32, device=device)


def partial_sums(config: GemmConfig, m: int, n: int, device: torch.device, dtype: torch.dtype = torch.float32) -> torch.Tensor | None:
    """Scratch for the partial tiles of split-K; None where there is nothing to share."""
    if config.split_k == 1:
        return None
    assert m <= config.block_m, "split-K is for one tile of batch rows"
    tiles = cdiv(n, config.block_n)
    return torch.empty(tiles * config.split_k * config.block_n * config.block_m, dtype=dtype, device=device)


def uses_ptx(x: torch.Tensor) -> bool:
    """Whether unpacking may use inline PTX: on a GPU and for the 16-bit types that it is written for."""
    return not _common.target_of(x.device).interpreted and x.dtype in (torch.bfloat16, torch.float16)


@triton.jit
def finish_tile(acc, scale, y, stride_ym, stride_yn, n, m, M, N, tile, split, partials, locks, SPLIT_K: tl.constexpr):
    """Store one tile of yT, `acc * scale` with acc [block_n, block_m]; with split-K, who arrives last adds everybody's partial sums.

    Always in the order of the splits, so the sum does not depend on who is last; int32 sums stay int32 until they are complete.
    n, m: row and column numbers of the tile (int64).
    """
    BN: tl.constexpr = acc.shape[0]
    BM: tl.constexpr = acc.shape[1]
    where = y + m[None, :] * stride_ym + n[:, None] * stride_yn
    inside = (m < M)[None, :] & (n < N)[:, None]
    if SPLIT_K == 1:
        tl.store(where, (acc.to(tl.float32) * scale).to(y.dtype.element_ty), mask=inside)
    else:
        cell = tl.arange(0, BN)[:, None] * BM + tl.arange(0, BM)[None, :]
        mine = partials + tl.full((), SPLIT_K * BN * BM, tl.int64) * tile + cell
        tl.store(mine + split * (BN * BM), acc, cache_modifier=".cg")
        tl.debug_barrier()
        if tl.atomic_add(locks + tile, 1, sem="acq_rel") == SPLIT_K - 1:
            total = tl.zeros([BN, BM], acc.dtype)
            for i in tl.static_range(SPLIT_K):
                total += tl.load(mine + i * (BN * BM), cache_modifier=".cg")
            tl.store(where, (total.to(tl.float32) * scale).to(y.dtype.element_ty), mask=inside)
            tl.store(locks + tile, 0)


@triton.jit
def load_groups(ptr, stride, COUNT: tl.constexpr):
    """One vector of per-row values for each of COUNT neighbouring groups."""
    out = ()
    for i in tl.static_range(COUNT):
        out = out + (tl.load(ptr + i * stride),)  # noqa: RUF005 (Triton's tuples have +)
    return out
