"""min_p, top_k, top_p: which tokens may be drawn at all. Each looks at what the one before it left.

Why not one sort: sorting 49,152 scores takes a CPU many times as long as everything else that sampling does, and nearly always a few
hundred tokens are all that can be drawn. So the likeliest ones are taken out first, and a row is sorted whole only when they turn out
not to be enough. Which way a row goes depends on the row alone, never on its batch mates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from infer_lab.sampling_params import SamplingParams

_OUT = float("-inf")
_FIRST = 1024  # tokens taken out of each row at first


class Candidates(NamedTuple):
    """rows int64 [n]: which rows of the scores. scores float32 [n, c]: descending, -inf for what may not be drawn. ids int64 [n, c]."""

    rows: Tensor
    scores: Tensor
    ids: Tensor


def has_filter(params: SamplingParams, vocab_size: int) -> bool:
    return params.min_p > 0 or 0 < params.top_k < vocab_size or params.top_p < 1


def candidates(scores: Tensor, params: Sequence[SamplingParams]) -> list[Candidates]:
    """scores float32 [rows, vocab], logits over temperature with each row's largest at 0 → what may be drawn, in groups of rows.

    min_p: a score of log(min_p) at least. top_k: exactly k stay even among equals (the lower id first). top_p: the smallest set whose
    probability reaches it. The likeliest token always stays.
    """
    vocab, device = scores.shape[-1], scores.device
    every = torch.arange(len(params), device=device)
    if vocab <= _FIRST:
        return [_sorted(scores, every, params)]
    values, ids = scores.topk(_FIRST, dim=-1)
    ids, order = ids.sort(dim=-1)  # equal scores in the order of their ids
    ordered, by_score = values.gather(1, order).sort(dim=-1, descending=True, stable=True)
    kept = _cut(ordered, scores, params)
    # enough, if what stays is larger than the smallest that was taken out: then nothing that was left behind could stay as well.
    # A top_p of more than so many that top_k leaves is a share of a sum that is not known here
    last = (kept > _OUT).sum(dim=-1, keepdim=True).clamp_(min=1) - 1
    enough = ordered.gather(1, last).squeeze(1) > ordered[:, -1]
    enough &= torch.tensor([p.top_p == 1 or not _FIRST < p.top_k < vocab for p in params], device=device)
    found = Candidates(every, kept, ids.gather(1, by_score))
    if bool(enough.all()):
        return [found]
    rest = (~enough).nonzero().squeeze(1)
    few = enough.nonzero().squeeze(1)
    groups = [Candidates(few, found.scores[few], found.ids[few])] if len(few) else []
    return [*groups, _sorted(scores[rest], rest, [params[i] for i in rest.tolist()])]


def _sorted(scores: Tensor, rows: Tensor, params: Sequence[SamplingParams]) -> Candidates:
    ordered, ids = scores.sort(dim=-1, descending=True, stable=True)
    return Candidates(rows, _cut(ordered, scores, params), ids)


def _cut(ordered: Tensor, scores: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """-inf for what the filters take out of `ordered` [rows, c], the c largest of scores [rows, vocab] in descending order."""
    (vocab, count), device = (scores.shape[-1], ordered.shape[-1]), scores.device
    floor = None
    if any(p.min_p > 0 for p in params):
        floor = _column([math.log(p.min_p) if p.min_p > 0 else _OUT for p in params], device)
        ordered = ordered.masked_fill(ordered < floor, _OUT)
    if any(0 < p.top_k < vocab for p in params):
        k = torch.tensor([p.top_k if p.top_k > 0 else vocab for p in params], device=device).unsqueeze(1)
        ordered = ordered.masked_fill(torch.arange(count, device=device) >= k, _OUT)
    if any(p.top_p < 1 for p in params):
        p = _column([p.top_p for p in params], device)
        total = _log_sum_exp(ordered)
        if count < vocab:  # without a top_k, what min_p left and was not taken out counts too
            is_part = torch.tensor([0 < p.top_k <= count for p in params], device=device).unsqueeze(1)
            total = torch.where(is_part, total, _log_sum_exp(scores if floor is None else scores.masked_fill(scores < floor, _OUT)))
        probability = (ordered - total).exp()
        outside = (probability.cumsum(dim=-1) - probability >= p) & (p < 1)
        outside[:, 0] = False  # a top_p that is 0 in float32
        ordered = ordered.masked_fill(outside, _OUT)
    return ordered


def _log_sum_exp(scores: Tensor) -> Tensor:
    """[rows, 1], for rows whose largest is 0. log_softmax adds up each row by itself, whatever the number of rows; logsumexp does not."""
    return -scores.log_softmax(dim=-1).amax(dim=-1, keepdim=True)


def _column(values: Sequence[float], device: torch.device) -> Tensor:
    return torch.tensor(values, dtype=torch.float32, device=device).unsqueeze(1)
