"""The sampler keeps what a sort would keep and draws what the request's own random number says. tests/gpu runs the same tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_lab.errors import UserError
from infer_lab.kernels import reference
from infer_lab.kernels._common import LOG2_E
from infer_lab.kernels.sampling import CAPACITY, SamplingBatch, SamplingWorkspace, TokenCounts, chunk_size, sample

FEW = settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
Options = tuple[float, int, float, float]  # temperature, top_k, top_p, min_p


def run(device: torch.device, logits: torch.Tensor, options: list[Options], seeds: list[int], positions: list[int]):
    """(tokens, thresholds)"""
    temperatures, ks, ps, ms = (list(c) for c in zip(*options, strict=True))
    batch = SamplingBatch.build(device, temperatures, seeds, ks, ps, ms)
    workspace = SamplingWorkspace.allocate(*logits.shape, device)
    tokens = sample(logits.to(device), batch, torch.tensor(positions, device=device), workspace=workspace)
    assert not workspace.arrived.any()
    return tokens.tolist(), workspace.thresholds.cpu()


def check_row(row: torch.Tensor, threshold: float, token: int, options: Options, seed: int, position: int) -> None:
    """The kept set is a sort's, up to the mass that float32 sums may misplace, and the token is where the draw falls."""
    temperature, k, p, m = options
    row = row.float().double().cpu()
    kept = row / temperature >= threshold - 1e-6 * abs(threshold)
    loose = reference.kept_weights(row, temperature, k, min(1.0, p * (1 + 1e-5)), m * (1 - 1e-5)) > 0
    tight = reference.kept_weights(row, temperature, k, p * (1 - 1e-5), min(1.0, m * (1 + 1e-5))) > 0
    assert bool((kept <= loose).all()) and bool((tight <= kept).all())
    weights = torch.softmax(row / temperature, -1) * kept
    running = (weights / weights.sum()).cumsum(0)
    u = reference.uniform(seed, position)
    assert bool(kept[token])
    assert float(running[token]) >= u - 1e-5
    assert token == 0 or float(running[token - 1]) <= u + 1e-5


@FEW
@given(
    vocab=st.sampled_from([50, 1000, 8192, 9000]),
    spread=st.sampled_from([0.0, 0.1, 1.0, 5.0]),
    coarse=st.booleans(),
    options=st.lists(
        st.tuples(
            st.sampled_from([0.3, 1.0, 2.0]),
            st.sampled_from([0, 1, 7, 40, 3000, 10**6]),
            st.sampled_from([1.0, 0.999, 0.9, 0.5, 1e-3]),
            st.sampled_from([0.0, 0.0, 0.05, 1.0]),
        ),
        min_size=1,
        max_size=3,
    ),
    seed=st.integers(0, 2**63 - 1),
)
def test_keeps_what_a_sort_keeps_and_draws_by_the_row_s_own_number(device, vocab, spread, coarse, options, seed):
    g = torch.Generator().manual_seed(seed % 1000)
    logits = torch.randn(len(options), vocab, generator=g) * spread
    if coarse:  # as a bfloat16 model gives them: many equal scores
        logits = logits.to(torch.bfloat16).float()
    seeds, positions = [seed] * len(options), list(range(len(options)))
    tokens, thresholds = run(device, logits, options, seeds, positions)
    for i, choice in enumerate(options):
        check_row(logits[i], float(thresholds[i]), tokens[i], choice, seeds[i], positions[i])


@pytest.mark.parametrize("spread", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("options", [(1.0, 0, p, 0.0) for p in (0.3, 0.9, 0.99)] + [(1.0, 50, 1.0, 0.0), (1.0, 2000, 0.9, 0.0)])
def test_ordinary_rows_end_in_a_bracket_that_fits_so_that_no_program_reads_the_row_again(device, options, spread):
    """A bracket that overflows is right too, but its bisection over the whole row takes milliseconds."""
    logits = torch.randn(1, 32768, generator=torch.Generator().manual_seed(1)) * spread
    temperature, k, p, m = options
    batch = SamplingBatch.build(device, [temperature], [3], [k], [p], [m])
    workspace = SamplingWorkspace.allocate(*logits.shape, device)
    sample(logits.to(device), batch, torch.zeros(1, dtype=torch.int64, device=device), workspace=workspace)
    scores = logits * LOG2_E / temperature
    high, low = workspace.floats[0, 3].item(), workspace.floats[0, 4].item()
    chunk = chunk_size(logits.shape[1], workspace.config)
    inside = ((scores < high) & (scores >= low)).view(-1, chunk).sum(-1)
    assert 0 < inside.max() <= workspace.found.shape[-1]


def test_more_equal_scores_than_the_last_bracket_holds_are_kept_or_dropped_together(device):
    """1,500 tokens share the score at which top-k and top-p end: the search reads the row again instead of collecting them."""
    logits = torch.full((3, 2000), 1.0)
    logits[:, :500] = 1.0 + 1e-4  # one bracket holds both values
    logits[:, 7] = 3.0
    assert CAPACITY < 500
    options = [(1.0, 600, 1.0, 0.0), (1.0, 400, 1.0, 0.0), (1.0, 1000, 0.9, 0.0)]
    tokens, thresholds = run(device, logits, options, [1, 2, 3], [0, 0, 0])
    for i, choice in enumerate(options):
        check_row(logits[i], float(thresholds[i]), tokens[i], choice, i + 1, 0)
    assert int((logits[0] >= thresholds[0]).sum()) == 2000
    assert int((logits[1] >= thresholds[1]).sum()) == 500


def test_casebook_15_greedy_tiny_and_ordinary_temperatures_share_a_batch(device):
    logits = torch.randn(4, 3000, generator=torch.Generator().manual_seed(0)) * 4
    logits[0, [5, 9]] = 50.0  # equal best scores: the lowest id
    options = [(0.0, 0, 1.0, 0.0), (1e-6, 3, 0.5, 0.0), (1e-4, 0, 0.9, 0.0), (1.0, 0, 1.0, 0.0)]
    tokens, thresholds = run(device, logits, options, [1, 2, 3, 4], [0] * 4)
    assert tokens[0] == 5
    assert tokens[1:3] == logits[1:3].argmax(-1).tolist()
    check_row(logits[3], float(thresholds[3]), tokens[3], options[3], 4, 0)


def test_masked_nan_and_infinite_logits_have_a_defined_answer(device):
    logits = torch.full((5, 1000), float("-inf"))
    logits[1, 700] = -5.0  # a grammar that leaves one token
    logits[2, :] = float("nan")
    logits[2, 3] = 1.0
    logits[3, 10], logits[3, 20] = 2.0, float("inf")
    tokens, _ = run(
        device,
        logits,
        [(1.0, 5, 0.9, 0.0), (1.0, 5, 0.9, 0.0), (1.0, 0, 0.9, 0.0), (1.0, 0, 1.0, 0.0), (0.0, 0, 1.0, 0.0)],
        [1] * 5,
        [0] * 5,
    )
    assert tokens == [-1, 700, 3, 20, -1]


def test_a_row_draws_the_same_token_alone_in_a_batch_and_again(device, dtype):
    logits = torch.randn(3, 9000, generator=torch.Generator().manual_seed(1)).to(dtype)
    options: list[Options] = [(1.0, 0, 0.9, 0.0), (0.8, 20, 0.95, 0.0), (1.3, 0, 1.0, 0.0)]
    together, _ = run(device, logits, options, [7, 8, 9], [4, 5, 6])
    again, _ = run(device, logits, options, [7, 8, 9], [4, 5, 6])
    alone, _ = run(device, logits[1:2], options[1:2], [8], [5])
    assert together == again and together[1] == alone[0]


def test_casebook_16_penalties_count_output_apart_from_prompt_and_follow_the_slot(device):
    vocab = 600
    logits = torch.randn(2, vocab, generator=torch.Generator().manual_seed(2)) * 3
    output = torch.zeros(4, vocab, dtype=torch.int32)
    prompt = torch.zeros(4, vocab, dtype=torch.bool)
    output[:, ::3], prompt[:, 1::3] = 9, True  # other slots: must not be looked at
    for slot, row in ((2, 0), (0, 1)):
        output[slot], prompt[slot] = 0, False
        best = logits[row].topk(6).indices
        output[slot, best[:2]], prompt[slot, best[2:4]] = 2, True
    slots = torch.tensor([2, 0], dtype=torch.int32)
    rep, freq, pres = [1.3, 1.0], [0.0, 0.5], [0.0, 40.0]
    batch = SamplingBatch.build(device, [0.0, 0.0], [1, 2], repetition=rep, frequency=freq, presence=pres)
    counts = TokenCounts(output.to(device), prompt.to(device), slots.to(device))
    tokens = sample(logits.to(device), batch, torch.zeros(2, dtype=torch.int64, device=device), counts)
    for i in range(2):
        s = int(slots[i])
        want = reference.penalized(logits[i].double(), output[s], prompt[s], rep[i], freq[i], pres[i])
        assert int(tokens[i]) == int(want.argmax())
    assert int(tokens[1]) == int(logits[1].topk(3).indices[2])  # a prompt token is not an output token
    with pytest.raises(UserError, match="token counts"):
        sample(logits.to(device), batch, torch.zeros(2, dtype=torch.int64, device=device))


def test_options_out_of_range_are_named(device):
    with pytest.raises(UserError, match=r"row 1: .*top_p 1\.5"):
        SamplingBatch.build(device, [1.0, 1.0], [1, 2], top_ps=[1.0, 1.5])
    with pytest.raises(UserError, match="2 entries for 1 rows"):
        SamplingBatch.build(device, [1.0], [1], top_ks=[1, 2])


def test_philox_gives_the_published_words():
    """Known answers of the Random123 distribution."""
    assert [f"{w:08x}" for w in reference.philox4x32(0, 0)] == ["6627e8d5", "e169c58d", "bc57ac4c", "9b00dbd8"]
    ones = (1 << 64) - 1, (1 << 128) - 1
    assert [f"{w:08x}" for w in reference.philox4x32(*ones)] == ["408f276d", "41c83b0e", "a20bc7c6", "6d5451fd"]
    draws = torch.tensor([reference.uniform(3, i) for i in range(4000)])
    assert abs(float(draws.mean()) - 0.5) < 0.02 and abs(float(draws.var()) - 1 / 12) < 0.005
