"""Prefill, decode and mixed attention against the definition, on shapes and memory as bad as an engine's. tests/gpu runs the same tests."""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from infer_lab.errors import UnsupportedHardwareError, UnsupportedOptionError, UserError
from infer_lab.kernels import _common, reference
from infer_lab.kernels.flash_prefill import PrefillConfig, flash_prefill, flash_prefill_paged
from infer_lab.kernels.hopper_prefill import HopperConfig, supported
from infer_lab.kernels.mixed_attention import AttentionBatch, mixed_attention
from infer_lab.kernels.paged_decode import DecodeWorkspace, paged_decode
from tests.kernels.paged import PagedCase, assert_same_lse, packed, paged_case, relative_error

# A correct answer in the type passes with room; one computed in the next lower precision fails (test_casebook_26).
TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 6e-3}
FEW = settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])


def run_mixed(case: PagedCase, query_lens: list[int], seq_lens: list[int], window: int = 0, decode_query_len: int = 1):
    """(out, lse) into buffers full of NaN, so that an element nobody wrote is seen."""
    out = torch.full(case.q.shape, float("nan"), dtype=case.q.dtype, device=case.q.device)
    lse = torch.full(case.q.shape[:2], float("nan"), device=case.q.device)
    some = [n for n in query_lens if n] or [0]
    batch = AttentionBatch(case.cu_seqlens_q, case.seq_lens, case.block_table, min(some), max(some), max([1, *seq_lens]), decode_query_len)
    mixed_attention(case.q, case.k_cache, case.v_cache, batch, window=window, out=out, lse=lse, **case.scales)
    return out, lse


def check_mixed(case: PagedCase, query_lens: list[int], seq_lens: list[int], window: int = 0, decode_query_len: int = 1) -> None:
    out, lse = run_mixed(case, query_lens, seq_lens, window, decode_query_len)
    scale = case.q.shape[-1] ** -0.5
    expected, expected_lse = reference.paged_attention(*case.attention_args(), scale, window, **case.scales, compute_dtype=torch.float64)
    tolerance = TOLERANCE[case.q.dtype]
    assert relative_error(out, expected) < tolerance
    assert_same_lse(lse, expected_lse, 2 * tolerance)


@pytest.mark.parametrize("block_size", [16, 32, 64, 128])
def test_a_step_of_decodes_drafts_chunks_and_padding_is_one_call(device, dtype, block_size):
    query_lens, seq_lens = [1, 3, 0, 40, 1], [1, 70, 0, 75, 33]
    case = paged_case(device, query_lens, seq_lens, block_size=block_size, dtype=dtype)
    check_mixed(case, query_lens, seq_lens, decode_query_len=3)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(9, 3, 64), (4, 1, 128), (2, 2, 256)])
def test_grouped_heads_and_head_dims(device, dtype, heads, kv_heads, head_dim):
    query_lens, seq_lens = [1, 35], [45, 50]
    case = paged_case(device, query_lens, seq_lens, heads, kv_heads, head_dim, dtype=dtype)
    check_mixed(case, query_lens, seq_lens)


@pytest.mark.parametrize("cache_dtype", [torch.int8, torch.float8_e4m3fn])
def test_quantized_cache_gives_what_its_stored_values_mean(device, dtype, cache_dtype):
    query_lens, seq_lens = [1, 2, 33], [50, 17, 40]
    case = paged_case(device, query_lens, seq_lens, dtype=dtype, cache_dtype=cache_dtype)
    check_mixed(case, query_lens, seq_lens, decode_query_len=2)


def test_a_tiny_value_scale_is_not_lost_in_float16(device, dtype):
    case = paged_case(device, [1, 33], [60, 40], dtype=dtype, cache_dtype=torch.int8)
    assert case.v_scale is not None
    case.v_scale.mul_(1e-3)  # p · scale near 1e-8: float16 has nothing there
    check_mixed(case, [1, 33], [60, 40])


@pytest.mark.parametrize("window", [1, 7, 32, 1000])
def test_sliding_window_sees_that_many_keys_and_no_more(device, dtype, window):
    query_lens, seq_lens = [1, 34], [70, 80]
    case = paged_case(device, query_lens, seq_lens, dtype=dtype)
    check_mixed(case, query_lens, seq_lens, window)


def test_packed_prompts_with_empty_ones_between(device, dtype):
    lens = [5, 0, 64, 33, 0, 1]
    cu = packed(lens, device)
    g = torch.Generator().manual_seed(1)
    qkv = torch.randn(sum(lens), 4 + 2 + 2, 64, generator=g).to(device, dtype)
    q, k, v = qkv[:, :4], qkv[:, 4:6], qkv[:, 6:]
    lse = torch.empty(sum(lens), 4, device=device)
    for causal in (True, False):
        out = flash_prefill(q, k, v, cu, cu, causal=causal, lse=lse)
        expected, expected_lse = reference.varlen_attention(q, k, v, cu, cu, 64**-0.5, causal, compute_dtype=torch.float64)
        assert relative_error(out, expected) < TOLERANCE[dtype]
        assert_same_lse(lse, expected_lse, 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("together", [1, 2, 4])
def test_the_order_of_programs_changes_nothing(device, dtype, together):
    lens = [70, 0, 33, 1]
    cu = packed(lens, device)
    g = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(sum(lens), heads, 64, generator=g).to(device, dtype) for heads in (8, 4, 4))
    target = _common.target_of(q.device)
    configs: list[PrefillConfig | HopperConfig] = [PrefillConfig(32, 32, 4, 1, kv_heads_together=together)]
    if supported(target, q, k, v, paged=False):
        configs.append(HopperConfig(128, 2, kv_heads_together=together))
    expected, _ = reference.varlen_attention(q, k, v, cu, cu, 64**-0.5, compute_dtype=torch.float64)
    for config in configs:
        out = torch.full_like(q, float("nan"))
        flash_prefill(q, k, v, cu, cu, out=out, config=config)
        assert relative_error(out, expected) < TOLERANCE[dtype]
    with pytest.raises(UserError, match="3 KV heads together do not divide 4"):
        flash_prefill(q, k, v, cu, cu, config=PrefillConfig(32, 32, 4, 1, kv_heads_together=3))


def test_queries_that_see_no_key_give_zero_and_minus_infinity(device, dtype):
    """More queries than keys: the first rows stand before the first key. And a request with no key at all."""
    cu_q, cu_k = packed([6, 3], device), packed([2, 0], device)
    q = torch.randn(9, 2, 64, generator=torch.Generator().manual_seed(2)).to(device, dtype)
    k = torch.randn(2, 2, 64, generator=torch.Generator().manual_seed(3)).to(device, dtype)
    lse = torch.empty(9, 2, device=device)
    out = flash_prefill(q, k, k, cu_q, cu_k, lse=lse)
    expected, expected_lse = reference.varlen_attention(q, k, k, cu_q, cu_k, 64**-0.5)
    assert relative_error(out, expected) < TOLERANCE[dtype]
    assert_same_lse(lse, expected_lse, 2 * TOLERANCE[dtype])
    assert not out[:4].any() and not out[6:].any()


@FEW
@given(
    requests=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 150)), min_size=1, max_size=4),
    window=st.sampled_from([0, 0, 1, 40]),
    splits=st.integers(1, 9),
)
def test_casebook_14_empty_splits_and_masked_rows_never_reach_the_merge(device, requests, window, splits):
    """The kind: whatever the split count, the lengths and the window, out and LSE equal the unsplit definition."""
    query_lens = [q for q, _ in requests]
    seq_lens = [q + past if q else past for q, past in requests]
    case = paged_case(device, query_lens, seq_lens, dtype=torch.float16)
    out = torch.full(case.q.shape, float("nan"), dtype=case.q.dtype, device=device)
    lse = torch.full(case.q.shape[:2], float("nan"), device=device)
    paged_decode(*case.attention_args(), max(seq_lens), 4, window=window, splits=splits, out=out, lse=lse)
    expected, expected_lse = reference.paged_attention(*case.attention_args(), 64**-0.5, window, compute_dtype=torch.float64)
    assert relative_error(out, expected) < TOLERANCE[torch.float16] or out.numel() == 0
    assert_same_lse(lse, expected_lse, 2e-3)


def test_casebook_13_offsets_past_two_to_the_31_elements(device, dtype):
    """The kind: caches larger than 2^31 elements, in every attention kernel. Only the pages in use are ever touched."""
    block_size, kv_heads, head_dim = 16, 2, 64
    stride = block_size * kv_heads * head_dim
    num_blocks = 2**31 // stride + 4
    lens = [1, 35], [40, 50]
    small = paged_case(device, *lens, dtype=dtype)
    pages = -(-50 // block_size) + -(-40 // block_size) + 2
    caches = []
    for cache in (small.k_cache, small.v_cache):
        large = torch.empty(num_blocks * stride, dtype=dtype, device=device).view(num_blocks, block_size, kv_heads, head_dim)
        large[-pages:] = cache
        caches.append(large)
    table = small.block_table + (num_blocks - pages)
    case = PagedCase(small.q, *caches, table, small.cu_seqlens_q, small.seq_lens)
    check_mixed(case, *lens)


def test_casebook_12_a_padding_row_writes_nothing(device, dtype):
    case = paged_case(device, [1, 0, 1], [20, 0, 30], dtype=dtype)
    q = torch.cat([case.q, torch.randn_like(case.q)])  # rows past cu_seqlens_q[-1]: a graph replayed with fewer requests
    out = torch.full(q.shape, 7.0, dtype=dtype, device=device)
    paged_decode(q, *case.attention_args()[1:], 30, out=out)
    assert bool((out[2:] == 7.0).all()) and not bool((out[:2] == 7.0).any())


def test_casebook_26_float32_is_not_rounded_to_tf32(device):
    """The kind: a verdict of the interpreter that a GPU does not share. 2e-6 holds for float32 arithmetic, tf32 gives 3e-4."""
    case = paged_case(device, [1, 36], [60, 50], dtype=torch.float32)
    check_mixed(case, [1, 36], [60, 50])


@pytest.mark.parametrize(
    ("dtype_", "lower"), [(torch.float32, "tf32"), (torch.float16, torch.bfloat16), (torch.bfloat16, torch.float8_e4m3fn)]
)
def test_casebook_26_the_tolerance_fails_an_answer_of_lower_precision(device, dtype_, lower):
    case = paged_case(device, [1, 36], [60, 50], dtype=dtype_)
    exact, _ = reference.paged_attention(*case.attention_args(), 64**-0.5, compute_dtype=torch.float64)

    def rounded(x: torch.Tensor) -> torch.Tensor:
        if lower == "tf32":  # 10 bits of mantissa
            return (x.view(torch.int32) + 0x1000 & ~0x1FFF).view(torch.float32)
        return x.to(lower).to(dtype_)

    args = (rounded(case.q.contiguous()), rounded(case.k_cache.contiguous()), rounded(case.v_cache.contiguous()))
    poor, _ = reference.paged_attention(*args, *case.attention_args()[3:], 64**-0.5)
    assert relative_error(poor, exact) > TOLERANCE[dtype_]


def test_the_same_inputs_give_the_same_bits_and_the_counters_return_to_zero(device, dtype):
    case = paged_case(device, [1, 1, 1], [90, 150, 33], dtype=dtype)
    workspace = DecodeWorkspace.allocate(3, 2, 2, 64, 4, device)
    runs = [paged_decode(*case.attention_args(), 150, splits=4, workspace=workspace) for _ in range(2)]
    assert torch.equal(runs[0], runs[1])
    assert not workspace.arrived.any()


def test_a_mistake_is_named_with_its_figures(device):
    case = paged_case(device, [1], [20])
    with pytest.raises(UserError, match="at most 64"):
        paged_decode(*case.attention_args(), 20, max_query_len=40)
    with pytest.raises(UserError, match="k_scale"):
        paged_decode(case.q, case.k_cache.to(torch.int8), case.v_cache, *case.attention_args()[3:], 20)
    with pytest.raises(UserError, match="workspace"):
        paged_decode(*case.attention_args(), 20, splits=4, workspace=DecodeWorkspace.allocate(1, 1, 1, 64, 1, device))
    with pytest.raises(UnsupportedOptionError, match="head_dim 96"):
        q = torch.zeros(2, 2, 96, device=device)
        flash_prefill(q, q, q, packed([2], device), packed([2], device))
    with pytest.raises(UnsupportedOptionError, match="stride"):
        flash_prefill_paged(case.q.mT.contiguous().mT, *case.attention_args()[1:])


def test_fp8_on_a_chip_without_it_is_refused_with_the_alternative():
    with pytest.raises(UnsupportedHardwareError, match=r"8\.9 or newer, this GPU has 8\.0.*INT8"):
        _common.require_fp8(_common.Target("a100", (8, 0), 163 * 1024, 108))
