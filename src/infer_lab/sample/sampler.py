"""From logits to tokens: greedy, or drawn at a temperature from the top-k / top-p tokens; every row by its own parameters.

A draw is an exponential race: token t gets an exponential waiting time E_t, and the smallest E_t / p_t wins, which happens with probability
p_t (the Gumbel-max trick in other words). Unlike walking along a cumulative sum, the last bit of a logit moves nobody else's chance, so a
seeded request gives the same tokens alone and batched unless two candidates are all but tied. E_t comes from (seed, position, t) alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infer_lab.sample.philox import uniforms
from infer_lab.sampling_params import SamplingParams

# Below it float32 would divide by a number that is not normal. Logits differ by 1e-7 at least or not at all, so this is greedy already.
_MIN_TEMPERATURE = 1e-30


def sample(logits: Tensor, params: Sequence[SamplingParams], positions: Sequence[int]) -> Tensor:
    """Token ids [rows] on the CPU. logits: float32 [rows, vocab]. positions: where each row's new token will stand in its sequence."""
    tokens = logits.argmax(dim=-1)
    drawn = [i for i, p in enumerate(params) if p.temperature > 0]
    if drawn:
        rows = torch.tensor(drawn, device=logits.device)
        tokens[rows] = _draw(logits[rows], [params[i] for i in drawn], [positions[i] for i in drawn])
    return tokens.cpu()


def _draw(logits: Tensor, params: Sequence[SamplingParams], positions: Sequence[int]) -> Tensor:
    device, vocab = logits.device, logits.shape[-1]
    temperature = torch.tensor([max(p.temperature, _MIN_TEMPERATURE) for p in params], dtype=torch.float32, device=device)
    # the largest becomes exactly 0 before the division: a tiny temperature gives -inf for the others and never inf - inf
    scores = (logits - logits.amax(dim=-1, keepdim=True)) / temperature.unsqueeze(1)
    if any(0 < p.top_k < vocab or p.top_p < 1 for p in params):
        scores = _keep_top(scores, params)
    assert all(p.seed is not None for p in params), "a request that samples has its seed by now"
    seeds = torch.tensor([p.seed for p in params], device=device)
    uniform = uniforms(seeds, torch.tensor(list(positions), device=device), vocab)
    # argmin E / p  =  argmax log p - log E,  E = -log(1 - u)
    return (scores - torch.log(-torch.log1p(-uniform))).argmax(dim=-1)


def _keep_top(scores: Tensor, params: Sequence[SamplingParams]) -> Tensor:
    """-inf for every token outside the row's top k, and outside the smallest set of the remaining whose probability reaches top_p.

    Exactly k tokens stay even among equals (the lower id first); the likeliest token always stays.
    """
    vocab = scores.shape[-1]
    k = torch.tensor([min(p.top_k or vocab, vocab) for p in params], device=scores.device)
    p = torch.tensor([p.top_p for p in params], dtype=torch.float32, device=scores.device)
    ordered, order = scores.sort(dim=-1, descending=True, stable=True)
    ordered = ordered.masked_fill(torch.arange(vocab, device=scores.device) >= k.unsqueeze(1), float("-inf"))
    probability = ordered.softmax(dim=-1)
    before = probability.cumsum(dim=-1) - probability
    outside = (before >= p.unsqueeze(1)) & (p < 1).unsqueeze(1)
    outside[:, 0] = False  # a top_p that is 0 in float32
    ordered = ordered.masked_fill(outside, float("-inf"))
    return torch.full_like(scores, float("-inf")).scatter_(1, order, ordered)
