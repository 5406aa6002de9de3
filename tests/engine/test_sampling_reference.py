"""Each option, alone and in mixed batches, beside a slow implementation in plain Python; and its distribution by chi-square.

All draws are Philox numbers of fixed seeds: what passes once passes always."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from rows import make_rows
from slow_sampling import slow_distribution, slow_logits

from infer_lab.sample import filters
from infer_lab.sample.logits import process_logits
from infer_lab.sample.row_state import SampleRows
from infer_lab.sample.sampler import sample, target_distribution
from infer_lab.sampling_params import SamplingParams

VOCAB = 12
STOPS = (3, 11)
TOKENS = st.integers(0, VOCAB - 1)
PARAMS = st.builds(
    SamplingParams,
    max_tokens=st.just(64),
    temperature=st.sampled_from([0.0, 1e-30, 1e-6, 0.3, 1.0, 2.5, 1e30]),
    top_k=st.sampled_from([-1, 0, 1, 2, 5, VOCAB, 1000]),
    top_p=st.sampled_from([1e-9, 0.3, 0.77, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.0, 1e-3, 0.1, 0.6, 1.0]),
    seed=st.integers(0, 2**63 - 1),
    repetition_penalty=st.sampled_from([1.0, 1.0, 0.5, 1.3, 100.0]),
    frequency_penalty=st.sampled_from([0.0, 0.0, -2.0, 0.4, 2.0]),
    presence_penalty=st.sampled_from([0.0, 0.0, -1.5, 0.7]),
    logit_bias=st.dictionaries(TOKENS, st.sampled_from([-100.0, -1.5, 0.25, 100.0]), max_size=3),
    allowed_token_ids=st.none() | st.lists(TOKENS, min_size=1, max_size=6).map(lambda ids: [*ids, 0]),
    banned_token_ids=st.lists(st.integers(1, VOCAB - 1), max_size=4),
    min_tokens=st.sampled_from([0, 0, 1, 3, 40]),
)
LOGITS = st.lists(st.sampled_from([-8.0, -1.0, 0.0, 0.5, 2.0, 2.0, 30.0]) | st.floats(-20, 20, width=32), min_size=VOCAB, max_size=VOCAB)
HISTORY = st.lists(TOKENS, max_size=8)
ROW = st.tuples(LOGITS, PARAMS, HISTORY, HISTORY, HISTORY)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(rows=st.lists(ROW, min_size=1, max_size=5))
def test_masks_bias_and_penalties_are_those_of_plain_python_to_the_last_bit(rows: list[tuple]) -> None:
    table = torch.tensor([logits for logits, *_ in rows], dtype=torch.float32)
    before = table.clone()
    found = process_logits(table, _rows(rows))
    for i, (logits, params, prompt, output, drafts) in enumerate(rows):
        assert found[i].tolist() == [float(x) for x in slow_logits(logits, params, prompt, [*output, *drafts], STOPS)]
    assert torch.equal(table, before), "the model's logits are left as they were"


@settings(max_examples=80, deadline=None, derandomize=True)
@given(rows=st.lists(ROW, min_size=1, max_size=5))
def test_the_target_distribution_is_that_of_plain_python_for_every_row_of_a_mixed_batch(rows: list[tuple]) -> None:
    expected = []
    for logits, params, prompt, output, drafts in rows:
        probabilities, near = slow_distribution(slow_logits(logits, params, prompt, [*output, *drafts], STOPS), params)
        assume(near > 1e-5)
        expected.append(probabilities)
    table = torch.tensor([logits for logits, *_ in rows], dtype=torch.float32)
    found = target_distribution(table, _rows(rows)).double().exp()
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64), atol=2e-5, rtol=2e-4)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(rows=st.lists(ROW, min_size=2, max_size=6), data=st.data())
def test_a_row_has_the_same_token_and_distribution_in_any_company_and_order(rows: list[tuple], data: st.DataObject) -> None:
    table = torch.tensor([logits for logits, *_ in rows], dtype=torch.float32)
    together, spread = sample(table, _rows(rows)), target_distribution(table, _rows(rows))
    order = data.draw(st.permutations(range(len(rows))))
    some = order[: data.draw(st.integers(1, len(rows)))]
    asked = _rows(rows).select(some)
    assert sample(table[some], asked).tolist() == together[some].tolist()
    assert torch.equal(target_distribution(table[some], asked), spread[some])
    for i, token in enumerate(together.tolist()):
        assert spread[i, token] > -math.inf, "what is sampled has a probability"


def _rows(rows: list[tuple]) -> SampleRows:
    _, params, prompts, outputs, drafts = zip(*rows, strict=True)
    return make_rows(params, range(7, 7 + len(rows)), vocab_size=VOCAB, prompts=prompts, outputs=outputs, drafts=drafts, stops=STOPS)


# -- large vocabularies: the likeliest tokens are taken out first, and a row is sorted whole only when they are not enough

LARGE = 3000
SHAPES = {
    "peaked": lambda g: torch.randn(LARGE, generator=g) * 4,
    "flat": lambda g: torch.randn(LARGE, generator=g) * 0.01,
    "equal": lambda g: torch.zeros(LARGE),
    "few values": lambda g: torch.randint(0, 4, (LARGE,), generator=g).float(),
    "one": lambda g: torch.zeros(LARGE).index_fill_(0, torch.tensor([17]), 90.0),
    "mostly masked": lambda g: torch.full((LARGE,), -math.inf).index_fill_(0, torch.arange(5, 900, 90), 1.0),
}
FILTERS = [
    SamplingParams(temperature=1.0, seed=1, **options)
    for options in (
        {"top_k": 1}, {"top_k": 40}, {"top_k": 1024}, {"top_k": 1025}, {"top_k": 2999}, {"top_p": 0.5}, {"top_p": 0.999}, {"top_p": 1e-9},
        {"min_p": 0.2}, {"min_p": 1e-4}, {"min_p": 1.0}, {"min_p": 0.01, "top_k": 700, "top_p": 0.9}, {"top_k": 2000, "top_p": 0.3},
    )
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_filter_leaves_does_not_depend_on_whether_the_whole_row_was_sorted(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = torch.stack([SHAPES[shape](torch.Generator().manual_seed(i)) for i in range(len(FILTERS))])
    rows = make_rows(FILTERS, range(len(FILTERS)), vocab_size=LARGE)
    found, tokens = target_distribution(scores, rows), sample(scores, rows)
    monkeypatch.setattr(filters, "_FIRST", LARGE)
    whole = target_distribution(scores, rows)
    assert torch.equal(found > -math.inf, whole > -math.inf)
    torch.testing.assert_close(found, whole, atol=1e-5, rtol=1e-5)
    assert torch.equal(tokens, sample(scores, rows))


@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_row_draws_alone_what_it_draws_beside_rows_that_must_be_sorted_whole(shape: str) -> None:
    scores = torch.stack([SHAPES[shape](torch.Generator().manual_seed(i)) for i in range(len(FILTERS))])
    rows = make_rows(FILTERS, range(len(FILTERS)), vocab_size=LARGE)
    together, spread = sample(scores, rows).tolist(), target_distribution(scores, rows)
    for i in range(len(FILTERS)):
        assert sample(scores[i : i + 1], rows.select([i])).tolist() == together[i : i + 1]
        assert torch.equal(target_distribution(scores[i : i + 1], rows.select([i]))[0], spread[i])


# -- distributions

DRAWS = 20_000
SPREAD = [1.5, -0.25, 0.75, 0.0, 1.0, -1.0, 0.5, -2.0, 0.25, -0.5, 1.25, -1.5]
PROMPT, OUTPUT = [0, 0, 4, 7], [4, 10, 10, 10, 1]
OPTIONS = {
    "temperature": {},
    "low temperature": {"temperature": 0.25},
    "high temperature": {"temperature": 7.0},
    "tiny temperature": {"temperature": 1e-6},
    "top_k": {"top_k": 4},
    "top_p": {"top_p": 0.71},
    "min_p": {"min_p": 0.22},
    "min_p, top_k, top_p": {"min_p": 0.1, "top_k": 6, "top_p": 0.8, "temperature": 1.5},
    "repetition_penalty": {"repetition_penalty": 1.8},
    "repetition_penalty below 1": {"repetition_penalty": 0.7},
    "frequency_penalty": {"frequency_penalty": 0.6},
    "frequency_penalty below 0": {"frequency_penalty": -0.4},
    "presence_penalty": {"presence_penalty": 1.1},
    "all penalties": {"repetition_penalty": 1.2, "frequency_penalty": 0.3, "presence_penalty": 0.5},
    "logit_bias": {"logit_bias": {0: -2.0, 7: 2.5, 3: 0.5}},
    "allowed_token_ids": {"allowed_token_ids": [1, 2, 5, 8]},
    "banned_token_ids": {"banned_token_ids": [0, 10, 4]},
    "min_tokens": {"min_tokens": 20, "stop_token_ids": [0, 2]},
    "everything": {
        "temperature": 1.3, "top_k": 7, "top_p": 0.9, "min_p": 0.02, "repetition_penalty": 1.1, "frequency_penalty": 0.2,
        "presence_penalty": 0.1, "logit_bias": {5: 1.5}, "banned_token_ids": [0], "min_tokens": 9, "stop_token_ids": [2],
    },
}  # fmt: skip


def _p_value(counts: list[int], probabilities: list[float]) -> float:
    """Of Pearson's chi-square. Cells of probability 0 must be empty."""
    assert all(count == 0 for count, p in zip(counts, probabilities, strict=True) if p == 0), "a token that cannot be drawn was drawn"
    cells = [(count, sum(counts) * p) for count, p in zip(counts, probabilities, strict=True) if p > 0]
    if len(cells) == 1:
        return 1.0
    statistic = sum((count - expected) ** 2 / expected for count, expected in cells)
    return float(torch.special.gammaincc(torch.tensor((len(cells) - 1) / 2), torch.tensor(statistic / 2)))


@pytest.mark.parametrize("name", OPTIONS)
def test_tokens_are_drawn_with_the_analytic_probability_under(name: str) -> None:
    params = SamplingParams(**{"temperature": 1.0, "seed": 2026, "max_tokens": 64} | OPTIONS[name])  # type: ignore[arg-type]
    probabilities, near = slow_distribution(slow_logits(SPREAD, params, PROMPT, OUTPUT, params.stop_token_ids), params)
    assert near > 1e-3
    one = make_rows([params], [0], vocab_size=VOCAB, prompts=[PROMPT], outputs=[OUTPUT])
    rows = SampleRows(list(one.states) * DRAWS, [()] * DRAWS, range(DRAWS), one.counts)
    tokens = sample(torch.tensor(SPREAD).expand(DRAWS, -1), rows)
    assert _p_value(torch.bincount(tokens, minlength=VOCAB).tolist(), probabilities) > 1e-3


@pytest.mark.parametrize("name", OPTIONS)
def test_different_seeds_are_as_good_as_different_positions_under(name: str) -> None:
    params = SamplingParams(**{"temperature": 1.0, "seed": 0, "max_tokens": 64} | OPTIONS[name])  # type: ignore[arg-type]
    probabilities, _ = slow_distribution(slow_logits(SPREAD, params, PROMPT, OUTPUT, params.stop_token_ids), params)
    draws = 5000
    one = make_rows([params], [0], vocab_size=VOCAB, prompts=[PROMPT], outputs=[OUTPUT])
    states = [replace(one.states[0], params=replace(params, seed=seed)) for seed in range(draws)]
    tokens = sample(torch.tensor(SPREAD).expand(draws, -1), SampleRows(states, [()] * draws, [9] * draws, one.counts))
    assert _p_value(torch.bincount(tokens, minlength=VOCAB).tolist(), probabilities) > 1e-3


def test_chi_square_notices_a_distribution_that_is_two_percent_off() -> None:
    params = SamplingParams(temperature=1.02, seed=2026)
    one = make_rows([params], [0], vocab_size=VOCAB)
    rows = SampleRows(list(one.states) * DRAWS * 6, [()] * DRAWS * 6, range(DRAWS * 6), one.counts)
    tokens = sample(torch.tensor(SPREAD).expand(DRAWS * 6, -1), rows)
    right, _ = slow_distribution(SPREAD, params)
    wrong, _ = slow_distribution(SPREAD, replace(params, temperature=1.0))
    counts = torch.bincount(tokens, minlength=VOCAB).tolist()
    assert _p_value(counts, right) > 1e-3 > _p_value(counts, wrong)
