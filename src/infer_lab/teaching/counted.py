"""Work whose bytes a GPU's own counters can check against the formula, by topic; see `infer_lab.bench.counters`.

Each function gives its cases in order. small: sizes for a test on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F

from infer_lab import calculator
from infer_lab.bench.counters import Case

Call = Callable[[], object]
BF16, WIDTH = torch.bfloat16, 2  # bytes of a BF16 element


def _randn(device: str, *shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(*shape, device=device, dtype=dtype)


def _product(name: str, m: int, k: int, n: int) -> Case:
    def make(device: str) -> Call:
        x, weight = _randn(device, m, k), _randn(device, n, k)
        return lambda: F.linear(x, weight)

    return Case(f"{name}-{m}", calculator.gemm_bytes(m, k, n).to("B").value, make)


def products(small: bool = False) -> list[Case]:
    """The product of the lesson on arithmetic intensity by rows: one MLP weight of Llama-3-8B, 117 MB, more than an L2."""
    k, n = (64, 128) if small else (4096, 14_336)
    return [_product("product", m, k, n) for m in ((1, 8) if small else (1, 16, 64, 256, 512, 1024, 4096, 16_384))]


def under_the_roof(small: bool = False) -> list[Case]:
    """Six kernels of torch, as the lab on the measured roofline has them."""
    side, rows, columns, heads, kv_heads, head_dim, context = (
        (64, 8, 64, 4, 2, 8, 32) if small else (8192, 8192, 16_384, 32, 8, 128, 65_536)
    )
    elements = 2**10 if small else 2**28

    def addition(device: str) -> Call:
        x, y = _randn(device, elements), _randn(device, elements)
        return lambda: x + y

    def softmax(device: str) -> Call:
        x = _randn(device, rows, columns)
        return lambda: torch.softmax(x, -1)

    def attention(device: str) -> Call:
        q = _randn(device, 1, kv_heads, heads // kv_heads, head_dim)
        keys, values = (_randn(device, 1, kv_heads, context, head_dim) for _ in range(2))
        return lambda: F.scaled_dot_product_attention(q, keys, values)

    return [
        Case("addition", 3 * WIDTH * elements, addition),
        Case("softmax", 2 * WIDTH * rows * columns, softmax),
        Case("attention", WIDTH * head_dim * (2 * kv_heads * context + 2 * heads), attention),
        *(_product("square", m, side, side) for m in ((1, 4, 16) if small else (1, 64, 4096))),
    ]


def _standard(heads: int, n: int, d: int) -> Case:
    def make(device: str) -> Call:
        q, k, v = (_randn(device, heads, n, d) for _ in range(3))
        return lambda: torch.softmax((q * d**-0.5) @ k.transpose(-1, -2), -1) @ v

    elements = calculator.standard_attention_elements(n, d).value
    return Case(f"standard-{n}-d{d}", heads * elements * WIDTH, make)


def _flash(heads: int, n: int, d: int, together: int = 1) -> Case:
    """together: heads whose programs run side by side."""

    def make(device: str) -> Call:
        if device == "cpu":
            q, k, v = (_randn(device, heads, n, d) for _ in range(3))
            return lambda: F.scaled_dot_product_attention(q, k, v)
        from infer_lab.kernels import _common
        from infer_lab.kernels.flash_prefill import flash_prefill, prefill_config
        from infer_lab.kernels.hopper_prefill import hopper_config, supported

        q, k, v = (_randn(device, n, heads, d) for _ in range(3))
        bounds = torch.tensor([0, n], device=device, dtype=torch.int32)
        target = _common.target_of(q.device)
        tuned = hopper_config(target, d) if supported(target, q, k, v, False) else prefill_config(target, d, WIDTH, False, False)
        config = replace(tuned, kv_heads_together=together)
        return lambda: flash_prefill(q, k, v, bounds, bounds, causal=False, config=config)

    return Case(f"flash{'' if together == 1 else '-together'}-{n}-d{d}", 4 * heads * n * d * WIDTH, make)


def _peer(name: str, backend: str, heads: int, n: int, d: int) -> Case:
    def make(device: str) -> Call:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        q, k, v = (_randn(device, 1, heads, n, d) for _ in range(3))

        def run() -> torch.Tensor:
            with sdpa_kernel([getattr(SDPBackend, backend)] if device != "cpu" else [SDPBackend.MATH]):
                return F.scaled_dot_product_attention(q, k, v)

        return run

    return Case(f"{name}-{n}-d{d}", 4 * heads * n * d * WIDTH, make)


def attention(small: bool = False) -> list[Case]:
    """With and without the score matrix, by length and head_dim. Flash by the formula: q, k, v and the output once each.

    Flash is the library's kernel, head after head, and then with all heads side by side; beside it FlashAttention-2 as torch carries it,
    and cuDNN's kernel.
    """
    heads = 2 if small else 16
    lengths = (16, 32) if small else (1024, 2048, 4096, 8192, 16_384, 32_768)
    dims = (8,) if small else (64, 128)
    peers = {"fa2": "FLASH_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
    return [
        *(case(heads, n, d) for d in dims for n in lengths for case in (_standard, _flash)),
        *(_flash(heads, n, d, together=heads) for d in dims for n in lengths),
        *(_peer(name, backend, heads, n, dims[-1]) for n in lengths for name, backend in peers.items()),
    ]


def transposes(small: bool = False) -> list[Case]:
    """The regression of the lab on operator triage: columns written down, and through shared memory."""
    side = 32 if small else 8192

    def make(stage: str) -> Callable[[str], Call]:
        def build(device: str) -> Call:
            x = _randn(device, side, side, dtype=torch.float32)
            if device == "cpu":
                return lambda: x.t().contiguous()
            from infer_lab.kernels.teaching.transpose import transpose

            return lambda: transpose(x, stage)

        return build

    return [Case(f"transpose-{stage}", 2 * 4 * side**2, make(stage)) for stage in ("direct", "swizzled")]


def suspects(small: bool = False) -> list[Case]:
    """The five pieces of work of the lab that names bottlenecks, and what relieves each. Of many additions a few stand for all."""
    side, many_rows, few_rows, parts, part = (64, 8, 2, 3, 64) if small else (8192, 4096, 16, 16, 256)
    score_rows, columns, heads, head_dim, context = (8, 64, 4, 16, 64) if small else (16_384, 8192, 32, 128, 32_768)

    def additions(device: str) -> Call:
        x = torch.zeros(parts, part, device=device)
        return lambda: [row.add_(1) for row in x]

    def one_addition(device: str) -> Call:
        x = torch.zeros(parts, part, device=device)
        return lambda: x.add_(1)

    def in_pieces(device: str) -> Call:
        x = _randn(device, score_rows, columns, dtype=torch.float32)

        def run() -> torch.Tensor:
            e = (x - x.amax(-1, keepdim=True)).exp()
            return e / e.sum(-1, keepdim=True)

        return run

    def at_once(device: str) -> Call:
        x = _randn(device, score_rows, columns, dtype=torch.float32)
        return lambda: torch.softmax(x, -1)

    def decode(splits: int | None) -> Callable[[str], Call]:
        def make(device: str) -> Call:
            q, keys, values = _randn(device, 1, heads, head_dim), *(_randn(device, context // 16, 16, 1, head_dim) for _ in range(2))
            if device == "cpu":
                return lambda: F.scaled_dot_product_attention(q, keys.view(1, context, head_dim), values.view(1, context, head_dim))
            from infer_lab.kernels.paged_decode import paged_decode

            table = torch.arange(context // 16, dtype=torch.int32, device=device)[None]
            ends, lengths = (torch.tensor(x, dtype=torch.int32, device=device) for x in ([0, 1], [context]))
            return lambda: paged_decode(q, keys, values, table, ends, lengths, context, splits=splits)

        return make

    matrix, cache = 4 * score_rows * columns, 2 * WIDTH * context * head_dim
    return [
        _product("large-product", many_rows, side, side),
        _product("one-row", 1, side, side),
        _product("few-rows", few_rows, side, side),
        Case("many-additions", 2 * 4 * parts * part, additions),
        Case("one-addition", 2 * 4 * parts * part, one_addition),
        Case("softmax-in-pieces", 8 * matrix, in_pieces),
        Case("softmax-at-once", 2 * matrix, at_once),
        Case("thin-decode", cache, decode(1)),
        Case("spread-decode", cache, decode(None)),
    ]
