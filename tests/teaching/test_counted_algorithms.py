from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from infer_lab import calculator
from infer_lab.errors import UnsupportedOptionError
from infer_lab.hardware import h100_80gb
from infer_lab.teaching import attention, pipeline
from infer_lab.teaching.memory import InPages, Slow, moved
from infer_lab.teaching.softmax import State, finish, merge, naive_softmax, online_softmax, safe_softmax, state_of


def rows(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("way", "accesses"), [(naive_softmax, 3), (safe_softmax, 4), (online_softmax, 3)])
@pytest.mark.parametrize("block", [1, 7, 64, 100])
def test_softmax_is_right_and_moves_what_it_says(way, accesses: int, block: int) -> None:
    x = Slow(rows(100) * 5)
    out = Slow.empty(100, like=x.data)
    way(x, out, block)
    torch.testing.assert_close(out.data, x.data.softmax(0))
    assert moved(x, out) == accesses * 100


def state(scores: list[float | None], seed: int) -> State:
    masked = torch.tensor([[float("-inf") if s is None else s for s in scores]], dtype=torch.float64)
    return state_of(masked, rows(len(scores), 3, seed=seed))


keys = st.lists(st.one_of(st.none(), st.floats(-300, 300)), min_size=1, max_size=5)


@given(keys, keys, keys)
def test_merging_is_associative_and_commutative_and_gives_attention(a: list, b: list, c: list) -> None:
    x, y, z = state(a, 1), state(b, 2), state(c, 3)
    scores = torch.tensor([[float("-inf") if s is None else s for s in a + b + c]], dtype=torch.float64)
    values = torch.cat([rows(len(part), 3, seed=i) for i, part in ((1, a), (2, b), (3, c))])
    expected = scores.softmax(-1).nan_to_num() @ values
    for order in (merge(merge(x, y), z), merge(x, merge(y, z)), merge(z, merge(y, x))):
        torch.testing.assert_close(finish(order), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("order", attention.ORDERS)
@pytest.mark.parametrize(("n", "d", "block_q", "block_k"), [(40, 8, 8, 8), (37, 8, 16, 10), (16, 4, 16, 16)])
def test_flash_attention_is_standard_attention(order: str, n: int, d: int, block_q: int, block_k: int) -> None:
    q, k, v = (Slow(rows(n, d, seed=i) * 3) for i in range(3))
    out, expected = Slow.empty(n, d, like=q.data), Slow.empty(n, d, like=q.data)
    attention.flash_attention(q, k, v, out, block_q, block_k, order)
    attention.standard_attention(q, k, v, expected)
    torch.testing.assert_close(out.data, expected.data)


def test_traffic_of_the_three_is_the_closed_form() -> None:
    n, d, bq, bk = 64, 8, 16, 32
    q, k, v, out = (Slow(rows(n, d, seed=i)) for i in range(4))
    scratch = attention.standard_attention(q, k, v, out)
    assert moved(q, k, v, out, *scratch) == 4 * n * d + 4 * n * n
    assert moved(q, k, v, out, *scratch) == int(calculator.standard_attention_elements(n, d))
    q, k, v, out = (Slow(rows(n, d, seed=i)) for i in range(4))
    work = attention.flash_attention(q, k, v, out, bq, bk)
    assert moved(q, k, v, out) == int(calculator.flash_attention_elements(n, d, bq)) == 2 * n * d + 2 * n * d * (n // bq)
    assert (out.written, work.divided, work.rescaled) == (n * d, n, n * (n // bk))
    q, k, v, out = (Slow(rows(n, d, seed=i)) for i in range(4))
    work = attention.flash_attention(q, k, v, out, bq, bk, "keys")
    assert (k.read, q.read, out.written, out.read) == (n * d, n * d * (n // bk), n * d * (n // bk), n * d * (n // bk - 1))
    assert work.divided == n * (n // bk)


@pytest.mark.parametrize(("queries", "block_q", "times"), [(1, 8, 4), (2, 8, 4), (8, 8, 1), (32, 8, 1)])
def test_packed_query_heads_read_their_kv_head_once_where_one_head_fills_no_tile(queries: int, block_q: int, times: int) -> None:
    """Four query heads on each of two KV heads: a single query fills half a tile of eight rows packed, an eighth alone."""
    n, d, read = 40, 4, {}
    expected = torch.nn.functional.scaled_dot_product_attention(
        *(rows(1, m, heads, d, seed=i).transpose(1, 2) for i, (m, heads) in enumerate(((queries, 8), (n, 2), (n, 2)))), enable_gqa=True
    )[0].transpose(0, 1)
    for packed in (True, False):
        q, k, v = (Slow(rows(m, heads, d, seed=i)) for i, (m, heads) in enumerate(((queries, 8), (n, 2), (n, 2))))
        out = Slow.empty(queries, 8, d, like=q.data)
        attention.grouped_attention(q, k, v, out, block_q, 16, packed)
        torch.testing.assert_close(out.data, expected)
        read[packed] = k.read + v.read
        assert (q.read, out.written) == (queries * 8 * d, queries * 8 * d)
    assert read[True] == 2 * n * 2 * d * -(-queries * 4 // block_q)
    assert read[False] == times * read[True]


def test_query_heads_that_do_not_divide_are_refused() -> None:
    q, k, v = Slow(rows(1, 3, 4)), Slow(rows(8, 2, 4)), Slow(rows(8, 2, 4))
    with pytest.raises(UnsupportedOptionError, match="3 query heads"):
        attention.grouped_attention(q, k, v, Slow.empty(1, 3, 4, like=q.data), 1, 8, True)


@pytest.mark.parametrize(("block_k", "look_ups"), [(16, 7), (32, 7), (100, 7), (8, 13), (20, 10)])
def test_flash_attention_over_pages_is_the_same_and_looks_each_page_up_once_a_tile(block_k: int, look_ups: int) -> None:
    length, page, d = 100, 16, 4
    order = torch.randperm(7, generator=torch.Generator().manual_seed(1))
    flat = [rows(length, d, seed=i) for i in (1, 2)]
    pages = [torch.full((7, page, d), float("nan"), dtype=torch.float64) for _ in flat]
    for held, dense in zip(pages, flat, strict=True):
        for i in range(length):
            held[order[i // page], i % page] = dense[i]
    tables = [Slow(order.to(torch.int32)) for _ in flat]
    k, v = (InPages(held, table, length) for held, table in zip(pages, tables, strict=True))
    q = Slow(rows(3, d))
    out, expected = (Slow.empty(3, d, like=q.data) for _ in range(2))
    attention.flash_attention(q, k, v, out, 3, block_k)
    attention.flash_attention(q, Slow(flat[0]), Slow(flat[1]), expected, 3, block_k)
    torch.testing.assert_close(out.data, expected.data)
    assert [table.read for table in tables] == [look_ups, look_ups]
    assert k.read + v.read == 2 * length * d
    with pytest.raises(UnsupportedOptionError, match="read only"):
        k[0:1] = flat[0][:1]


def test_the_bounds_divide_as_in_the_paper() -> None:
    """Errata E07: with n = 4,096, d = 128 and two-byte elements."""
    for kib, expected in ((100, 3.2), (163, 5.3), (227, 7.3)):
        assert float(calculator.attention_io_reduction(4096, 128, kib * 1024 // 2)) == pytest.approx(expected, abs=0.05)
    assert float(calculator.attention_io_reduction(10**6, 256, 32_768)) < 1


def test_one_query_reads_each_key_once() -> None:
    q, k, v, out = (Slow(rows(n, 8, seed=n)) for n in (1, 50, 50, 1))
    attention.flash_attention(q, k, v, out, 1, 16)
    torch.testing.assert_close(out.data, (q.data @ k.data.T * 8**-0.5).softmax(-1) @ v.data)
    assert moved(q, k, v, out) == 2 * 8 + 2 * 50 * 8


def test_an_unknown_order_or_schedule_is_named() -> None:
    x = Slow(rows(4, 4))
    with pytest.raises(UnsupportedOptionError, match="rows"):
        attention.flash_attention(x, x, x, x, 2, 2, "rows")
    with pytest.raises(UnsupportedOptionError, match="juggling"):
        pipeline.simulate("juggling", pipeline.Costs(1, 1, 1, 1), 2)


@pytest.mark.parametrize("schedule", pipeline.SCHEDULES)
def test_no_unit_does_two_things_and_nothing_comes_before_what_it_needs(schedule: str) -> None:
    tasks = pipeline.simulate(schedule, pipeline.Costs.of(h100_80gb, 128), 12)
    for unit in ("copy", "tensor", "exp"):
        mine = [t for t in tasks if t.unit == unit]
        assert all(a.end <= b.start + 1e-9 for a, b in itertools.pairwise(mine))
    at = {(t.kind, t.tile, t.group): t for t in tasks}
    for (kind, tile, group), task in at.items():
        if kind in ("softmax", "values"):
            assert at["scores" if kind == "softmax" else "softmax", tile, group].end <= task.start
        if kind == "scores":
            assert at["copy keys", tile, 0].end <= task.start


def test_each_schedule_is_at_least_as_good_as_the_one_before() -> None:
    costs = pipeline.Costs.of(h100_80gb, 128)
    shares = [pipeline.utilization(pipeline.simulate(s, costs, 64)) for s in pipeline.SCHEDULES]
    assert shares == sorted(shares)
    total = costs.scores + costs.softmax + costs.values
    assert shares[0] == pytest.approx((costs.scores + costs.values) / (total + costs.copy))
    assert shares[1] == pytest.approx((costs.scores + costs.values) / total, rel=0.02)
    assert shares[3] > 0.95


def test_only_two_warpgroups_hide_a_softmax_that_is_longer_than_one_product() -> None:
    costs = pipeline.Costs.of(h100_80gb, 64)
    assert costs.softmax == costs.scores + costs.values
    assert pipeline.utilization(pipeline.simulate("pipelined", costs, 64)) == pytest.approx(2 / 3, rel=0.02)
    assert pipeline.utilization(pipeline.simulate("ping-pong", costs, 64)) > 0.95
