"""What AsyncEngine promises its callers: streams, cancelling, backpressure, draining, and an end that everybody hears of.

The model's steps are let through one by one where their order matters; nothing here waits for time.
"""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_model import CONTEXT
from torch.cuda._utils import _get_device_index

from infer_lab import LLM, AsyncEngine, SamplingParams
from infer_lab.core.plan import StepOutput, StepPlan
from infer_lab.engine.build import LoadedModel
from infer_lab.engine.engine_thread import EngineThread
from infer_lab.errors import (
    DuplicateRequestError,
    EngineDeadError,
    EngineDrainingError,
    EngineError,
    InvalidRequestError,
    PromptTooLongError,
    QueueFullError,
    RequestTooLargeError,
)
from infer_lab.outputs import RequestOutput, StreamUpdate

SHORT = SamplingParams(max_tokens=6, ignore_eos=True)
LONG = SamplingParams(max_tokens=60, ignore_eos=True)


class Gate:
    """Lets steps of an engine through, as many as `open` is told; then all. What `fail` was given is raised by the next ones."""

    def __init__(self, engine: AsyncEngine) -> None:
        self.core = engine._thread._engine.core
        self._execute = self.core.executor.execute
        self._permits = threading.Semaphore(0)
        self._errors: list[BaseException] = []
        self.core.executor.execute = self._step  # type: ignore[method-assign]

    def _step(self, plan: StepPlan) -> StepOutput:
        self._permits.acquire()
        if self._errors:
            raise self._errors.pop(0)
        return self._execute(plan)

    def open(self, steps: int = 1_000_000) -> None:
        self._permits.release(steps)

    def fail(self, *errors: BaseException) -> None:
        self._errors += errors


@pytest.fixture
def loaded(tiny: LLM) -> LoadedModel:
    return tiny.loaded


@pytest.fixture
def run(loaded: LoadedModel) -> Callable[..., None]:
    """Run a test's coroutine with an engine and its gate; nothing may be left behind."""

    def call(test: Callable[[AsyncEngine, Gate], Awaitable[None]], **options: Any) -> None:
        async def main() -> None:
            async with AsyncEngine(loaded.name, loaded=loaded, device="cpu", kv_cache_memory=2**20, **options) as engine:
                gate = Gate(engine)
                try:
                    await asyncio.wait_for(test(engine, gate), 120)
                finally:
                    gate.open()
            assert engine.num_unfinished == 0
            gate.core.scheduler.check_invariants()
            assert not gate.core.scheduler.has_unfinished()

        in_a_loop(main())

    return call


def in_a_loop(coroutine: Coroutine[Any, Any, None]) -> None:
    """In a thread of its own: the thread of the tests may have a running loop (page tests leave one)."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, coroutine).result()


async def until(condition: Callable[[], bool]) -> None:
    """The engine's thread has got there. (A pause between two looks, so that the thread gets the interpreter.)"""
    while not condition():
        await asyncio.sleep(0.001)


async def collect(stream: AsyncIterator[StreamUpdate]) -> list[StreamUpdate]:
    return [update async for update in stream]


def joined(updates: list[StreamUpdate]) -> tuple[str, tuple[int, ...]]:
    return "".join(update.text for update in updates), tuple(token for update in updates for token in update.token_ids)


# -- streams -----------------------------------------------------------------------------------------------------------------


def test_streams_give_what_llm_gives_each_to_its_own_caller(run: Callable[..., None], tiny: LLM) -> None:
    prompts = [f"prompt {i}" for i in range(20)]
    params = [SamplingParams(max_tokens=5 + i, temperature=1.5, seed=i, ignore_eos=True) for i in range(20)]
    expected = tiny.generate(prompts, params)

    async def test(engine: AsyncEngine, gate: Gate) -> None:
        gate.open()
        results = await asyncio.gather(*(collect(engine.generate(p, s)) for p, s in zip(prompts, params, strict=True)))
        for updates, whole in zip(results, expected, strict=True):
            assert joined(updates) == (whole.text, whole.token_ids)
            output = updates[-1].output
            assert output is not None and output.finish_reason == "length" and output.usage == whole.usage
            assert all(update.output is None for update in updates[:-1])

    run(test, max_num_seqs=7)


def test_conversations_token_ids_and_n_sequences_work_as_in_llm(run: Callable[..., None], tiny: LLM) -> None:
    chat = [{"role": "user", "content": "hi"}]
    several = SamplingParams(max_tokens=5, temperature=2.0, seed=3, n=3, ignore_eos=True)

    async def test(engine: AsyncEngine, gate: Gate) -> None:
        gate.open()
        assert (await engine.complete(chat, SHORT)).text == tiny.chat(chat, SHORT)[0].text
        assert (await engine.complete([1, 2, 3], SHORT)).token_ids == tiny.generate([1, 2, 3], SHORT)[0].token_ids
        output, (expected,) = await engine.complete("abc", several), tiny.generate("abc", several)
        assert [o.token_ids for o in output.outputs] == [o.token_ids for o in expected.outputs]

    run(test)


def test_a_slow_reader_gets_many_steps_in_one_update_and_holds_up_nobody(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        slow = engine.generate("slow", LONG)
        gate.open(1)
        first = await anext(slow)
        gate.open()
        quick = await engine.complete("quick", SamplingParams(max_tokens=100, ignore_eos=True))
        assert len(quick.token_ids) == 100
        rest = await collect(slow)
        assert len(rest) == 1 and len(first.token_ids) + len(rest[0].token_ids) == 60

    run(test)


# -- going away ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["closed", "cancelled", "dropped", "aborted"])
def test_a_caller_who_goes_away_takes_the_request_with_it(run: Callable[..., None], how: str) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        stream = engine.generate("going away", LONG, request_id="r")
        gate.open(1)
        await anext(stream)
        other = asyncio.create_task(engine.complete("staying", LONG))
        await until(lambda: engine.num_unfinished == 2)
        if how == "closed":
            await stream.aclose()
        elif how == "cancelled":
            reader = asyncio.create_task(collect(stream))
            await asyncio.sleep(0)
            reader.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reader
        elif how == "aborted":
            engine.abort("r")
            engine.abort("nobody")
        else:
            del stream
            gc.collect()
        thread = engine._thread
        await until(lambda: engine.num_unfinished == 1 or any(command == thread._engine.abort for command, _ in list(thread._commands)))
        gate.open()
        if how == "aborted":
            updates = await collect(stream)
            assert updates[-1].output is not None and updates[-1].output.finish_reason == "abort"
            assert len(updates[-1].output.token_ids) < 60
        assert len((await other).token_ids) == 60
        await until(lambda: engine.num_unfinished == 0)
        assert gate.core.scheduler.kv.pool.num_used == 0
        assert engine.metrics.to_dict()["vllm:request_success_total"]["abort"] == 1

    run(test)


def test_a_stream_that_nobody_started_never_reaches_the_engine(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        stream = engine.generate("never", LONG)
        assert engine.num_unfinished == 0
        await stream.aclose()

    run(test)


def test_an_id_is_free_again_when_its_request_is_over_and_refused_before(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        first = asyncio.create_task(engine.complete("one", SHORT, request_id="same"))
        await until(lambda: engine.num_unfinished == 1)
        with pytest.raises(DuplicateRequestError, match="'same' is alive"):
            await engine.complete("two", SHORT, request_id="same")
        gate.open()
        expected = await first
        assert (await engine.complete("one", SHORT, request_id="same")).token_ids == expected.token_ids

    run(test)


# -- backpressure, refusals ------------------------------------------------------------------------------------------------------


def test_more_than_fit_and_may_wait_are_refused_by_name_and_the_others_finish(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        tasks = [asyncio.create_task(engine.complete(f"p{i}", SHORT)) for i in range(9)]
        await until(lambda: sum(task.done() for task in tasks) == 4)
        gate.open()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        refused = [result for result in results if isinstance(result, BaseException)]
        assert len(refused) == 4 and all(isinstance(error, QueueFullError) and "try again" in str(error) for error in refused)
        assert all(len(result.token_ids) == 6 for result in results if isinstance(result, RequestOutput))
        assert len((await engine.complete("later", SHORT)).token_ids) == 6
        with pytest.raises(RequestTooLargeError, match="6 sequences"):
            await engine.complete("n", SamplingParams(n=6, temperature=1.0))

    run(test, max_num_seqs=2, max_waiting_requests=3)


def test_a_request_that_is_aborted_while_its_prompt_is_still_tokenized_generates_nothing(
    run: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        entered, go, prepare = threading.Event(), threading.Event(), engine._inputs.request

        def slow(*arguments: Any, **options: Any) -> Any:
            entered.set()
            go.wait()
            return prepare(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(engine._inputs, "request", slow)
            tasks = [asyncio.create_task(engine.complete(name, SHORT, request_id=name)) for name in ("early", "other")]
            await until(entered.is_set)
            engine.abort("early")
            go.set()
            gate.open()
            early, other = await asyncio.gather(*tasks)
        assert (early.finish_reason, early.token_ids, other.finish_reason, len(other.token_ids)) == ("abort", (), "length", 6)
        assert (await engine.complete("again", SHORT, request_id="early")).finish_reason == "length", "the id is free again"

    run(test)


def test_a_bad_request_is_refused_in_its_own_call_and_harms_nobody(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        good = asyncio.create_task(engine.complete("good", LONG))
        for prompt, kind in (([1] * CONTEXT, PromptTooLongError), ([1, 999], InvalidRequestError), ("", InvalidRequestError)):
            with pytest.raises(kind):
                await engine.complete(prompt, SHORT)
        gate.open()
        assert len((await good).token_ids) == 60

    run(test)


# -- failing, draining, dying ----------------------------------------------------------------------------------------------------


def test_a_failed_step_ends_the_requests_in_it_and_the_others_go_on(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        gate.fail(RuntimeError("out of memory"))
        first = [asyncio.create_task(engine.complete(f"in the batch {i}", SHORT)) for i in range(2)]
        await until(lambda: engine.num_unfinished == 2)
        waiting = [asyncio.create_task(engine.complete(f"waiting {i}", SHORT)) for i in range(3)]
        await until(lambda: engine.num_unfinished == 5)
        gate.open()
        results = await asyncio.gather(*first, *waiting, return_exceptions=True)
        lost = [result for result in results if isinstance(result, EngineError)]
        assert 1 <= len(lost) <= 2 and all("out of memory" in str(error) for error in lost)
        assert sum(isinstance(result, RequestOutput) for result in results) == 5 - len(lost) and engine.dead is None

    run(test, max_num_seqs=2)


@pytest.mark.parametrize("end", ["three failed steps", "no exception but worse", "shutdown"])
def test_the_engines_death_is_told_to_every_waiting_caller_and_every_later_one(loaded: LoadedModel, end: str) -> None:
    async def main() -> None:
        engine = AsyncEngine(loaded.name, loaded=loaded, device="cpu", kv_cache_memory=2**20, max_num_seqs=1)
        gate = Gate(engine)
        tasks = [asyncio.create_task(engine.complete(f"p{i}", LONG)) for i in range(6)]
        streams = [engine.generate(f"s{i}", LONG) for i in range(2)]
        tasks += [asyncio.create_task(collect(stream)) for stream in streams]
        await until(lambda: engine.num_unfinished == 8)
        draining = asyncio.create_task(engine.drain())
        if end == "shutdown":
            stopping = asyncio.create_task(engine.shutdown())
            await until(lambda: engine._thread._stopping)
            gate.open()
            await stopping
        else:
            gate.fail(*([RuntimeError("broken device")] * 3 if end == "three failed steps" else [SystemExit(3)]))
            gate.open()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, EngineError) for result in results)
        num_dead = sum(isinstance(result, EngineDeadError) for result in results)
        assert num_dead == {"three failed steps": 5, "no exception but worse": 8, "shutdown": 8}[end]
        with pytest.raises(EngineDeadError):
            await draining
        with pytest.raises(EngineDeadError, match="shut down" if end == "shutdown" else "broken device|SystemExit"):
            await engine.complete("later", SHORT)
        assert engine.dead is not None and engine.num_unfinished == 0
        await engine.shutdown()

    in_a_loop(asyncio.wait_for(main(), 120))


def test_draining_finishes_what_is_there_and_takes_nothing_new(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        unread = engine.generate("nobody reads on", SHORT)
        gate.open(1)
        await anext(unread)
        tasks = [asyncio.create_task(engine.complete(f"p{i}", SHORT)) for i in range(5)]
        await until(lambda: engine.num_unfinished == 6)
        drained = asyncio.create_task(engine.drain())
        await asyncio.sleep(0)
        with pytest.raises(EngineDrainingError, match="6 requests are left"):
            await engine.complete("new", SHORT)
        gate.open()
        await drained
        assert engine.num_unfinished == 0
        assert [len(output.token_ids) for output in await asyncio.gather(*tasks)] == [6] * 5
        assert (await collect(unread))[-1].output is not None, "what was generated can still be read"
        await engine.drain()

    run(test, max_num_seqs=2)


def test_an_idle_engine_drains_at_once(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        await engine.drain()

    run(test)


def test_the_loop_goes_on_while_a_step_runs(run: Callable[..., None]) -> None:
    async def test(engine: AsyncEngine, gate: Gate) -> None:
        task = asyncio.create_task(engine.complete("blocked", SHORT))
        await until(lambda: engine.num_unfinished == 1)
        for _ in range(20):
            await asyncio.sleep(0)
            assert "vllm:num_requests_running" in engine.metrics.text() and not task.done()
        gate.open()
        await task

    run(test)


def test_an_engine_that_is_dropped_stops_its_thread(loaded: LoadedModel) -> None:
    engine = AsyncEngine(loaded.name, loaded=loaded, device="cpu", kv_cache_memory=2**20)
    thread = engine._thread._thread
    del engine
    gc.collect()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.parametrize("seed", range(4))
def test_callers_who_come_go_and_read_at_random_leave_nothing_and_miss_nothing(run: Callable[..., None], tiny: LLM, seed: int) -> None:
    rng = random.Random(seed)
    plans = [(f"prompt {i % 7}", rng.randint(1, 30), rng.choice([None, None, 0, 1, 3])) for i in range(40)]
    params = [SamplingParams(max_tokens=count, temperature=1.3, seed=i, ignore_eos=True) for i, (_, count, _) in enumerate(plans)]
    expected = tiny.generate([prompt for prompt, _, _ in plans], params)

    async def test(engine: AsyncEngine, gate: Gate) -> None:
        gate.open()

        async def caller(index: int) -> tuple[int, ...]:
            prompt, _, leaves_after = plans[index]
            tokens: tuple[int, ...] = ()
            stream = engine.generate(prompt, params[index])
            async for update in stream:
                tokens += update.token_ids
                if leaves_after is not None and len(tokens) > leaves_after:
                    break
            await stream.aclose()
            return tokens

        results = await asyncio.gather(*(caller(index) for index in range(len(plans))))
        for tokens, whole, (_, _, leaves_after) in zip(results, expected, plans, strict=True):
            assert tokens == whole.token_ids[: len(tokens)] and (leaves_after is not None or tokens == whole.token_ids)
        await until(lambda: engine.num_unfinished == 0)
        metrics = engine.metrics.to_dict()
        assert sum(metrics["vllm:request_success_total"].values()) == 40
        assert metrics["vllm:generation_tokens_total"] >= sum(map(len, results))

    run(test, max_num_seqs=6)


def test_create_loads_in_the_background(tiny_folder: Path) -> None:
    async def main() -> None:
        engine = await AsyncEngine.create(str(tiny_folder), device="cpu", kv_cache_memory=2**20)
        async with engine:
            assert len((await engine.complete([1, 2], SHORT)).token_ids) == 6

    in_a_loop(main())


@pytest.mark.parametrize(("device", "expected"), [("cuda", 1), ("cuda:0", 0)])
def test_the_engines_thread_works_on_the_device_that_its_maker_meant(device: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """torch takes no "cuda" without an index there, and every new thread starts on device 0."""
    chosen: list[object] = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    monkeypatch.setattr(torch.cuda, "set_device", lambda index: chosen.append(_get_device_index(index)))
    thread = EngineThread(FakeEngine(), 0, torch.device(device))  # type: ignore[arg-type]
    thread.stop()
    thread.join()
    assert chosen == [expected]
    assert "was shut down" in str(thread.dead)


class FakeEngine:
    """As much of an engine as a thread asks for that is told to stop at once."""

    class core:
        class scheduler:
            class config:
                max_num_seqs = 1

            has_unfinished = staticmethod(lambda: False)

    num_failures = 0
    lock = threading.Lock()

    def lose_all(self, error: EngineDeadError) -> list[object]:
        return []
