"""Inputs of the elementwise and sampling benchmarks, shared by the benchmark and the tuner; device "meta" compiles without data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from infer_lab.kernels.logprobs import log_softmax_gather
from infer_lab.kernels.rmsnorm import NormConfig, rmsnorm
from infer_lab.kernels.rope_kv_write import rope_kv_write
from infer_lab.kernels.sampling import SamplingBatch, SamplingConfig, SamplingWorkspace, sample
from infer_lab.kernels.silu_mul import silu_mul


def randn(device: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.empty(*shape, dtype=dtype, device=device) if device == "meta" else torch.randn(*shape, dtype=dtype, device=device)


def norm_case(device: str, dtype: torch.dtype, rows: int, hidden: int, config: NormConfig | None = None) -> Callable[[], Any]:
    x, residual = randn(device, dtype, rows, hidden), randn(device, dtype, rows, hidden)
    weight, out = randn(device, dtype, hidden), torch.empty(rows, hidden, dtype=dtype, device=device)
    return lambda: rmsnorm(x, weight, 1e-5, residual, out, config)


def silu_case(device: str, dtype: torch.dtype, rows: int, width: int) -> Callable[[], Any]:
    x, out = randn(device, dtype, rows, 2 * width), torch.empty(rows, width, dtype=dtype, device=device)
    return lambda: silu_mul(x, out)


def rope_case(device: str, dtype: torch.dtype, tokens: int, heads: int, kv_heads: int, d: int) -> Callable[[], Any]:
    qkv = randn(device, dtype, tokens, heads + 2 * kv_heads, d)
    cache = randn(device, dtype, 2, tokens // 16 + 1, 16, kv_heads, d)
    positions = torch.arange(tokens, device=device)
    cos_sin = randn(device, torch.float32, tokens, d)
    slots = torch.arange(tokens, device=device)
    q, k, v = qkv[:, :heads], qkv[:, heads : heads + kv_heads], qkv[:, heads + kv_heads :]
    return lambda: rope_kv_write(q, k, v, positions, cos_sin, cache[0], cache[1], slots)


def sampling_case(device: str, rows: int, vocab: int, top_k: int, top_p: float, config: SamplingConfig | None = None) -> Callable[[], Any]:
    logits = randn(device, torch.float32, rows, vocab)
    batch = SamplingBatch.build(torch.device(device), [1.0] * rows, list(range(rows)), [top_k] * rows, [top_p] * rows)
    positions = torch.zeros(rows, dtype=torch.int64, device=device)
    out = torch.empty(rows, dtype=torch.int64, device=device)
    workspace = SamplingWorkspace.allocate(rows, vocab, torch.device(device), config)
    return lambda: sample(logits, batch, positions, out=out, workspace=workspace)


def logprobs_case(device: str, rows: int, vocab: int) -> Callable[[], Any]:
    logits = randn(device, torch.float32, rows, vocab)
    ids = torch.zeros(rows, 1, dtype=torch.int64, device=device)
    return lambda: log_softmax_gather(logits, ids)
