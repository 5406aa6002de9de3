"""A KV cache in another type than the model: what is stored, how many bytes it takes, and what it costs in the answers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infer_lab import LLM, SamplingParams
from infer_lab.calculator import kv_bytes
from infer_lab.core.plan import BlockCopy
from infer_lab.engine.build import resolve_kv_dtype
from infer_lab.engine_config import KV_DTYPES
from infer_lab.errors import UnsupportedHardwareError, UserError
from infer_lab.kernels import _common
from infer_lab.layers.kv_layer import KVLayer, octets
from infer_lab.presets import PRESETS
from infer_lab.worker.kv_cache import KVCache, bytes_per_block

CPU, CUDA = torch.device("cpu"), torch.device("cuda")
EIGHT_BITS = [torch.float8_e4m3fn, torch.int8]
SHAPE = PRESETS["smollm2-135m"].with_(num_layers=2)
PROMPTS = [list(range(3, 40)), list(range(50, 60)), [7] * 21, list(range(3, 45))]


def answers(folder: Path, max_tokens: int = 24, **options: object) -> list[tuple[int, ...]]:
    with LLM(str(folder), device="cpu", num_kv_blocks=64, block_size=4, seed=1, **options) as llm:  # type: ignore[arg-type]
        params = SamplingParams(max_tokens=max_tokens, ignore_eos=True, temperature=0.0)
        return [output.token_ids for output in llm.generate(PROMPTS, params, progress=False)]


def cache_of(dtype: torch.dtype, **options: int) -> KVCache:
    return KVCache(SHAPE, num_blocks=6, block_size=4, dtype=dtype, device=CPU, **options)


@settings(max_examples=40, deadline=None)
@given(dtype=st.sampled_from(EIGHT_BITS), seed=st.integers(0, 10**6), exponent=st.integers(-30, 30))
def test_what_is_read_is_near_what_was_written_at_any_magnitude(dtype: torch.dtype, seed: int, exponent: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    layer = cache_of(dtype).layers[1]
    slots = torch.randperm(24, generator=generator)[:9]
    # every head of every token has a magnitude of its own
    size = 2.0 ** (exponent + torch.randint(-8, 8, (9, 3, 1), generator=generator))
    k, v = (torch.randn(9, 3, 64, generator=generator) * size for _ in range(2))
    layer.write(slots, k, v)
    for x, read in zip((k, v), layer.gather(slots, torch.float32), strict=True):
        largest = x.abs().amax(-1, keepdim=True)
        # INT8: half a step of 1/127 of the largest; e4m3 has 3 bits behind the leading one, and steps of 2^-9 of 448 near zero
        bound = largest / 127 / 2 if dtype == torch.int8 else torch.maximum(x.abs() / 16, largest / 448 * 2**-10)
        assert bool(((read - x).abs() <= bound * 1.001).all())


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
def test_casebook_21_a_head_of_zeros_stays_zero_and_the_largest_value_is_exact(dtype: torch.dtype) -> None:
    layer = cache_of(dtype).layers[0]
    x = torch.zeros(2, 3, 64)
    x[1, 2, 5] = -0.75
    layer.write(torch.tensor([3, 4]), x, x)
    k, v = layer.gather(torch.tensor([3, 4]), torch.float32)
    assert torch.equal(k, v) and torch.allclose(k, x, rtol=1e-6) and not k[0].any()


def test_a_bf16_cache_beside_a_float32_model_rounds_to_bf16() -> None:
    layer = cache_of(torch.bfloat16).layers[0]
    x = torch.randn(2, 3, 64, generator=torch.Generator().manual_seed(1))
    layer.write(torch.tensor([3, 9]), x, -x)
    k, v = layer.gather(torch.tensor([3, 9]), torch.float32)
    assert k.dtype == torch.float32 and torch.equal(k, x.bfloat16().float()) and torch.equal(v, -k)


@pytest.mark.parametrize("dtype", EIGHT_BITS, ids=str)
def test_scales_move_with_their_blocks(dtype: torch.dtype) -> None:
    cache = cache_of(dtype, num_host_blocks=3)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(24, 3, 64, generator=generator) * torch.rand(24, 3, 1, generator=generator)
    every = torch.arange(24)
    for layer in cache.layers:
        layer.write(every, x, -x)
    k, v = (part.view(6, 4, 3, 64) for part in cache.layers[1].gather(every, torch.float32))
    cache.swap_out([BlockCopy(1, 0), BlockCopy(4, 2)])
    octets(cache.device)[:, :, [1, 4]] = 1
    assert cache.scales is not None
    cache.scales[:, :, [1, 4]] = float("nan")
    cache.swap_in([BlockCopy(0, 5), BlockCopy(2, 1)])
    cache.copy([BlockCopy(0, 2), BlockCopy(2, 3)])
    moved, moved_v = (part.view(6, 4, 3, 64) for part in cache.layers[1].gather(every, torch.float32))
    came_from = [0, 4, 0, 2, 4, 1]
    for i in (0, 1, 2, 3, 5):
        assert torch.equal(moved[i], k[came_from[i]]) and torch.equal(moved_v[i], v[came_from[i]]), i


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, *EIGHT_BITS], ids=str)
def test_allocated_bytes_are_the_calculators(dtype: torch.dtype) -> None:
    cache = cache_of(dtype)
    each = kv_bytes(SHAPE, 4, dtype.itemsize, scale_bytes=4 if dtype in EIGHT_BITS else 0).base
    assert cache.nbytes == 6 * each == 6 * bytes_per_block(SHAPE, 4, dtype)


def test_the_same_memory_holds_more_blocks_in_eight_bits(tiny_folder: Path) -> None:
    blocks = {}
    for kv_dtype in KV_DTYPES:
        with LLM(str(tiny_folder), device="cpu", kv_cache_memory=40 * 6144, kv_dtype=kv_dtype) as llm:
            assert llm.kv_cache.nbytes <= 40 * 6144
            blocks[kv_dtype] = llm.kv_cache.device.shape[2]
    # 12 dimensions a head: 48 bytes in float32, 24 in bfloat16, 12 + 4 in eight bits; a block of float32 has 6144
    assert blocks == {"auto": 40, "bf16": 80, "fp8": 120, "int8": 120}


@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8", "int8"])
def test_answers_do_not_depend_on_chunks_swaps_or_shared_prefixes(tiny_folder: Path, kv_dtype: str) -> None:
    plain = answers(tiny_folder, kv_dtype=kv_dtype, enable_prefix_caching=False)
    assert answers(tiny_folder, kv_dtype=kv_dtype, max_num_batched_tokens=9) == plain
    with LLM(
        str(tiny_folder), device="cpu", num_kv_blocks=30, block_size=4, seed=1, kv_dtype=kv_dtype, preemption="swap", num_host_kv_blocks=40
    ) as llm:
        outputs = llm.generate(PROMPTS, SamplingParams(max_tokens=24, ignore_eos=True, temperature=0.0), progress=False)
        assert llm.metrics.to_dict()["vllm:num_preemptions_total"] > 0
    assert [output.token_ids for output in outputs] == plain


@pytest.mark.parametrize("draft", ["ngram", "draft:1"])
def test_drafts_do_not_change_the_answers(tiny_folder: Path, draft: str) -> None:
    assert answers(tiny_folder, kv_dtype="int8", speculative=draft) == answers(tiny_folder, kv_dtype="int8")


def test_eight_bits_are_really_what_is_attended_to(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=16, kv_dtype="fp8") as llm:
        llm.generate([PROMPTS[0]], SamplingParams(max_tokens=2), progress=False)
        layer = llm.kv_cache.layers[0]
        assert isinstance(layer, KVLayer) and layer.k.dtype == torch.float8_e4m3fn and layer.k_scale is not None
        written = layer.k_scale[1, :, 0]
        assert bool((written > 0).all()) and float(layer.k[1].float().abs().amax()) == 448.0


def test_what_cannot_run_is_refused_with_a_way_out(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="auto, bf16, fp8, int8; got 'int4'"):
        LLM(str(tiny_folder), device="cpu", kv_dtype="int4")
    with pytest.raises(UserError, match="float16 runs on a CPU only; take auto, fp8 or int8"):
        resolve_kv_dtype("bf16", torch.float16, CUDA)
    ampere = _common.Target("a100", (8, 0), 163 * 1024, 108)
    monkeypatch.setattr(_common, "target_of", lambda device: ampere)
    with pytest.raises(UnsupportedHardwareError):
        resolve_kv_dtype("fp8", torch.bfloat16, CUDA)
    assert resolve_kv_dtype("int8", torch.bfloat16, CUDA) == torch.int8
