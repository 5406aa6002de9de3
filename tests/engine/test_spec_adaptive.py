"""How many drafts a request gets follows from what became of those before."""

from __future__ import annotations

import random

import pytest

from infer_lab.calculator import speculative_speedup
from infer_lab.spec.adaptive import DraftLength, DraftLengths

CHEAP = DraftLengths(8, draft_cost=0.0, verify_token_cost=0.1)


def run(length: DraftLength, chances: list[float], seed: int = 1) -> list[int]:
    """Lengths asked for while drafts are accepted with these chances, one a step."""
    r, asked = random.Random(seed), []
    for chance in chances:
        count = length.next()
        asked.append(count)
        accepted = 0
        while accepted < count and r.random() < chance:
            accepted += 1
        if count:
            length.observe(count, accepted)
    return asked


@pytest.mark.parametrize("acceptance", [0.0, 0.05, 0.3, 0.5, 0.75, 0.9, 0.99, 1.0])
def test_the_best_length_has_the_largest_expected_speedup(acceptance: float) -> None:
    for lengths, cost in ((CHEAP, 0.0), (DraftLengths(8, 0.3, 0.1), 0.3)):
        best = lengths.best(acceptance)
        values = [speculative_speedup(acceptance, k, cost, 1 + 0.1 * k).base for k in range(9)]
        assert values[best] == max(values) >= 1 and best == values.index(max(values))


def test_a_better_rate_never_wants_fewer_drafts() -> None:
    lengths = [CHEAP.best(i / 100) for i in range(101)]
    assert lengths == sorted(lengths) and lengths[0] == 0 and lengths[-1] == 8


def test_a_request_whose_drafts_all_fail_is_only_probed_now_and_then() -> None:
    asked = run(DraftLength(CHEAP), [0.0] * 200)
    assert asked[0] > 0, "it gets its chance"
    assert sum(asked[20:]) <= 180 / 16 + 1 and set(asked[20:]) == {0, 1}


def test_a_probe_that_found_nothing_to_draft_is_tried_again_at_once() -> None:
    length = DraftLength(CHEAP)
    for _ in range(40):
        length.observe(1, 0)
    asked = [length.next() for _ in range(40)]
    assert asked == [0] * 15 + [1] * 25, "no draft was verified, so there is no news of the text"
    length.observe(1, 1)
    assert [length.next() for _ in range(16)] == [0] * 15 + [1]


def test_a_request_whose_drafts_all_hold_gets_all_that_there_are() -> None:
    assert set(run(DraftLength(CHEAP), [1.0] * 50)[10:]) == {8}


def test_a_text_that_changes_is_noticed_both_ways() -> None:
    asked = run(DraftLength(CHEAP), [0.0] * 60 + [1.0] * 200 + [0.0] * 60)
    assert max(asked[30:60]) <= 1 and asked[250] == 8 and max(asked[-20:]) <= 1


def test_the_estimate_comes_near_the_true_rate() -> None:
    for rate in (0.6, 0.8, 0.9):
        estimates = []
        length = DraftLength(DraftLengths(4, 0.0, 0.0))  # free drafts: always four
        for seed in range(200):
            run(length, [rate] * 5, seed)
            estimates.append(length.acceptance)
        assert sum(estimates) / len(estimates) == pytest.approx(rate, abs=0.04)


def test_drafts_after_the_first_rejected_one_say_nothing() -> None:
    one, many = DraftLength(CHEAP), DraftLength(CHEAP)
    one.observe(1, 0)
    many.observe(8, 0)
    assert one.acceptance == many.acceptance
