"""Elements that one head of attention moves between slow and fast memory: with the score matrix written out, and tile by tile.

Dao et al. 2022, theorem 2: Θ(nd + n²) against Θ(n²d²/M), where M is what *one* program can hold (elements, of one SM), not the chip's sum.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, count
from infer_lab.formulas import Worked, formula
from infer_lab.units import Quantity


@formula("4 · {n} · {head_dim} + 4 · {n} · {n}")
def standard_attention_elements(n: Count, head_dim: Count) -> Worked:
    """Three kernels: q, k, v read and the output written once; scores and weights each written once and read once."""
    tokens, d = count(n, "n", 1), count(head_dim, "head_dim", 1)
    return Worked(Quantity(4 * tokens * d + 4 * tokens * tokens), {"n": tokens, "head_dim": d})


@formula("2 · {n} · {head_dim} + 2 · {n} · {head_dim} · ⌈{n} / {block_q}⌉")
def flash_attention_elements(n: Count, head_dim: Count, block_q: Count = 128) -> Worked:
    """Queries outside (FlashAttention-2): q read and the output written once; every tile of `block_q` queries reads all keys and values."""
    tokens, d, block = count(n, "n", 1), count(head_dim, "head_dim", 1), count(block_q, "block_q", 1)
    return Worked(Quantity(2 * tokens * d * (1 + -(-tokens // block))), {"n": tokens, "head_dim": d, "block_q": block})


@formula("({n} · {head_dim} + {n} · {n}) / ({n} · {n} · {head_dim} · {head_dim} / {memory})")
def attention_io_reduction(n: Count, head_dim: Count, memory: Count) -> Worked:
    """The two bounds divided, without their constants: about M / d². Below 1 tiling moves more than it saves."""
    tokens, d, m = count(n, "n", 1), count(head_dim, "head_dim", 1), count(memory, "memory", 1)
    ratio = (tokens * d + tokens * tokens) / (tokens * tokens * d * d / m)
    return Worked(Quantity(ratio, "x"), {"n": tokens, "head_dim": d, "memory": m})
