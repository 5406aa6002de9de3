"""The engine for servers: many callers on an asyncio loop, each reading its own stream, one model behind them.

    async with AsyncEngine("smollm2") as engine:
        async for update in engine.generate("The sky is", SamplingParams(max_tokens=16)):
            print(update.text, end="")

The model runs in a thread of its own (engine_thread.py), so the loop never waits for a step. A caller who goes away (task cancelled,
generator closed) takes its request with it. One who reads slowly gets the news of several steps in one update, and holds up nobody.
"""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from infer_lab.engine.build import LoadedModel
from infer_lab.engine.engine_thread import Announce, EngineThread, copy_of
from infer_lab.engine.input_processor import Conversation, Prompt
from infer_lab.engine.llm_engine import LLMEngine
from infer_lab.engine.metrics import EngineMetrics
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import EngineDeadError, UserError
from infer_lab.llm import resolve_model
from infer_lab.outputs import RequestOutput, StreamUpdate
from infer_lab.sampling_params import SamplingParams


class AsyncEngine:
    """Options are the fields of EngineConfig; max_waiting_requests says how many may wait beside those that fit into a batch, before
    QueueFullError. The model is loaded at once, which takes its time: in a running loop, use `create`."""

    def __init__(self, model: str | EngineConfig = "smollm2", *, loaded: LoadedModel | None = None, **options: Any) -> None:
        """loaded: the `loaded` of another engine, to share its weights."""
        self.config, self.loaded = resolve_model(model, loaded, options)
        # that limit holds before the engine's thread, which lets requests in only between steps
        engine = LLMEngine(replace(self.config, max_waiting_requests=0), self.loaded)
        self.max_model_len = engine.max_model_len
        self.model_config = self.loaded.config
        self.metrics: EngineMetrics = engine.metrics
        self._inputs = engine.inputs
        self._lock = engine.lock
        self._thread = EngineThread(engine, self.config.max_waiting_requests, self.loaded.device)
        self._preparing: dict[object, str] = {}  # ids of requests that the engine does not have yet, and that nobody has aborted
        weakref.finalize(self, self._thread.stop)

    @classmethod
    async def create(cls, *arguments: Any, **options: Any) -> AsyncEngine:
        """As the constructor, without holding up the loop."""
        return await asyncio.to_thread(cls, *arguments, **options)

    # -- requests ------------------------------------------------------------------------------------------------------------

    async def generate(
        self,
        prompt: Prompt | Conversation,
        params: SamplingParams | None = None,
        *,
        request_id: str | None = None,
        priority: int = 0,
        tenant: str = "",
    ) -> AsyncGenerator[StreamUpdate]:
        """Continue a prompt (text, token ids) or answer a conversation; the last update carries the whole output.

        Refused at the first step into the loop: what `LLM.generate` refuses, DuplicateRequestError, QueueFullError, EngineDrainingError,
        EngineDeadError. EngineError: the step failed that the request was in. Leaving the loop aborts the request.
        """
        if not isinstance(params, SamplingParams | None):
            raise UserError(f"generate takes one SamplingParams, got {params!r}")
        params = params or SamplingParams()
        request_id = uuid.uuid4().hex if request_id is None else request_id
        self._thread.check_room(params.n)
        ticket = object()
        self._preparing[ticket] = request_id
        try:
            state = await asyncio.to_thread(self._inputs.request, request_id, prompt, params, priority=priority, tenant=tenant)
        finally:
            is_aborted = self._preparing.pop(ticket, None) is None
        news = asyncio.Event()
        self._thread.submit(state, _in_loop(news))
        try:
            if is_aborted:
                self._thread.abort(request_id, state)
            over = False
            while not over:
                await news.wait()
                news.clear()
                with self._lock:
                    updates, over = state.take(), state.is_finished
                for update in updates:
                    yield update
        finally:
            self._thread.abort(request_id, state)
        if state.error is not None:
            raise copy_of(state.error)

    async def complete(
        self,
        prompt: Prompt | Conversation,
        params: SamplingParams | None = None,
        *,
        request_id: str | None = None,
        priority: int = 0,
        tenant: str = "",
    ) -> RequestOutput:
        """The whole answer, for callers who want no stream. Cancelling aborts the request."""
        output = None
        async for update in self.generate(prompt, params, request_id=request_id, priority=priority, tenant=tenant):
            output = update.output
        assert output is not None
        return output

    def abort(self, request_id: str) -> None:
        """End a request after the running step; its stream ends with finish_reason "abort". No error if it is over."""
        for ticket, name in list(self._preparing.items()):
            if name == request_id:
                self._preparing.pop(ticket, None)
        self._thread.abort(request_id)

    # -- the engine ----------------------------------------------------------------------------------------------------------

    @property
    def num_unfinished(self) -> int:
        """Requests that are not over."""
        return self._thread.num_unfinished

    @property
    def dead(self) -> EngineDeadError | None:
        """Why the engine does not run any more, if it does not."""
        return self._thread.dead

    async def drain(self) -> None:
        """Take nothing new, and wait until all requests are over (read or not). EngineDeadError if the engine dies meanwhile."""
        empty = asyncio.Event()
        self._thread.drain(_in_loop(empty))
        if self.dead is None:
            await empty.wait()
        if self.dead is not None:
            raise copy_of(self.dead)

    async def shutdown(self) -> None:
        """End after the running step. Who still waits gets EngineDeadError, and so does everybody later."""
        self._thread.stop()
        await asyncio.to_thread(self._thread.join)

    async def __aenter__(self) -> AsyncEngine:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shutdown()


def _in_loop(event: asyncio.Event) -> Announce:
    """Sets the event from another thread. A loop that was closed meanwhile has nobody left to tell."""
    loop = asyncio.get_running_loop()

    def announce() -> None:
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(event.set)

    return announce
