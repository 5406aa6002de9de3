from __future__ import annotations

from collections.abc import Iterable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import make_rows

from infer_lab.sample import sampler
from infer_lab.sampling_params import SamplingParams

LOGITS = torch.tensor([2.0, 1.0, 0.5, 0.0, -0.5, -1.0, -2.0, -4.0])
DRAWS = 20_000


def sample(logits: torch.Tensor, params: list[SamplingParams], positions: Iterable[int]) -> torch.Tensor:
    return sampler.sample(logits, make_rows(params, positions, vocab_size=logits.shape[-1]))


def _frequencies(params: SamplingParams) -> torch.Tensor:
    """How often each token is drawn over many positions of one seeded stream."""
    tokens = sample(LOGITS.expand(DRAWS, -1).clone(), [params] * DRAWS, range(DRAWS))
    return torch.bincount(tokens, minlength=len(LOGITS)) / DRAWS


def _assert_close(found: torch.Tensor, expected: torch.Tensor) -> None:
    spread = (expected * (1 - expected) / DRAWS).sqrt()
    assert bool(((found - expected).abs() <= 4.5 * spread + 1e-9).all()), f"{found} against {expected}"


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    probability = LOGITS.softmax(-1)
    p = float(probability[:2].sum()) + 1e-3  # two tokens are just not enough: the third stays too
    expected = torch.zeros(8)
    expected[:3] = probability[:3] / probability[:3].sum()
    _assert_close(_frequencies(SamplingParams(temperature=1.0, top_p=p, seed=6)), expected)


def test_top_p_works_on_what_top_k_left() -> None:
    expected = torch.zeros(8)
    expected[:2] = LOGITS[:2].softmax(-1)  # of the three that top_k leaves, two hold 0.86 of the probability
    _assert_close(_frequencies(SamplingParams(temperature=1.0, top_k=3, top_p=0.8, seed=9)), expected)


def test_a_tiny_top_p_is_greedy() -> None:
    assert float(_frequencies(SamplingParams(temperature=3.0, top_p=1e-9, seed=1))[0]) == 1.0


def test_top_k_keeps_exactly_k_among_equals() -> None:
    params = [SamplingParams(temperature=1.0, top_k=2, seed=3)] * 500
    assert set(sample(torch.zeros(500, 6), params, range(500)).tolist()) == {0, 1}


@pytest.mark.parametrize("temperature", [1e-6, 1e-20, 1e-40, 5e-324])
def test_a_tiny_temperature_is_greedy_and_never_nan(temperature: float) -> None:
    torch.manual_seed(0)
    logits = torch.randn(64, 1000) * 20
    params = [SamplingParams(temperature=temperature, seed=i) for i in range(64)]
    assert torch.equal(sample(logits, params, [7] * 64), logits.argmax(-1))


def test_huge_logits_at_a_tiny_temperature_are_greedy() -> None:
    logits = torch.tensor([[1e10, 2e10, -3e38], [3e38, -3e38, 0.0]])
    assert sample(logits, [SamplingParams(temperature=1e-35, seed=1)] * 2, [0, 1]).tolist() == [1, 0]


def test_a_huge_temperature_is_uniform() -> None:
    _assert_close(_frequencies(SamplingParams(temperature=1e30, seed=2)), torch.full((8,), 1 / 8))


PARAMS = st.builds(
    SamplingParams,
    temperature=st.sampled_from([0.0, 1e-6, 0.7, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 3, 50, 10_000]),
    top_p=st.sampled_from([1e-6, 0.5, 0.95, 1.0]),
    seed=st.integers(0, 2**63 - 1),
)


@settings(max_examples=60, deadline=None)
@given(params=st.lists(PARAMS, min_size=1, max_size=6), seed=st.integers(0, 1000))
def test_a_row_gets_the_same_token_alone_and_in_any_company(params: list[SamplingParams], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(params), 203, generator=generator) * 3
    positions = [seed + 17 * i for i in range(len(params))]
    together = sample(logits, params, positions).tolist()
    alone = [int(sample(logits[i : i + 1], [params[i]], [positions[i]])) for i in range(len(params))]
    assert together == alone
    order = list(reversed(range(len(params))))
    shuffled = sample(logits[order], [params[i] for i in order], [positions[i] for i in order]).tolist()
    assert shuffled == together[::-1]


def test_greedy_takes_the_largest_logit_next_to_random_rows() -> None:
    torch.manual_seed(1)
    logits = torch.randn(4, 100)
    params = [SamplingParams(), SamplingParams(temperature=5.0, seed=1), SamplingParams(), SamplingParams(temperature=1.0, top_k=5, seed=2)]
    tokens = sample(logits, params, [0, 1, 2, 3])
    assert tokens[0] == logits[0].argmax() and tokens[2] == logits[2].argmax()


def test_the_logits_are_left_as_they_were() -> None:
    logits = torch.randn(2, 50)
    before = logits.clone()
    sample(logits, [SamplingParams(temperature=1.0, top_k=5, top_p=0.9, seed=1)] * 2, [0, 1])
    assert torch.equal(logits, before)
