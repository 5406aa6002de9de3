"""Operations: what prefill and a decode step compute, and what a cache saves. A multiply-add counts as 2.

Counted: the matrices that a token meets (for MoE its own experts), the LM head, and attention over (query, key) pairs. Left out: norms,
softmax, RoPE, sampling, together about a percent. Attention counts *query* heads: sharing KV heads saves bytes, not operations.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, count
from infer_lab.calculator.weights import Shape
from infer_lab.config import ModelConfig
from infer_lab.formulas import Worked, formula
from infer_lab.units import Quantity


@formula("{n} · {prompt} + {n} · ({n} − 1) / 2")
def projections_without_cache(tokens: Count, prompt: Count = 1) -> Worked:
    """K (or V) rows that one layer projects to generate `tokens` tokens after `prompt`, when each step recomputes its whole prefix."""
    n, p = count(tokens, "tokens"), count(prompt, "prompt")
    return Worked(Quantity(n * p + n * (n - 1) // 2), {"n": n, "prompt": p})


@formula("{prompt} + {n} − 1")
def projections_with_cache(tokens: Count, prompt: Count = 1) -> Worked:
    """The same with a cache: each position once. (The last generated token is never fed back.)"""
    n, p = count(tokens, "tokens"), count(prompt, "prompt")
    return Worked(Quantity(p + n - 1 if n else 0), {"n": n, "prompt": p})


@formula("2 · {matrices} · {tokens} + 2 · {lm_head} + 4 · {layers} · {heads} · {head_dim} · {pairs}")
def prefill_flops(model: ModelConfig, tokens: Count, cached: Count = 0) -> Worked:
    """Operations to prefill `tokens` new tokens of one request whose first `cached` tokens are in the cache already.

    pairs: (query, key) pairs under the causal mask, summed over layers where some have a window. The LM head runs for the last position
    only. MLA is counted as it prefills: keys and values made from the latents, attention over `nope + rope` and `v` dimensions.
    """
    n, c = count(tokens, "tokens"), count(cached, "cached")
    matrices, head = _matrices(model), model.vocab_size * model.hidden_size
    pairs = n * c + n * (n + 1) // 2
    inputs = {"matrices": matrices, "tokens": n, "lm_head": head, "layers": model.num_layers, "heads": model.num_heads,
              "head_dim": model.head_dim, "pairs": pairs}  # fmt: skip
    text = ""
    if model.latent:
        width = model.latent.nope_dim + model.latent.rope_dim + model.latent.v_dim
        attention = 2 * model.num_layers * model.num_heads * width * pairs
        inputs["qk_and_v"], text = width, "2 · {matrices} · {tokens} + 2 · {lm_head} + 2 · {layers} · {heads} · {qk_and_v} · {pairs}"
    elif model.num_windowed_layers:
        full, near = model.num_layers - model.num_windowed_layers, _window_pairs(n, c, model.sliding_window)
        attention = 4 * model.num_heads * model.head_dim * (full * pairs + model.num_windowed_layers * near)
        inputs |= {"full": full, "windowed": model.num_windowed_layers, "near": near}
        text = "2 · {matrices} · {tokens} + 2 · {lm_head} + 4 · {heads} · {head_dim} · ({full} · {pairs} + {windowed} · {near})"
    else:
        attention = 4 * model.num_layers * model.num_heads * model.head_dim * pairs
    return Worked(Quantity(2 * matrices * n + 2 * head + attention, "FLOP"), inputs, text)


@formula("{batch} · (2 · {matrices} + 4 · {layers} · {heads} · {head_dim} · {context})")
def decode_flops(model: ModelConfig, batch: Count, context: Count) -> Worked:
    """Operations of one decode step: `batch` requests, each attending to `context` cached tokens. Counts *query* heads, not KV heads.

    MLA is counted as it decodes: queries are carried into the latent space, so each head meets latents of `rank + rope` and sums `rank`.
    """
    b, s = count(batch, "batch"), count(context, "context")
    matrices = _matrices(model) + model.vocab_size * model.hidden_size
    inputs = {"batch": b, "matrices": matrices, "layers": model.num_layers, "heads": model.num_heads, "head_dim": model.head_dim,
              "context": s}  # fmt: skip
    text = ""
    if model.latent:
        width = model.mla_latent_dim + model.latent.kv_rank
        attention = 2 * model.num_layers * model.num_heads * width * s
        inputs["latents"], text = width, "{batch} · (2 · {matrices} + 2 · {layers} · {heads} · {latents} · {context})"
    elif model.num_windowed_layers:
        full, near = model.num_layers - model.num_windowed_layers, min(s, model.sliding_window)
        attention = 4 * model.num_heads * model.head_dim * (full * s + model.num_windowed_layers * near)
        inputs |= {"full": full, "windowed": model.num_windowed_layers, "near": near}
        text = "{batch} · (2 · {matrices} + 4 · {heads} · {head_dim} · ({full} · {context} + {windowed} · {near}))"
    else:
        attention = 4 * model.num_layers * model.num_heads * model.head_dim * s
    return Worked(Quantity(b * (2 * matrices + attention), "FLOP"), inputs, text)


def _matrices(model: ModelConfig) -> int:
    """Elements of all matrices that one token is multiplied with, but the LM head."""
    shape = Shape.of(model)
    of_experts = 0
    if model.experts:
        chosen = model.experts.num_experts_per_token * shape.expert
        of_experts = shape.expert_layers * (chosen + shape.shared + shape.router_matrix)
    return model.num_layers * shape.attention_matrices + shape.dense_layers * shape.ffn + of_experts


def _window_pairs(n: int, cached: int, window: int) -> int:
    """(query, key) pairs of `n` queries after `cached` tokens when each sees at most `window` keys, itself included."""
    growing = max(0, min(n, window - cached))  # queries that still see everything before them
    return growing * cached + growing * (growing + 1) // 2 + (n - growing) * window
