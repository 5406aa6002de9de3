"""Running ahead changes no token: stops, aborts, preemption, forks, penalties and log-probabilities included."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_lab import LLM, SamplingParams
from infer_lab.core.plan import StepOutput, StepPlan
from infer_lab.engine.engine_core import Executor
from infer_lab.errors import EngineError, UserError

POOL = [3, 17, 40, 41, 90, 120, 200]


class Delayed:
    """A device with a queue: a step runs when its result, or that of a later one, is asked for."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._queue: deque[tuple[StepPlan, list[StepOutput]]] = deque()
        self.deepest = 0

    def launch(self, plan: StepPlan) -> Callable[[], StepOutput]:
        done: list[StepOutput] = []
        self._queue.append((plan, done))
        self.deepest = max(self.deepest, len(self._queue))

        def result() -> StepOutput:
            while not done:
                oldest, output = self._queue.popleft()
                output.append(self._executor.execute(oldest))
            return done[0]

        return result

    def execute(self, plan: StepPlan) -> StepOutput:
        return self.launch(plan)()

    def reset(self) -> None:
        self._queue.clear()
        self._executor.reset()


def _params(rng: random.Random) -> SamplingParams:
    return SamplingParams(
        max_tokens=rng.randint(1, 14),
        temperature=rng.choice([0.0, 0.8, 1.5]),
        seed=rng.getrandbits(40),
        top_p=rng.choice([1.0, 0.9]),
        frequency_penalty=rng.choice([0.0, 0.0, 0.8]),
        allowed_token_ids=rng.choice([None, POOL]),
        stop_token_ids=rng.choice([(), POOL[:2]]),
        min_tokens=rng.choice([0, 1]),
        logprobs=rng.choice([None, 2]),
        prompt_logprobs=rng.choice([None, None, 1]),
    )


def _llm(folder: Path, **options: object) -> LLM:
    sizes = {"num_kv_blocks": 40, "block_size": 4, "max_num_seqs": 6, "max_num_batched_tokens": 24, "seed": 1, "admission": "chunk"}
    return LLM(str(folder), device="cpu", **(sizes | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("delayed", [False, True])
@pytest.mark.parametrize("blocks", [40, 16])
@pytest.mark.parametrize("seed", range(3))
def test_outputs_are_the_same_with_and_without_it(tiny_folder: Path, seed: int, blocks: int, delayed: bool) -> None:
    rng = random.Random(seed)
    prompts = [[rng.choice(POOL) for _ in range(rng.randint(1, 30))] for _ in range(12)]
    params = [_params(rng) for _ in prompts]
    with _llm(tiny_folder, num_kv_blocks=blocks) as llm:
        expected = llm.generate(prompts, params)
    with _llm(tiny_folder, num_kv_blocks=blocks, async_scheduling=True) as llm:
        if delayed:
            llm.engine.executor = Delayed(llm.engine.executor)
        outputs = llm.generate(prompts, params)
        if isinstance(llm.engine.executor, Delayed):
            assert llm.engine.executor.deepest == 2
        _is_empty(llm)
    for ours, theirs in zip(outputs, expected, strict=True):
        assert [(o.token_ids, o.finish_reason) for o in ours.outputs] == [(o.token_ids, o.finish_reason) for o in theirs.outputs]
        for a, b in zip(ours.outputs[0].logprobs or (), theirs.outputs[0].logprobs or (), strict=True):
            assert a.keys() == b.keys() and all(a[t].logprob == pytest.approx(b[t].logprob, abs=1e-4) for t in a)


def _is_empty(llm: LLM) -> None:
    scheduler = llm.engine.scheduler
    scheduler.check_invariants()
    assert scheduler.num_in_flight == 0 and scheduler.kv.pool.num_used == 0
    scheduler.reset_prefix_cache()


def test_forks_and_stop_strings(tiny_folder: Path) -> None:
    params = SamplingParams(max_tokens=20, temperature=1.0, seed=5, n=3, stop=["a", "e"], ignore_eos=True)
    texts = []
    for ahead in (False, True):
        with _llm(tiny_folder, async_scheduling=ahead) as llm:
            texts.append([o.text for o in llm.generate([[5, 6, 7, 8, 9]], params)[0].outputs])
            _is_empty(llm)
    assert texts[0] == texts[1]


def test_an_abort_in_the_middle_leaves_nothing_behind(tiny_folder: Path) -> None:
    with _llm(tiny_folder, async_scheduling=True) as llm:
        llm.engine.executor = Delayed(llm.engine.executor)
        greedy = SamplingParams(max_tokens=30, ignore_eos=True)
        alone = llm.generate([[1, 2, 3]], greedy)[0].token_ids
        dropped, kept = llm.stream([9, 9, 9, 9, 9], greedy), llm.stream([1, 2, 3], greedy)
        next(dropped)
        del dropped
        assert tuple(t for update in kept for t in update.token_ids) == alone
        last = llm.stream([4, 4], greedy)
        next(last)
        last.close()  # type: ignore[attr-defined]
        _is_empty(llm)


def test_a_step_that_fails_late_ends_what_was_under_way_and_no_more(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with _llm(tiny_folder, async_scheduling=True) as llm:
        greedy = SamplingParams(max_tokens=6, ignore_eos=True)
        expected = llm.generate([[1, 2, 3]], greedy)[0].token_ids
        real, run, delayed = llm.engine.executor, llm.engine.executor.execute, Delayed(llm.engine.executor)
        steps = iter(range(3))

        def execute(plan: StepPlan) -> StepOutput:
            if next(steps, None) is None:
                raise RuntimeError("the device is gone")
            return run(plan)

        monkeypatch.setattr(real, "execute", execute)
        llm.engine.executor = delayed
        with pytest.raises(EngineError, match="the device is gone"):
            llm.generate([[1, 2, 3]], greedy)
        monkeypatch.undo()
        assert llm.generate([[1, 2, 3]], greedy)[0].token_ids == expected
        _is_empty(llm)


def test_drafts_exclude_it() -> None:
    with pytest.raises(UserError, match="exclude each other"):
        LLM("smollm2", async_scheduling=True, speculative="ngram")
