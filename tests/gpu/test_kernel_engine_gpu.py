"""The kernel executor on a GPU: tokens as from plain torch in float32, and the same ones with and without graphs and running ahead."""

from __future__ import annotations

import asyncio

import pytest
import torch

from infer_lab import LLM, AsyncEngine, SamplingParams
from infer_lab.models import checkpoint
from infer_lab.presets import PRESETS

SHAPE = PRESETS["qwen3-0.6b"].with_(name="small", num_layers=3, hidden_size=256, intermediate_size=512, num_heads=8, num_kv_heads=2,
                                    head_dim=64, vocab_size=1024, max_model_len=512)  # fmt: skip
PROMPTS = [[(7 * i + 3 * j) % 1000 for j in range(length)] for i, length in enumerate((3, 200, 17, 64, 1, 90, 33, 128, 5, 250))]


@pytest.fixture(autouse=True)
def _small_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint, "preset", lambda name: SHAPE)


def _tokens(temperature: float = 0.0, **options: object) -> list[tuple[int, ...]]:
    settings = {"dtype": "float32", "max_num_seqs": 7, "max_num_batched_tokens": 128, "num_kv_blocks": 400, "seed": 1, **options}
    with LLM("dummy:small", device="cuda", **settings) as llm:  # type: ignore[arg-type]
        params = [SamplingParams(max_tokens=20 + i, temperature=temperature, seed=i, ignore_eos=True) for i in range(len(PROMPTS))]
        outputs = llm.generate(PROMPTS, params, progress=False)
        llm.engine.scheduler.check_invariants()
        assert llm.engine.scheduler.kv.pool.num_used == 0
    return [output.token_ids for output in outputs]


def test_greedy_tokens_in_float32_are_those_of_plain_torch() -> None:
    assert _tokens() == _tokens(kernels=False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_graphs_and_running_ahead_change_no_token(dtype: str, temperature: float) -> None:
    expected = _tokens(temperature, dtype=dtype, cuda_graphs=False, async_scheduling=False, max_num_seqs=1, max_num_batched_tokens=256)
    if dtype == "float32":  # in bfloat16, products of several rows may round differently
        assert _tokens(temperature, dtype=dtype, cuda_graphs=False, async_scheduling=False) == expected
    with_graphs = _tokens(temperature, dtype=dtype, async_scheduling=False)
    assert _tokens(temperature, dtype=dtype) == with_graphs
    if dtype == "float32":
        assert with_graphs == expected


@pytest.mark.parametrize("kv_dtype", ["fp8", "int8"])
def test_an_eight_bit_cache_runs_in_graphs(kv_dtype: str) -> None:
    assert _tokens(dtype="bfloat16", kv_dtype=kv_dtype) == _tokens(dtype="bfloat16", kv_dtype=kv_dtype, async_scheduling=False)


def test_the_pool_is_sized_from_what_a_step_was_measured_to_take() -> None:
    with LLM("dummy:small", device="cuda", max_num_seqs=64, max_model_len=512) as llm:
        free, total = torch.cuda.mem_get_info()
        assert free > 0.05 * total
        out = llm.generate(PROMPTS, SamplingParams(max_tokens=5, temperature=1.0, top_k=20, top_p=0.9, logprobs=2), progress=False)
        assert all(len(o.outputs[0].token_ids) <= 5 for o in out)


def test_padding_rows_of_a_graph_write_into_no_block() -> None:
    with LLM(
        "dummy:small", device="cuda", max_num_seqs=64, num_kv_blocks=300, max_num_batched_tokens=256, enable_prefix_caching=False
    ) as llm:
        llm.kv_cache.device.fill_(7)
        llm.generate(PROMPTS[:5], SamplingParams(max_tokens=9, ignore_eos=True), progress=False)  # a bucket of 8
        others = torch.ones(300, dtype=torch.bool, device="cuda")
        used = torch.from_numpy(llm.engine.executor.rows.tables).unique()  # type: ignore[attr-defined]
        others[used[used > 0].cuda()] = False
        assert others.sum() > 200 and bool((llm.kv_cache.device[:, :, others] == 7).all())


def test_the_async_engine_gives_the_same_tokens_from_its_own_thread() -> None:
    """Its thread has to choose the device "cuda" without an index, and to capture and replay graphs there."""
    settings = {"dtype": "float32", "max_num_seqs": 7, "max_num_batched_tokens": 128, "num_kv_blocks": 400, "seed": 1}

    async def all_of_them() -> list[tuple[int, ...]]:
        async with AsyncEngine("dummy:small", device="cuda", **settings) as engine:  # type: ignore[arg-type]
            params = [SamplingParams(max_tokens=20 + i, temperature=0.0, seed=i, ignore_eos=True) for i in range(len(PROMPTS))]
            outputs = await asyncio.gather(*(engine.complete(prompt, each) for prompt, each in zip(PROMPTS, params, strict=True)))
        return [output.token_ids for output in outputs]

    assert asyncio.run(all_of_them()) == _tokens()
