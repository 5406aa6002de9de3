"""The rejection rule as a pure function: whatever q drafts, tokens come out with probability p."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from speculating import p_value
from torch import Tensor

from infer_lab.sample.sampler import draw
from infer_lab.spec.rejection import DRAFT_STREAM, accepts, residual, verify

VOCAB, DRAWS, DRAFTS = 6, 20_000, 3
P = [
    [0.40, 0.25, 0.15, 0.10, 0.07, 0.03],
    [0.05, 0.05, 0.30, 0.30, 0.20, 0.10],
    [0.00, 0.50, 0.00, 0.25, 0.25, 0.00],
    [0.90, 0.02, 0.02, 0.02, 0.02, 0.02],
]
DRAFTERS = {
    "like p": P[:DRAFTS],
    "flat": [[1 / VOCAB] * VOCAB] * DRAFTS,
    "the other way round": [row[::-1] for row in P[:DRAFTS]],
    "certain of a likely token": [[1.0, 0, 0, 0, 0, 0], [0, 0, 1.0, 0, 0, 0], [0, 1.0, 0, 0, 0, 0]],
    "certain of an impossible token": [[0, 0, 0, 0, 0, 1.0], [0, 1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0, 0]],
    "close": [[0.38, 0.27, 0.15, 0.10, 0.07, 0.03], [0.06, 0.04, 0.3, 0.3, 0.2, 0.1], [0.01, 0.49, 0, 0.25, 0.25, 0]],
}


def run(q: Sequence[Sequence[float]], draws: int = DRAWS) -> list[tuple[int, ...]]:
    """Many requests with seeds of their own, all with these q for their drafts and the rows of P."""
    seeds, positions = list(range(draws)), [40] * draws
    log_q, log_p = torch.tensor(q).log(), torch.tensor(P).log()
    drafts = torch.stack(
        [draw(log_q[j].expand(draws, -1), torch.tensor(seeds), torch.full((draws,), 40 + j), stream=DRAFT_STREAM) for j in range(DRAFTS)]
    ).T.tolist()
    return verify(log_p.repeat(draws, 1), log_q.repeat(draws, 1), [tuple(d) for d in drafts], seeds, positions)


@pytest.mark.parametrize("name", DRAFTERS)
def test_every_token_is_distributed_as_p_whatever_the_drafter(name: str) -> None:
    out = run(DRAFTERS[name])
    for position in range(DRAFTS + 1):
        there = torch.tensor([tokens[position] for tokens in out if len(tokens) > position])
        if len(there) > 500:
            # which tokens come first says nothing of this one, since P does not depend on them
            assert p_value(torch.bincount(there, minlength=VOCAB).tolist(), P[position]) > 1e-3, f"token {position} of {len(there)}"


@pytest.mark.parametrize("name", DRAFTERS)
def test_drafts_are_kept_as_often_as_p_and_q_overlap(name: str) -> None:
    out, q, expected = run(DRAFTERS[name]), DRAFTERS[name], 1.0
    for position in range(DRAFTS):
        expected *= sum(min(a, b) for a, b in zip(P[position], q[position], strict=True))
        kept = sum(len(tokens) > position + 1 for tokens in out) / DRAWS
        assert kept == pytest.approx(expected, abs=4 * (0.25 / DRAWS) ** 0.5)


def test_pairs_of_tokens_are_independent_draws() -> None:
    """Nothing that decided the first token decides the second."""
    out = [tokens for tokens in run(DRAFTERS["flat"], 60_000) if len(tokens) > 1]
    pairs = torch.bincount(torch.tensor([a * VOCAB + b for a, b, *_ in out]), minlength=VOCAB**2).tolist()
    # given that the first draft was kept, the first token is distributed as min(p, q)
    kept = [min(p, 1 / VOCAB) for p in P[0]]
    assert p_value(pairs, [a / sum(kept) * b for a in kept for b in P[1]]) > 1e-3


def test_the_test_would_notice_a_rule_that_draws_again_from_p() -> None:
    log_p, log_q = torch.tensor(P[0]).log(), torch.tensor(P[0][::-1]).log()
    seeds = torch.arange(DRAWS)
    where = torch.full((DRAWS,), 40)
    drafts = draw(log_q.expand(DRAWS, -1), seeds, where, stream=DRAFT_STREAM)
    uniform = torch.rand(DRAWS, generator=torch.Generator().manual_seed(1))
    kept = accepts(log_p.expand(DRAWS, -1), log_q.expand(DRAWS, -1), drafts, uniform)

    def p_value_of(scores: Tensor) -> float:
        tokens = torch.where(kept, drafts, draw(scores.expand(DRAWS, -1), seeds, where))
        return p_value(torch.bincount(tokens, minlength=VOCAB).tolist(), P[0])

    assert p_value_of(log_p) < 1e-6
    assert p_value_of(residual(log_p, log_q)) > 1e-3


def test_a_draft_that_p_cannot_say_is_never_kept_and_one_that_q_underrates_always() -> None:
    log_p, log_q = torch.tensor([[0.0, 0.9, 0.1]]).log(), torch.tensor([[0.5, 0.4, 0.1]]).log()
    low, high = torch.tensor([1e-9]), torch.tensor([1 - 2.0**-24])
    assert not accepts(log_p, log_q, torch.tensor([0]), low)
    assert accepts(log_p, log_q, torch.tensor([1]), high)
    assert accepts(log_p, log_q, torch.tensor([2]), high), "p equals q"


def test_the_residual_is_what_p_has_more_than_q() -> None:
    p, q = torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([[0.2, 0.5, 0.3]])
    assert residual(p.log(), q.log()).softmax(dim=-1).tolist() == [[1.0, 0.0, 0.0]]
    assert torch.equal(residual(p.log(), p.log()), p.log()), "nothing left: p itself, never a row without a token"


def test_requests_do_not_depend_on_each_other() -> None:
    log_p, log_q = torch.tensor(P).log(), torch.tensor(DRAFTERS["flat"]).log()
    drafts, seeds, positions = [(0, 3, 1), (5,), (2, 2)], [3, 4, 5], [9, 30, 2]
    together = verify(torch.cat([log_p, log_p[:2], log_p[:3]]), torch.cat([log_q, log_q[:1], log_q[:2]]), drafts, seeds, positions)
    for i, d in enumerate(drafts):
        n = len(d)
        assert verify(log_p[: n + 1], log_q[:n], [d], seeds[i : i + 1], positions[i : i + 1]) == together[i : i + 1]
