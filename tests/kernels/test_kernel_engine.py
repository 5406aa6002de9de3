"""The kernel executor gives what the torch executor gives: same tokens, whatever shares the step, is preempted, or runs ahead; and a step
writes the slots of its own tokens and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch

from infer_lab import LLM, SamplingParams
from infer_lab.config import ModelConfig
from infer_lab.core.plan import StepOutput, StepPlan
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine import build
from infer_lab.engine.engine_core import EngineCore
from infer_lab.models.checkpoint import Checkpoint
from infer_lab.models.llama import LlamaModel
from infer_lab.worker.kernel_executor import KernelExecutor

CPU = torch.device("cpu")
BLOCK = 4
SHAPES = {
    "llama": ModelConfig("tiny-llama", "llama", 2, 32, 48, 4, 2, 16, 96, 64),
    "qwen3": ModelConfig("tiny-qwen3", "qwen3", 1, 32, 48, 2, 1, 16, 96, 64, qk_norm=True, tie_word_embeddings=True),
    "qwen2": ModelConfig("tiny-qwen2", "qwen2", 1, 32, 48, 2, 2, 16, 96, 64, qkv_bias=True),
}
PROMPTS = [[5, 6, 7], list(range(20, 41)), [9], list(range(60, 71))]


class FakeGraph:
    """Runs the captured body again, as a replay does: with whatever the buffers hold by then."""

    def capture(self, body: Callable[[], None]) -> None:
        self.replay = body


def _llm(kind: str = "qwen3", **options: object) -> LLM:
    shape = SHAPES[kind]
    model = LlamaModel(shape, dtype=torch.float32, device=CPU)
    model.randomize(3)
    for name, slot in model.slots().items():
        if not name.endswith("norm.weight"):
            slot *= 8  # type: ignore[operator]  # logits far enough apart
    loaded = build.LoadedModel("tiny", Checkpoint(shape, None), model.eval(), CPU, torch.float32)
    sizes = {"num_kv_blocks": 64, "block_size": BLOCK, "max_num_seqs": 5, "max_num_batched_tokens": 16, "seed": 1}
    return LLM("tiny", device="cpu", loaded=loaded, **(sizes | options))  # type: ignore[arg-type]


class Checked(KernelExecutor):
    """Compares the cache before and after each step."""

    def launch(self, plan: StepPlan) -> Callable[[], StepOutput]:
        before = self._slots()
        result = super().launch(plan)
        changed = set(((self._slots() != before).any(dim=1)).nonzero().flatten().tolist())
        own = set()
        for request in plan.scheduled:
            table = self.rows.tables[self.rows.index[request.request_id]]
            own |= {int(table[p // BLOCK]) * BLOCK + p % BLOCK for p in range(request.start, request.start + len(request.token_ids))}
        moved = {copy.destination * BLOCK + i for copy in (*plan.copies, *plan.swap_in) for i in range(BLOCK)}
        assert changed <= own | moved, "a step wrote where it had no token"
        return result

    def _slots(self) -> torch.Tensor:
        device = self.cache.device.view(torch.uint8)
        return device.permute(2, 3, 0, 1, 4, 5).flatten(0, 1).flatten(1).clone()


def _run_kernels(llm: LLM, make_graph: Callable[[], FakeGraph] | None = None, **options: object) -> EngineCore:
    """The same engine with the kernel executor in it."""
    core, config = llm.engine, llm.engine.scheduler.config
    core.executor = executor = Checked(
        llm.loaded.model, llm.kv_cache, max_num_seqs=config.max_num_seqs, max_num_batched_tokens=config.max_num_batched_tokens,
        max_model_len=llm.max_model_len, table_width=-(-llm.max_model_len // BLOCK), block_size=BLOCK, make_graph=make_graph,
    )  # fmt: skip
    if executor.graphs is not None:
        executor.graphs.capture()
    core.reset(Scheduler(replace(config, **options)))  # type: ignore[arg-type]
    return core


def _same(llm: LLM, params: list[SamplingParams], **options: object) -> None:
    expected = llm.generate(PROMPTS, params)
    core = _run_kernels(llm, **options)  # type: ignore[arg-type]
    outputs = llm.generate(PROMPTS, params)
    for ours, theirs in zip(outputs, expected, strict=True):
        assert ours.outputs[0].token_ids == theirs.outputs[0].token_ids
        assert ours.outputs[0].finish_reason == theirs.outputs[0].finish_reason
        for a, b in zip(_logprobs(ours), _logprobs(theirs), strict=True):
            assert a.keys() == b.keys() and all(a[t].logprob == pytest.approx(b[t].logprob, abs=1e-4) for t in a)
    assert core.scheduler.num_in_flight == 0 and core.scheduler.kv.pool.num_used == 0
    core.scheduler.check_invariants()


def _logprobs(output: object) -> Iterator[dict]:
    yield from (entry for entry in (output.prompt_logprobs or ()) if entry)  # type: ignore[attr-defined]
    yield from output.outputs[0].logprobs or ()  # type: ignore[attr-defined]


def _greedy(*lengths: int, **options: object) -> list[SamplingParams]:
    return [SamplingParams(max_tokens=n, ignore_eos=True, **options) for n in lengths]  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["llama", "qwen2", "qwen3"])
def test_greedy_tokens_are_those_of_plain_torch(kind: str) -> None:
    _same(_llm(kind), _greedy(5, 2, 4, 3), make_graph=FakeGraph if kind == "llama" else None, async_scheduling=kind != "qwen2")


@pytest.mark.parametrize("kv_dtype", ["fp8", "int8"])
def test_with_an_eight_bit_cache_too(kv_dtype: str) -> None:
    llm = _llm(kv_dtype=kv_dtype)
    core = _run_kernels(llm, async_scheduling=True)
    first = [o.token_ids for o in llm.generate(PROMPTS[2:], _greedy(2, 3))]
    core.reset(Scheduler(replace(core.scheduler.config, async_scheduling=False)))
    assert [o.token_ids for o in llm.generate(PROMPTS[2:], _greedy(2, 3))] == first


def test_options_that_the_kernels_do_not_know() -> None:
    params = [
        *_greedy(7, frequency_penalty=1.5, repetition_penalty=1.3, logprobs=2),
        *_greedy(5, logit_bias={3: 9.0, 8: 8.0}, banned_token_ids=(3,), prompt_logprobs=1),
        *_greedy(6, allowed_token_ids=(4, 9, 12), min_tokens=4, stop_token_ids=(4,), logprobs=0),
        *_greedy(6),
    ]
    _same(_llm(), params, async_scheduling=True)


@pytest.mark.parametrize("preemption", ["recompute", "swap"])
def test_preempted_and_resumed_in_a_small_pool(preemption: str) -> None:
    swap = {"preemption": "swap", "num_host_kv_blocks": 30} if preemption == "swap" else {}
    llm = _llm(num_kv_blocks=12, admission="chunk", **swap)
    _same(llm, _greedy(9, 6, 9, 6, presence_penalty=0.3), async_scheduling=True)
    assert sum(record.num_preempted for record in llm.engine.scheduler.step_records) > 0


def test_draws_depend_on_seed_and_position_alone() -> None:
    llm = _llm()
    params = [
        SamplingParams(max_tokens=3, temperature=1.2, seed=i, ignore_eos=True, top_k=k, top_p=p, min_p=m)
        for i, (k, p, m) in enumerate([(0, 1.0, 0.0), (5, 1.0, 0.0), (0, 0.8, 0.1), (0, 1.0, 0.2)])
    ]
    core = _run_kernels(llm)
    alone = [llm.generate([prompt], own)[0].token_ids for prompt, own in zip(PROMPTS, params, strict=True)]
    core.reset(Scheduler(replace(core.scheduler.config, async_scheduling=True)))
    assert [output.token_ids for output in llm.generate(PROMPTS, params)] == alone
    assert len({tokens for tokens in alone}) == 4


def test_warming_up_writes_into_no_block() -> None:
    llm = _llm(max_num_seqs=2, max_num_batched_tokens=3)
    executor = _run_kernels(llm).executor
    assert isinstance(executor, Checked)
    before = executor._slots()
    executor.warm_up()
    assert torch.equal(executor._slots(), before)
