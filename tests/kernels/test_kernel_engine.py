"""The kernel executor gives what the torch executor gives: same tokens, whatever shares the step, is preempted, or runs ahead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from infer_lab import LLM, SamplingParams
from infer_lab.config import ModelConfig
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine import build
from infer_lab.engine.engine_core import EngineCore
from infer_lab.models.checkpoint import Checkpoint
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.decode_graphs import Graph
from infer_lab.worker.kernel_executor import KernelExecutor

_CPU = torch.device("cpu")
SHAPES = {
    "llama": ModelConfig("tiny-llama", "llama", 2, 32, 48, 4, 2, 16, 96, 64),
    "qwen3": ModelConfig("tiny-qwen3", "qwen3", 2, 32, 48, 4, 1, 16, 96, 64, qk_norm=True, tie_word_embeddings=True),
    "qwen2": ModelConfig("tiny-qwen2", "qwen2", 1, 32, 48, 2, 2, 16, 96, 64, qkv_bias=True),
}
PROMPTS = [[5, 6, 7], list(range(20, 47)), [9], list(range(60, 71))]


class FakeGraph:
    """Runs the captured body again, as a replay does: with whatever the buffers hold by then."""

    def capture(self, body: Callable[[], None]) -> None:
        self._body = body

    def replay(self) -> None:
        self._body()


def _llm(kind: str, dtype: str = "float32", **options: object) -> LLM:
    shape = SHAPES[kind]
    model = LlamaModel(shape, dtype=getattr(torch, dtype), device=_CPU)
    model.randomize(3)
    for name, slot in model.slots().items():
        if not name.endswith("norm.weight"):
            slot *= 8  # type: ignore[operator]  # logits far enough apart
    loaded = build.LoadedModel("tiny", Checkpoint(shape, None), model.eval(), _CPU, getattr(torch, dtype))
    return LLM(
        "tiny", device="cpu", dtype=dtype, loaded=loaded, **({"num_kv_blocks": 64, "block_size": 4, "max_num_seqs": 5, "seed": 1} | options)
    )


def _with_kernels(llm: LLM, *, graphs: Callable[[], Graph] | None = FakeGraph, ahead: bool = False) -> EngineCore:
    """The same engine with the kernel executor in it."""
    core, config = llm.engine, llm.engine.scheduler.config
    width = -(-llm.max_model_len // config.block_size)
    executor = KernelExecutor(
        llm.loaded.model, llm.kv_cache, max_num_seqs=config.max_num_seqs, max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=llm.max_model_len, table_width=width, block_size=config.block_size, make_graph=graphs,
    )  # fmt: skip
    before = _checksum(llm)
    executor.warm_up()
    assert torch.equal(_checksum(llm), before), "warming up wrote into a block"
    core.executor = executor
    core.reset(Scheduler(replace(config, async_scheduling=ahead)))
    return core


def _checksum(llm: LLM) -> torch.Tensor:
    return llm.kv_cache.device.view(torch.uint8).sum(dim=(0, 1, 3, 4, 5), dtype=torch.int64)


def _greedy(n: int) -> SamplingParams:
    return SamplingParams(max_tokens=n, ignore_eos=True)


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
@pytest.mark.parametrize("ahead", [False, True])
def test_greedy_tokens_are_those_of_plain_torch(kind: str, ahead: bool) -> None:
    llm = _llm(kind, max_num_batched_tokens=16)
    params = [_greedy(n) for n in (9, 4, 12, 6)]
    expected = [output.token_ids for output in llm.generate(PROMPTS, params)]
    core = _with_kernels(llm, ahead=ahead)
    assert [output.token_ids for output in llm.generate(PROMPTS, params)] == expected
    assert core.scheduler.num_in_flight == 0
    core.scheduler.check_invariants()
