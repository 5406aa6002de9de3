"""min_p, top_k, top_p: which tokens may be drawn at all. Each looks at what the one before it left."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from infer_lab.sampling_params import SamplingParams

_OUT = float("-inf")


def keep_candidates(scores: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """scores float32 [rows, vocab], logits over temperature with the row's largest at 0 → the same with -inf for what may not be drawn.

    min_p: a score of log(min_p) at least. top_k: exactly k stay even among equals (the lower id first). top_p: the smallest set whose
    probability reaches it. The likeliest token always stays.
    """
    vocab, device = scores.shape[-1], scores.device
    if any(p.min_p > 0 for p in params):
        floor = torch.tensor([math.log(p.min_p) if p.min_p > 0 else _OUT for p in params], dtype=torch.float32, device=device)
        scores = scores.masked_fill(scores < floor.unsqueeze(1), _OUT)
    if any(0 < p.top_k < vocab or p.top_p < 1 for p in params):
        scores = _keep_top(scores, params)
    return scores


def _keep_top(scores: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    vocab = scores.shape[-1]
    k = torch.tensor([min(p.top_k, vocab) if p.top_k > 0 else vocab for p in params], device=scores.device)
    p = torch.tensor([p.top_p for p in params], dtype=torch.float32, device=scores.device)
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    ordered = ordered.masked_fill(torch.arange(vocab, device=scores.device) >= k.unsqueeze(1), _OUT)
    probability = ordered.softmax(dim=-1)
    before = probability.cumsum(dim=-1) - probability
    outside = (before >= p.unsqueeze(1)) & (p < 1).unsqueeze(1)
    outside[:, 0] = False  # a top_p that is 0 in float32
    ordered = ordered.masked_fill(outside, _OUT)
    return torch.full_like(scores, _OUT).scatter_(1, order, ordered)
