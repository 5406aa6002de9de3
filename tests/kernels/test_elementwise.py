"""RMSNorm, SiLU·mul, rotary embedding with the KV write, and log-probabilities against their definitions. tests/gpu runs the same tests."""

from __future__ import annotations

import pytest
import torch

from infer_lab.errors import UserError
from infer_lab.kernels import reference
from infer_lab.kernels._common import FP8
from infer_lab.kernels.logprobs import log_softmax_gather
from infer_lab.kernels.rmsnorm import rmsnorm
from infer_lab.kernels.rope_kv_write import rope_kv_write
from infer_lab.kernels.silu_mul import silu_mul
from tests.kernels.paged import relative_error

# one rounding to the type: 2^-9 (bfloat16) or 2^-12 (float16) of the value at most, on average less
ROUNDED_ONCE = {torch.float32: 1e-6, torch.float16: 4e-4, torch.bfloat16: 3e-3}


def random(device: torch.device, dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


@pytest.mark.parametrize(("rows", "hidden"), [(5, 123), (1, 576), (7, 2048), (0, 64)])
def test_rmsnorm_equals_its_definition_on_awkward_shapes(device, dtype, rows, hidden):
    x = random(device, dtype, rows, hidden + 9)[:, :hidden]
    weight = random(device, dtype, hidden, seed=1)
    out = rmsnorm(x, weight, 1e-5)
    assert out.shape == (rows, hidden)
    assert not rows or relative_error(out, reference.rmsnorm(x, weight, 1e-5, torch.float64)) < ROUNDED_ONCE[dtype]


def test_residual_rmsnorm_equals_the_two_steps(device, dtype):
    x, residual = random(device, dtype, 5, 320)[:, :300], random(device, dtype, 5, 300, seed=1)
    weight = random(device, dtype, 300, seed=2)
    stored = residual + x
    out = rmsnorm(x, weight, 1e-5, residual=residual)
    assert torch.equal(residual, stored)
    assert relative_error(out, reference.rmsnorm(stored, weight, 1e-5, torch.float64)) < ROUNDED_ONCE[dtype]


def test_a_zero_row_stays_zero_and_a_large_one_does_not_overflow(device):
    x = torch.zeros(2, 256, device=device, dtype=torch.float16)
    x[1] = 60000.0
    out = rmsnorm(x, torch.ones(256, device=device, dtype=torch.float16), 1e-5)
    assert not out[0].any()
    assert torch.allclose(out[1].float(), torch.ones(256, device=device))


def test_qk_norm_works_in_place_on_a_slice_of_the_projection(device, dtype):
    qkv = random(device, dtype, 5, 9, 64)
    rest = qkv[:, 6:].clone()
    weight = random(device, dtype, 64, seed=1)
    expected = reference.rmsnorm(qkv[:, :6], weight, 1e-6, torch.float64)
    rmsnorm(qkv[:, :6], weight, 1e-6, out=qkv[:, :6])
    assert relative_error(qkv[:, :6], expected) < ROUNDED_ONCE[dtype]
    assert torch.equal(qkv[:, 6:], rest)


@pytest.mark.parametrize(("rows", "width"), [(3, 123), (1, 1536), (0, 8)])
def test_silu_mul(device, dtype, rows, width):
    x = random(device, dtype, rows, 2 * width + 8)[:, : 2 * width] * 4
    out = silu_mul(x)
    assert not rows or relative_error(out, reference.silu_mul(x, torch.float64)) < ROUNDED_ONCE[dtype]


def rope_inputs(device: torch.device, dtype: torch.dtype, heads: int = 6, kv_heads: int = 3, d: int = 64):
    tokens, positions = 5, torch.tensor([0, 7, 1000, 3, 2], device=device)
    angle = torch.arange(1024)[:, None] / 10000 ** (torch.arange(d // 2) / (d // 2))
    cos_sin = torch.cat((angle.cos(), angle.sin()), -1).to(device)
    qkv = random(device, dtype, tokens, heads + 2 * kv_heads, d)
    slots = torch.tensor([5, 17, -1, 0, 31], device=device)
    return qkv, positions, cos_sin, slots


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("norm", [False, True])
def test_rope_and_kv_write(device, dtype, interleaved, norm):
    qkv, positions, cos_sin, slots = rope_inputs(device, dtype)
    q, k, v = qkv[:, :6], qkv[:, 6:9], qkv[:, 9:]
    weights = (random(device, dtype, 64, seed=1), random(device, dtype, 64, seed=2)) if norm else (None, None)
    kv = torch.full((2, 2, 16, 4, 64), 7.0, device=device, dtype=dtype)[:, :, :, :3]

    def expected(x: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
        x = reference.rmsnorm(x, weight, 1e-6, torch.float64) if weight is not None else x
        return reference.rope(x, positions, cos_sin, interleaved, torch.float64)

    want_q, want_k, want_v = expected(q, weights[0]), expected(k, weights[1]), v.clone()
    rope_kv_write(q, k, v, positions, cos_sin, kv[0], kv[1], slots, interleaved, *weights)
    assert relative_error(q, want_q) < ROUNDED_ONCE[dtype]
    here = slots >= 0
    assert relative_error(kv[0].reshape(32, 3, 64)[slots[here]], want_k[here]) < ROUNDED_ONCE[dtype]
    assert torch.equal(kv[1].reshape(32, 3, 64)[slots[here]], want_v[here])


def test_casebook_12_a_slot_of_minus_one_writes_nothing(device, dtype):
    """The kind: every slot that no token maps to keeps its bits, spare heads too; -1 is not the last slot."""
    qkv, positions, cos_sin, slots = rope_inputs(device, dtype)
    kv = torch.full((2, 2, 16, 4, 64), 7.0, device=device, dtype=dtype)
    rope_kv_write(qkv[:, :6], qkv[:, 6:9], qkv[:, 9:], positions, cos_sin, kv[0, :, :, :3], kv[1, :, :, :3], slots)
    untouched = torch.ones(32, dtype=torch.bool, device=device)
    untouched[slots[slots >= 0]] = False
    assert bool((kv.reshape(2, 32, 4, 64)[:, untouched] == 7.0).all())
    assert bool((kv[:, :, :, 3] == 7.0).all())


@pytest.mark.parametrize("cache_dtype", [torch.int8, FP8])
@pytest.mark.parametrize("dynamic", [True, False])
def test_kv_write_quantizes_per_token_and_head_or_by_given_scales(device, dtype, cache_dtype, dynamic):
    qkv, positions, cos_sin, slots = rope_inputs(device, dtype)
    q, k, v = qkv[:, :6], qkv[:, 6:9], qkv[:, 9:]
    v[0, 0] = 0.0  # a zero row must not divide by zero
    kv = torch.zeros(2, 2, 16, 3, 64, device=device).to(cache_dtype)
    if dynamic:
        scales = torch.full((2, 2, 16, 3), float("nan"), device=device)
    else:
        scales = torch.tensor([0.01, 0.02, 0.03], device=device).expand(2, 2, 16, 3)
    want_k, want_v = reference.rope(k, positions, cos_sin, compute_dtype=torch.float64), v.double()
    rope_kv_write(q, k, v, positions, cos_sin, kv[0], kv[1], slots, k_scale=scales[0], v_scale=scales[1], dynamic_scale=dynamic)
    here = slots >= 0
    for cache, scale, want in ((kv[0], scales[0], want_k[here]), (kv[1], scales[1], want_v[here])):
        got = cache.reshape(32, 3, 64)[slots[here]].double()
        s = scale.reshape(32, 3)[slots[here]].double()[..., None]
        limit = 127.0 if cache_dtype == torch.int8 else 448.0
        if dynamic:
            assert torch.allclose(s[..., 0], want.abs().amax(-1) / limit, rtol=1e-6)
        exact = (want / s.clamp_min(1e-30)).clamp(-limit, limit)
        step = 0.5 if cache_dtype == torch.int8 else (exact.abs() / 16).clamp_min(2**-10)  # half a step of the format, at least
        right = (got - exact).abs() <= step * 1.001
        if cache_dtype == FP8 and device.type == "cpu":
            right |= torch.frexp(exact).mantissa.abs() >= 0.96875  # Triton 3.6's interpreter loses the carry to the next power of two
        assert bool(right.all())


def test_casebook_13_kv_slots_past_two_to_the_31_elements(device, dtype):
    qkv, positions, cos_sin, _ = rope_inputs(device, dtype)
    blocks = 2**31 // (16 * 3 * 64) + 2
    cache = torch.empty(blocks * 16 * 3 * 64, dtype=dtype, device=device).view(blocks, 16, 3, 64)
    slots = blocks * 16 - 1 - torch.arange(5, device=device)
    want = qkv[:, 9:].clone()
    rope_kv_write(qkv[:, :6], qkv[:, 6:9], qkv[:, 9:], positions, cos_sin, cache, cache, slots)
    assert torch.equal(cache.view(-1, 3, 64)[slots], want)


def test_a_mistake_of_the_cache_is_named(device, dtype):
    qkv, positions, cos_sin, slots = rope_inputs(device, dtype)
    cache = torch.zeros(2, 16, 3, 64, device=device, dtype=torch.int8)
    args = (qkv[:, :6], qkv[:, 6:9], qkv[:, 9:], positions, cos_sin, cache, cache, slots)
    with pytest.raises(UserError, match="needs k_scale"):
        rope_kv_write(*args)
    shared = torch.ones(3, device=device).expand(2, 16, 3)
    with pytest.raises(UserError, match="dynamic_scale=False"):
        rope_kv_write(*args, k_scale=shared, v_scale=shared)


@pytest.mark.parametrize("vocab", [1000, 20000])
def test_log_softmax_gather(device, dtype, vocab):
    logits = (random(device, dtype, 3, vocab + 8)[:, :vocab] * 10).contiguous()
    logits[1, : vocab // 2] = float("-inf")
    ids = torch.tensor([[0, 5, vocab - 1], [1, vocab - 1, vocab - 2], [7, 7, 7]], device=device)
    got, want = log_softmax_gather(logits, ids), reference.log_softmax_gather(logits, ids, torch.float64)
    assert torch.equal(got == float("-inf"), want == float("-inf"))
    finite = want > float("-inf")
    assert torch.allclose(got[finite].double(), want[finite], atol=2e-5, rtol=1e-6)
