"""The rejection rule: drafts drawn from q, verified so that the tokens are distributed as if they had been drawn from p.

    accept draft x with probability min(1, p(x) / q(x));
    at the first rejection draw from the residual, max(p − q, 0) scaled to 1;  if all were accepted, draw one more from p.

Why it is right: x comes out with q(x) · min(1, p(x) / q(x)) + P(rejected) · residual(x) = min(p, q)(x) + max(p − q, 0)(x) = p(x).
Accepted with probability 1 − (total variation between p and q), the most that any rule can. (Leviathan, Kalman, Matias 2023, arXiv
2211.17192; Chen et al. 2023, arXiv 2302.01318.)

Where q is one-hot (an n-gram, a greedy drafter) this is the same, in distribution, as drawing from p and keeping the draft if it is what
was drawn; the executor does that then, since it takes no q, and gives exactly the tokens that come without speculation.

Random numbers are by counter (infer_lab.sample.philox), each purpose from a stream of its own, so none of them is used twice:
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from infer_lab.sample.philox import uniforms
from infer_lab.sample.sampler import draw

DRAFT_STREAM = 1  # the drafter's draws; stream 0 is for tokens drawn from p and from the residual
ACCEPT_STREAM = 2  # accepted or not


def accepts(log_p: Tensor, log_q: Tensor, drafts: Tensor, uniform: Tensor) -> Tensor:
    """bool [rows]: is drafts[i], drawn from q, kept? log_p, log_q: float32 [rows, vocab]; drafts: int64; uniform: [rows] in (0, 1)."""
    at = drafts.unsqueeze(1)
    return uniform < (log_p.gather(1, at) - log_q.gather(1, at)).squeeze(1).exp()


def residual(log_p: Tensor, log_q: Tensor) -> Tensor:
    """Unnormalized log-probabilities float32 [rows, vocab] of max(p − q, 0). Where nothing is left (p equals q, and the rejection came from
    rounding) p itself."""
    rest = (log_p.exp() - log_q.exp()).clamp_(min=0)
    return torch.where(rest.sum(dim=-1, keepdim=True) > 0, rest.log(), log_p)


def verify(
    log_p: Tensor, log_q: Tensor, drafts: Sequence[tuple[int, ...]], seeds: Sequence[int], positions: Sequence[int]
) -> list[tuple[int, ...]]:
    """The tokens of each request: the drafts that it keeps, and one more.

    drafts[i]: at least one for each request, with len(drafts[i]) rows of log_q [drafts, vocab] and one more of log_p [drafts + requests,
    vocab], one request after the other. seeds[i]: the request's; positions[i]: where its first draft stands.
    """
    device = log_p.device
    counts = [len(d) for d in drafts]
    flat = torch.tensor([token for d in drafts for token in d], device=device)
    of_p = torch.tensor(
        [row for row, last in enumerate(j == count for count in counts for j in range(count + 1)) if not last], device=device
    )
    places = torch.tensor([positions[i] + j for i, count in enumerate(counts) for j in range(count)], device=device)
    keys = torch.tensor([seeds[i] for i, count in enumerate(counts) for _ in range(count)], device=device)
    uniform = uniforms(keys, places, 1, ACCEPT_STREAM).squeeze(1)
    kept = accepts(log_p[of_p], log_q, flat, uniform).tolist()

    num_kept, last_p, rejected, last_q = [], [], [], []
    at = 0
    for i, count in enumerate(counts):
        own = kept[at : at + count]
        num_kept.append(own.index(False) if False in own else count)
        last_p.append(at + i + num_kept[i])  # each request before this one has a row of p more than of q
        if num_kept[i] < count:
            rejected.append(i)
            last_q.append(at + num_kept[i])
        at += count
    scores = log_p[torch.tensor(last_p, device=device)]
    if rejected:
        index = torch.tensor(rejected, device=device)
        scores[index] = residual(scores[index], log_q[torch.tensor(last_q, device=device)])
    places = torch.tensor([position + n for position, n in zip(positions, num_kept, strict=True)], device=device)
    drawn = draw(scores, torch.tensor(list(seeds), device=device), places).tolist()
    return [(*d[:n], token) for d, n, token in zip(drafts, num_kept, drawn, strict=True)]
