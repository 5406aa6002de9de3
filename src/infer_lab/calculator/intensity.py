"""Arithmetic intensity from shapes: operations and the fewest bytes of one product or one attention.

Bytes are those that must cross the memory bus when each operand is read once and each result written once; what a kernel really moves
is more or, where the L2 still holds it, less.
"""

from __future__ import annotations

import math

from infer_lab.calculator.arguments import Count, count, whole
from infer_lab.calculator.kv_cache import kv_bytes_per_token
from infer_lab.calculator.roofline import ridge
from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError
from infer_lab.formulas import Worked, formula
from infer_lab.hardware import Gpu
from infer_lab.units import Number, Quantity


@formula("{k} · {n} · {weight_bytes} + {m} · ({k} + {n}) · {bytes}")
def gemm_bytes(m: Count, k: Count, n: Count, weight_bytes: Number = 2, bytes_per_element: Number = 2) -> Worked:
    """The fewest bytes that [m, k] · [k, n] moves: the weight and the input read once, the output written once."""
    rows, inner, columns = count(m, "m", 1), count(k, "k", 1), count(n, "n", 1)
    total = inner * columns * weight_bytes + rows * (inner + columns) * bytes_per_element
    return Worked(
        Quantity(whole(total), "B"), {"k": inner, "n": columns, "weight_bytes": weight_bytes, "m": rows, "bytes": bytes_per_element}
    )


@formula("2 · {m} · {k} · {n} / {moved}")
def gemm_intensity(m: Count, k: Count, n: Count, weight_bytes: Number = 2, bytes_per_element: Number = 2) -> Worked:
    """Operations per byte of [m, k] · [k, n]: about 2m / weight_bytes for few rows, at most 2kn / ((k + n) · bytes) for many."""
    rows, inner, columns = count(m, "m", 1), count(k, "k", 1), count(n, "n", 1)
    moved = gemm_bytes(rows, inner, columns, weight_bytes, bytes_per_element)
    inputs = {"m": rows, "k": inner, "n": columns, "moved": moved}
    return Worked(Quantity(2 * rows * inner * columns, "FLOP") / moved, inputs)


@formula("⌈{ridge} · {weight_bytes} · {k} · {n} / (2 · {k} · {n} − {ridge} · {bytes} · ({k} + {n}))⌉")
def gemm_ridge_rows(gpu: Gpu, k: Count, n: Count, weight_bytes: Number = 2, bytes_per_element: Number = 2, peak: Count = 0,
                    bandwidth: Count = 0, dtype: str = "bf16") -> Worked:  # fmt: skip
    """Fewest rows for which a product with a [k, n] weight is compute-bound. NotApplicableError where no number of rows is."""
    inner, columns = count(k, "k", 1), count(n, "n", 1)
    turn = ridge(gpu, dtype, peak, bandwidth)
    spare = 2 * inner * columns - turn.value * bytes_per_element * (inner + columns)
    if spare <= 0:
        raise NotApplicableError(f"a [{inner}, {columns}] weight is too narrow: its input and output alone keep it below {turn}")
    rows = math.ceil(turn.value * weight_bytes * inner * columns / spare)
    inputs = {"ridge": turn, "weight_bytes": weight_bytes, "k": inner, "n": columns, "bytes": bytes_per_element}
    return Worked(Quantity(rows), inputs)


@formula("{queries} · 4 · {heads} · {head_dim} / ({per_token} / {layers})")
def decode_attention_intensity(model: ModelConfig, queries: Count = 1, kv_bytes_per_element: Number = 2) -> Worked:
    """Operations per byte of attention over the cache: `queries` new tokens of a request against each cached token of a layer.

    Context and batch are in both counts and cancel. Left out: queries and outputs, a share of 1 / context. MLA is counted as it decodes,
    over the latents (see `decode_flops`), all heads on one GPU.
    """
    q = count(queries, "queries", 1)
    per_token = kv_bytes_per_token(model, kv_bytes_per_element)
    inputs = {"queries": q, "heads": model.num_heads, "head_dim": model.head_dim, "per_token": per_token, "layers": model.num_layers}
    text = ""
    if model.latent:
        width = model.mla_latent_dim + model.latent.kv_rank
        flops = 2 * q * model.num_heads * width
        inputs["latents"], text = width, "{queries} · 2 · {heads} · {latents} / ({per_token} / {layers})"
    else:
        flops = 4 * q * model.num_heads * model.head_dim
    return Worked(Quantity(flops * model.num_layers / per_token.base, "FLOP/B"), inputs, text)
