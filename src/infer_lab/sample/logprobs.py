"""Log-probabilities for the caller: of the tokens that came, and of the likeliest ones there, by the logits as the model gave them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infer_lab.core.plan import TokenLogprobs


def token_logprobs(logits: Tensor, token_ids: Sequence[int], ks: Sequence[int]) -> list[TokenLogprobs]:
    """One entry a row of logits float32 [rows, vocab]: that of token_ids[i], with the ks[i] likeliest tokens of the row.

    rank counts the tokens that are strictly likelier, plus one. Equal ones stand in the order of their ids.
    """
    chosen = torch.tensor(token_ids, device=logits.device).unsqueeze(1)
    total = logits.logsumexp(dim=-1, keepdim=True)
    of_chosen = logits.gather(1, chosen)
    ranks = ((logits > of_chosen).sum(dim=-1) + 1).tolist()
    values, ids = logits.topk(max(ks), dim=-1)
    top_logprobs, top_ids = (values - total).tolist(), ids.tolist()
    rows = zip(token_ids, (of_chosen - total).squeeze(1).tolist(), ranks, ks, top_ids, top_logprobs, strict=True)
    return [
        TokenLogprobs(token, logprob, rank, tuple(sorted(zip(ids[:k], values[:k], strict=True), key=_likeliest)))
        for token, logprob, rank, k, ids, values in rows
    ]


def _likeliest(entry: tuple[int, float]) -> tuple[float, int]:
    return -entry[1], entry[0]
