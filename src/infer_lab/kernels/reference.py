"""What each kernel must compute, in plain torch: the definition that the tests hold the kernels to, and the path for a CPU.

Every function upcasts to `compute_dtype` (float32; tests also use float64), follows the definition literally and is not meant to be fast.
Shapes: `q [tokens, heads, head_dim]`, caches `[num_blocks, block_size, kv_heads, head_dim]`, `cu_seqlens [requests + 1]`,
`seq_lens [requests]` (keys of each request, the new ones included), `block_table [requests, max_blocks]`.
"""

from __future__ import annotations

import torch


def attention_rows(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool, window: int, compute_dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """One request. q `[m, heads, d]`, k and v `[n, kv_heads, d]`; the last query stands at the last key (bottom-right causal).

    window 0 is off; otherwise a query at position p sees keys in (p - window, p].
    Returns out `[m, heads, d]` and the natural-log LSE `[m, heads]`; a row that sees nothing gives 0 and -inf.
    """
    m, n, group = q.shape[0], k.shape[0], q.shape[1] // k.shape[1]
    q, k, v = q.to(compute_dtype), k.to(compute_dtype), v.to(compute_dtype)
    scores = torch.einsum("mhd,nhd->hmn", q, k.repeat_interleave(group, 1)) * scale
    position = torch.arange(m, device=q.device)[:, None] + (n - m)
    key = torch.arange(n, device=q.device)[None, :]
    seen = torch.ones(m, n, dtype=torch.bool, device=q.device)
    if causal:
        seen &= key <= position
    if window:
        seen &= key > position - window
    scores = scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    weights = torch.exp(scores - lse.masked_fill(lse == float("-inf"), 0.0)[..., None])
    return torch.einsum("hmn,nhd->mhd", weights, v.repeat_interleave(group, 1)), lse.T


def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    scale: float,
    causal: bool = True,
    window: int = 0,
    compute_dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Requests packed back to back: request i owns q rows `[cu_q[i], cu_q[i+1])` and k, v rows `[cu_k[i], cu_k[i+1])`."""
    out = torch.zeros(q.shape, dtype=compute_dtype, device=q.device)
    lse = torch.full(q.shape[:2], float("-inf"), dtype=compute_dtype, device=q.device)
    cu_q, cu_k = cu_seqlens_q.tolist(), cu_seqlens_k.tolist()
    for q0, q1, k0, k1 in zip(cu_q, cu_q[1:], cu_k, cu_k[1:], strict=False):
        out[q0:q1], lse[q0:q1] = attention_rows(q[q0:q1], k[k0:k1], v[k0:k1], scale, causal, window, compute_dtype)
    return out, lse


def gather_pages(
    cache: torch.Tensor, scale: torch.Tensor | None, table: torch.Tensor, length: int, compute_dtype: torch.dtype
) -> torch.Tensor:
    """Keys or values `[length, kv_heads, d]` of one request, dequantized."""
    slots = torch.arange(length, device=cache.device)
    pages, offsets = table[slots // cache.shape[1]].long(), slots % cache.shape[1]
    rows = cache[pages, offsets].to(compute_dtype)
    return rows if scale is None else rows * scale[pages, offsets].to(compute_dtype)[..., None]


def paged_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    block_table: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    window: int = 0,
    k_scale: torch.Tensor | None = None,
    v_scale: torch.Tensor | None = None,
    compute_dtype: torch.dtype = torch.float32,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Causal attention of each request's new tokens to everything it has in the cache, the new tokens included.

    Decode, chunked prefill, verification of drafts and any mixture are this one definition with different query lengths.
    k_scale, v_scale: `[num_blocks, block_size, kv_heads]`, for an FP8 or INT8 cache.
    """
    out = torch.zeros(q.shape, dtype=compute_dtype, device=q.device)
    lse = torch.full(q.shape[:2], float("-inf"), dtype=compute_dtype, device=q.device)
    cu_q = cu_seqlens_q.tolist()
    for i, length in enumerate(seq_lens.tolist()):
        q0, q1 = cu_q[i], cu_q[i + 1]
        if q1 > q0:
            k = gather_pages(k_cache, k_scale, block_table[i], length, compute_dtype)
            v = gather_pages(v_cache, v_scale, block_table[i], length, compute_dtype)
            out[q0:q1], lse[q0:q1] = attention_rows(q[q0:q1], k, v, scale, True, window, compute_dtype)
    return out, lse


def rmsnorm(x: torch.Tensor, weight: torch.Tensor, eps: float, compute_dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension, not rounded in between."""
    x = x.to(compute_dtype)
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.to(compute_dtype)


def silu_mul(gate_up: torch.Tensor, compute_dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """silu(gate) * up, where the last dimension holds gate then up."""
    gate, up = gate_up.to(compute_dtype).chunk(2, -1)
    return gate * torch.sigmoid(gate) * up


def rope(
    x: torch.Tensor, positions: torch.Tensor, cos_sin: torch.Tensor, interleaved: bool = False, compute_dtype: torch.dtype = torch.float32
) -> torch.Tensor:
    """Rotate `x [tokens, heads, d]` by the angles of its positions; cos_sin `[max_positions, d]` holds d/2 cosines, then d/2 sines.

    Pair i is (x[i], x[i + d/2]), or (x[2i], x[2i + 1]) when interleaved (the GPT-J layout).
    """
    cos, sin = (t[:, None] for t in cos_sin[positions.long()].to(compute_dtype).chunk(2, -1))
    x = x.to(compute_dtype)
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    first, second = a * cos - b * sin, b * cos + a * sin
    return torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)


def log_softmax_gather(logits: torch.Tensor, token_ids: torch.Tensor, compute_dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Log-probabilities `[rows, n]` of `token_ids [rows, n]` under `logits [rows, vocabulary]`."""
    return torch.log_softmax(logits.to(compute_dtype), -1).gather(-1, token_ids.long())


def philox4x32(key: int, counter: int, rounds: int = 10) -> tuple[int, int, int, int]:
    """The four 32-bit words of Philox-4x32 (Salmon et al. 2011) for a 64-bit key and a 128-bit counter."""
    k0, k1 = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF
    c0, c1, c2, c3 = (counter >> s & 0xFFFFFFFF for s in (0, 32, 64, 96))
    for _ in range(rounds):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = b >> 32 ^ c1 ^ k0, b & 0xFFFFFFFF, a >> 32 ^ c3 ^ k1, a & 0xFFFFFFFF
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c0, c1, c2, c3


def uniform(seed: int, position: int) -> float:
    """The number in [0, 1) with which the request of this seed draws its token at this position: 24 bits of Philox."""
    return (philox4x32(seed, position)[0] >> 8) * 2.0**-24


def penalized(
    logits: torch.Tensor, output_counts: torch.Tensor, in_prompt: torch.Tensor, repetition: float, frequency: float, presence: float
) -> torch.Tensor:
    """One row of logits after penalties. Repetition looks at prompt and output, frequency and presence at the output alone."""
    seen = (output_counts > 0) | in_prompt
    x = torch.where(seen, torch.where(logits > 0, logits / repetition, logits * repetition), logits)
    return x - frequency * output_counts - presence * (output_counts > 0)


def kept_weights(logits: torch.Tensor, temperature: float, top_k: int = 0, top_p: float = 1.0, min_p: float = 0.0) -> torch.Tensor:
    """Probabilities of one row, float64, after temperature, top-k, top-p and min-p; by sorting. Equal scores share their fate."""
    scores = logits.double() / temperature
    order = torch.argsort(scores, descending=True, stable=True)
    sorted_scores = scores[order]
    threshold = torch.tensor(float("-inf"), dtype=torch.float64)
    if 0 < top_k < scores.numel():
        threshold = sorted_scores[top_k - 1]
    weights = torch.exp(scores - scores.max()) * (scores >= threshold)
    if top_p < 1:
        running = weights[order].cumsum(0)
        first = int((running < top_p * running[-1]).sum())  # the token with which the mass reaches top_p
        threshold = torch.maximum(threshold, sorted_scores[min(first, scores.numel() - 1)])
    if min_p > 0:
        threshold = torch.maximum(threshold, scores.max() + torch.log(torch.tensor(min_p, dtype=torch.float64)))
    weights = weights * (scores >= threshold)
    return weights / weights.sum()
