"""Attention over the paged cache against attention written out in float64, on mixed batches with scattered blocks and a poisoned cache."""

from __future__ import annotations

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab.core.plan import AdmittedRequest, BlockCopy, ScheduledRequest
from infer_lab.layers.attention import paged_attention
from infer_lab.layers.kv_layer import KVLayer
from infer_lab.presets import PRESETS
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache

CPU = torch.device("cpu")
HEADS, KV_HEADS, DIM = 6, 2, 8


def _expected(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Causal attention of the last len(q) positions of one sequence, float64, one head at a time."""
    out = torch.zeros(q.shape, dtype=torch.float64)
    first = len(k) - len(q)
    for head in range(HEADS):
        kv_head = head // (HEADS // KV_HEADS)
        for i in range(len(q)):
            keys, values = k[: first + i + 1, kv_head].double(), v[: first + i + 1, kv_head].double()
            out[i, head] = (keys @ q[i, head].double() / math.sqrt(DIM)).softmax(-1) @ values
    return out


# (tokens that are in the cache already, tokens of this step) for each request
REQUESTS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=5)


@settings(max_examples=60, deadline=None)
@given(requests=REQUESTS, block_size=st.sampled_from([1, 4, 16]), seed=st.integers(0, 10_000))
def test_mixed_batches_equal_attention_written_out(requests: list[tuple[int, int]], block_size: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    num_blocks = sum(-(-(context + new) // block_size) for context, new in requests) + 3
    free = torch.randperm(num_blocks, generator=generator).tolist()
    # NaN everywhere: whoever reads a slot that its own request did not write gives itself away
    cache = KVLayer(*torch.full((2, num_blocks, block_size, KV_HEADS, DIM), math.nan))
    batch = InputBatch(8, 64, block_size, CPU, torch.float32)
    scheduled, expected, fresh = [], {}, {}
    for i, (context, new) in enumerate(requests):
        total = context + new
        q = torch.randn(new, HEADS, DIM, generator=generator)
        k, v = (torch.randn(total, KV_HEADS, DIM, generator=generator) for _ in range(2))
        blocks = [free.pop() for _ in range(-(-total // block_size))]
        for position in range(context):
            block, offset = blocks[position // block_size], position % block_size
            cache.k[block, offset], cache.v[block, offset] = k[position], v[position]
        name = f"r{i}"
        batch.admit(AdmittedRequest(name, (0,) * total, total))
        scheduled.append(ScheduledRequest(name, context, (i,) * new, True, 0, tuple(blocks)))
        expected[i], fresh[i] = _expected(q, k, v), (q, k[context:], v[context:])
    inputs = batch.prepare(scheduled)
    order = list(dict.fromkeys(inputs.token_ids.tolist()))  # token id = number of the request
    q, k, v = (torch.cat([fresh[i][part] for i in order]) for part in range(3))
    out = paged_attention(q, k, v, cache, inputs.attention)
    assert torch.allclose(out.double(), torch.cat([expected[i] for i in order]), atol=2e-5)


def test_every_request_keeps_its_own_positions_and_samples_at_its_last_token() -> None:
    batch = InputBatch(4, 8, 4, CPU, torch.float32)
    for name in "abc":
        batch.admit(AdmittedRequest(name, (0,), 1))
    inputs = batch.prepare(
        [
            ScheduledRequest("a", 2, (10, 11, 12), True, 0, (3, 5)),
            ScheduledRequest("b", 5, (20,), True, 0, (1, 2)),
            ScheduledRequest("c", 0, (30, 31), False, 0, (7,)),
        ]
    )
    assert inputs.token_ids.tolist() == [20, 10, 11, 12, 30, 31], "single tokens first, then chunks"
    assert inputs.positions.tolist() == [5, 2, 3, 4, 0, 1]
    assert inputs.attention.slot_mapping.tolist() == [2 * 4 + 1, 3 * 4 + 2, 3 * 4 + 3, 5 * 4, 7 * 4, 7 * 4 + 1]
    assert [r.request_id for r in inputs.sampled] == ["b", "a"] and inputs.sample_tokens.tolist() == [0, 3]


def test_decodes_of_very_different_length_are_not_padded_to_each_other() -> None:
    batch = InputBatch(4, 1000, 4, CPU, torch.float32)
    lengths = {"short": 10, "middle": 250, "long": 3000, "longer": 3500}
    for name in lengths:
        batch.admit(AdmittedRequest(name, (0,), 1))
    inputs = batch.prepare([ScheduledRequest(n, size - 1, (0,), True, 0, tuple(range(-(-size // 4)))) for n, size in lengths.items()])
    assert [(g.start, g.end, g.length) for g in inputs.attention.decodes] == [(0, 2, 250), (2, 4, 3500)]


def test_blocks_move_to_the_host_and_back_unchanged_and_copies_read_before_they_write() -> None:
    cache = KVCache(
        PRESETS["smollm2-135m"].with_(num_layers=2), num_blocks=6, block_size=4, dtype=torch.float32, device=CPU, num_host_blocks=3
    )
    cache.device.copy_(torch.randn(cache.device.shape))
    before = cache.device.clone()
    cache.swap_out([BlockCopy(1, 0), BlockCopy(4, 2)])
    cache.device[:, :, [1, 4]] = math.nan
    cache.swap_in([BlockCopy(0, 5), BlockCopy(2, 1)])
    assert torch.equal(cache.device[:, :, [5, 1]], before[:, :, [1, 4]])
    cache.copy([BlockCopy(0, 2), BlockCopy(2, 3)])
    assert torch.equal(cache.device[:, :, [2, 3]], before[:, :, [0, 2]])
    assert torch.equal(cache.layers[1].k[3], before[1, 0, 2]), "the layers are views of the same memory"
