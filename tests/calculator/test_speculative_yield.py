from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infer_lab import calculator as c
from infer_lab import hardware as hw
from infer_lab.errors import NotApplicableError, UserError
from infer_lab.presets import preset

shares, drafts = st.floats(0, 1), st.integers(0, 16)


@pytest.mark.parametrize(
    ("acceptance", "k", "tokens"), [(0.8, 4, 3.3616), (0.85, 1, 1.85), (0.9, 1, 1.9), (0, 5, 1), (1, 5, 6), (0.5, 3, 1.875)]
)
def test_yield_by_hand(acceptance: float, k: int, tokens: float) -> None:
    """0.85 and 0.9 at one drafted token are the figures of DeepSeek-V3's report: 1.85 to 1.9 tokens a step."""
    assert c.speculative_yield(acceptance, k).value == pytest.approx(tokens)


@pytest.mark.parametrize(("acceptance", "k"), [(0.3, 2), (0.8, 4), (0.95, 8)])
def test_yield_equals_coins_thrown(acceptance: float, k: int) -> None:
    rng, rounds, total = random.Random(3), 20_000, 0
    for _ in range(rounds):
        taken = 0
        while taken < k and rng.random() < acceptance:
            taken += 1
        total += taken + 1
    assert total / rounds == pytest.approx(c.speculative_yield(acceptance, k).value, rel=0.02)


@given(shares, drafts)
def test_a_step_yields_one_token_to_all_of_them_and_more_with_better_drafts(acceptance: float, k: int) -> None:
    tokens = c.speculative_yield(acceptance, k).value
    assert 1 <= tokens <= k + 1 + 1e-9
    assert c.speculative_yield(acceptance, k + 1).value >= tokens


def test_speed_up_by_hand() -> None:
    """3.3616 tokens for 4 · 0.05 + 1.1 plain steps."""
    assert c.speculative_speedup(0.8, 4, 0.05, 1.1).value == pytest.approx(3.3616 / 1.3)


@given(st.integers(1, 12), st.floats(0, 0.5), st.floats(1, 3))
def test_at_the_break_even_acceptance_nothing_is_won_or_lost(k: int, draft: float, verify: float) -> None:
    if k * draft + verify >= k + 1:
        with pytest.raises(NotApplicableError, match="no acceptance"):
            c.break_even_acceptance(k, draft, verify)
        return
    at = c.break_even_acceptance(k, draft, verify)
    assert c.speculative_speedup(at, k, draft, verify).value == pytest.approx(1, abs=1e-9)


@given(shares, st.floats(0, 0.5), st.floats(1, 2))
def test_the_best_draft_length_beats_its_neighbours(acceptance: float, draft: float, verify: float) -> None:
    best = int(c.best_draft_tokens(acceptance, draft, verify))
    near = [k for k in (best - 1, best, best + 1) if 0 <= k <= 16]
    speeds = {k: c.speculative_speedup(acceptance, k, draft, verify).value if k else 1.0 for k in near}
    assert speeds[best] >= max(speeds.values()) - 1e-9


def test_verifying_is_free_at_batch_1_and_dear_beyond_the_ridge() -> None:
    llama = preset("llama-3-8b")
    assert c.verify_cost(hw.h100_80gb, llama, 1, 1000, 4).value == pytest.approx(1, abs=1e-6)
    assert c.verify_cost(hw.h100_80gb, llama, 2000, 100, 4).value == pytest.approx(5, rel=1e-6)


def test_verifying_is_not_free_for_a_mixture_of_experts_even_at_batch_1() -> None:
    """Five tokens are sent to more experts than one."""
    assert c.verify_cost(hw.h100_80gb, preset("mixtral-8x7b"), 1, 1000, 4).value > 2


@pytest.mark.parametrize("bad", [-0.1, 1.1, float("nan")])
def test_acceptance_is_a_share(bad: float) -> None:
    with pytest.raises(UserError, match="acceptance is a share"):
        c.speculative_yield(bad, 3)
