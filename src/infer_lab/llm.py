"""The offline API: LLM(model).generate(prompts, params), shaped like vLLM's.

    llm = LLM("smollm2")
    outputs = llm.generate(["The sky is", "Two plus two is"], SamplingParams(max_tokens=16))
    answer = llm.chat([{"role": "user", "content": "What is a KV cache?"}])

All prompts of a call run together in one engine: continuous batching, paged KV cache, prefix cache.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from infer_lab.engine.build import LoadedModel, load_model
from infer_lab.engine.device_executor import give_back
from infer_lab.engine.input_processor import Conversation, Prompt, as_params, as_priorities, as_prompts
from infer_lab.engine.llm_engine import LLMEngine
from infer_lab.engine.metrics import EngineMetrics
from infer_lab.engine.output_processor import RequestState
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import EngineError, UserError
from infer_lab.outputs import RequestOutput, StreamUpdate
from infer_lab.progress import progress_bar
from infer_lab.sampling_params import SamplingParams
from infer_lab.tokenizer import Tokenizer

Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """One model in memory with its engine. Not for use from several threads at once (that is AsyncEngine). Options are the fields of
    EngineConfig."""

    def __init__(self, model: str | EngineConfig = "smollm2", *, loaded: LoadedModel | None = None, **options: Any) -> None:
        """loaded: the `loaded` of another LLM, to try other engine options on the same weights without reading them again."""
        self.config, self.loaded = resolve_model(model, loaded, options)
        self.llm_engine = LLMEngine(self.config, self.loaded)
        self.engine = self.llm_engine.core
        self.kv_cache = self.llm_engine.kv_cache
        self.max_model_len = self.llm_engine.max_model_len
        self.model_config = self.loaded.config
        self.device, self.dtype = self.loaded.device, self.loaded.dtype
        self._inputs = self.llm_engine.inputs
        self._count = 0
        self._closed = False
        self._busy = False  # the engine is at work
        self._dropped: list[RequestState] = []  # streams that were dropped meanwhile (by the garbage collector, anywhere)

    # -- what a caller wants ----------------------------------------------------------------------------------------------

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: Params = None,
        *,
        progress: bool | None = None,
        return_errors: bool = False,
        priority: int | Sequence[int] = 0,
        tenant: str = "",
    ) -> list[RequestOutput]:
        """Continue each prompt (text, or token ids); results in the order of the prompts. params: one for all, or one for each.

        progress: show a bar; None shows one where stderr is a terminal.
        priority: smaller is more urgent, with policy="priority"; one for all, or one for each. tenant: whose share of the engine this is.
        Every prompt is checked before anything runs: EmptyPromptError, PromptTooLongError, RequestTooLargeError, InvalidRequestError; and
        a step that fails raises EngineError. With return_errors the others run to their end instead, and an output whose request failed
        has finish_reason "error" and says why in `error`.
        """
        return self._run(as_prompts(prompts), params, progress, return_errors, priority, tenant)

    def chat(
        self,
        messages: Conversation | Sequence[Conversation],
        params: Params = None,
        *,
        progress: bool | None = None,
        return_errors: bool = False,
        priority: int | Sequence[int] = 0,
        tenant: str = "",
    ) -> list[RequestOutput]:
        """Answer a conversation, or each of several: lists of {"role": "system" | "user" | "assistant", "content": text}."""
        if not isinstance(messages, Sequence) or isinstance(messages, str):
            raise UserError(f'a conversation is a list of {{"role": "user", "content": "text"}}, got {messages!r}')
        conversations = [messages] if not messages or isinstance(messages[0], Mapping) else messages
        for conversation in conversations:
            if not isinstance(conversation, Sequence) or not conversation or not isinstance(conversation[0], Mapping):
                raise UserError(f'a conversation is a list of {{"role": "user", "content": "text"}}, got {conversation!r}')
        return self._run(conversations, params, progress, return_errors, priority, tenant)  # type: ignore[arg-type]

    def stream(
        self, prompt: Prompt | Conversation, params: SamplingParams | None = None, *, priority: int = 0, tenant: str = ""
    ) -> Iterator[StreamUpdate]:
        """One prompt or conversation, token by token. Several streams may be read in turn: they run together in one batch.

        Leaving the loop early, and dropping or closing what this returns, aborts the request."""
        if not isinstance(params, SamplingParams | None):
            raise UserError(f"stream takes one SamplingParams, got {params!r}")
        self._check_open()
        state = self._inputs.request(self._next_id(), prompt, params or SamplingParams(), "prompt 0", priority=priority, tenant=tenant)
        self._add([state])
        return _Stream(self, state)

    @property
    def metrics(self) -> EngineMetrics:
        """Counters, gauges and histograms of this engine: `metrics.to_dict()`, or `metrics.text()` for Prometheus."""
        self._check_open()
        return self.llm_engine.metrics

    @property
    def tokenizer(self) -> Tokenizer:
        return self._inputs.require_tokenizer()

    @property
    def has_tokenizer(self) -> bool:
        return self._inputs.tokenizer is not None

    def close(self) -> None:
        """Give the memory back. The object cannot be used afterwards."""
        if not self._closed:
            self._closed = True
            del self.engine, self.kv_cache, self.loaded, self.llm_engine
            if self.device.type == "cuda":
                give_back()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests ------------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise UserError("this LLM was closed; make a new one")

    def _next_id(self) -> str:
        self._count += 1
        return str(self._count - 1)

    def _run(
        self,
        prompts: Sequence[Prompt | Conversation],
        params: Params,
        progress: bool | None,
        return_errors: bool,
        priority: int | Sequence[int],
        tenant: str,
    ) -> list[RequestOutput]:
        self._check_open()
        states: list[RequestState] = []
        each = zip(prompts, as_params(params, len(prompts)), as_priorities(priority, len(prompts)), strict=True)
        for index, (prompt, own, urgency) in enumerate(each):
            request_id = self._next_id()
            try:
                states.append(self._inputs.request(request_id, prompt, own, f"prompt {index}", priority=urgency, tenant=tenant))
            except UserError as error:
                if not return_errors:
                    raise
                states.append(RequestState.refused(request_id, prompt if isinstance(prompt, str) else None, error))
        self._add([state for state in states if not state.is_finished])
        try:
            self._finish(states, progress, return_errors)
        except BaseException:  # a failed step, or Ctrl-C between two steps
            for state in states:
                self._abort(state)
            raise
        return [state.output() for state in states]

    def _finish(self, states: Sequence[RequestState], progress: bool | None, return_errors: bool) -> None:
        """Step until all of them are over."""
        own = set(states)
        with progress_bar(len(states), progress) as bar:
            for state in states:
                while not state.is_finished:
                    finished = [touched for touched in self._step(state) if touched.is_finished and touched in own]
                    if bar and finished:
                        bar.advance(len(finished), sum(state.num_output_tokens for state in finished))
                if state.error is not None and not return_errors:
                    raise state.error

    def _add(self, states: Sequence[RequestState]) -> None:
        try:
            with self._at_work():
                for state in states:
                    self.llm_engine.add(state)
        except BaseException:
            for state in states:
                self._abort(state)
            raise

    def _abort(self, state: RequestState) -> None:
        if self._busy:
            self._dropped.append(state)
        elif not self._closed:
            self.llm_engine.abort(state)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            while self._dropped:
                self._abort(self._dropped.pop())

    def _step(self, state: RequestState) -> list[RequestState]:
        """One step of the engine, for the sake of a request that is not finished. The requests that have news."""
        if self._closed or not self.llm_engine.is_alive(state):
            raise EngineError(f"request {state.request_id!r} was lost: the engine was closed, or an interrupt broke a step")
        with self._at_work():
            try:
                return self.llm_engine.step()
            except BaseException as error:
                # Ctrl-C: the step is neither done nor undone. Every living request is lost, the engine is not
                self.llm_engine.lose_all(EngineError(f"every request was lost: a step was interrupted: {error!r}"))
                raise


class _Stream(Iterator[StreamUpdate]):
    """Why not a generator: one that is dropped before it was started would leave its request in the engine. News is kept in the request's
    state, so that of steps that ran for somebody else is not missed."""

    def __init__(self, llm: LLM, state: RequestState) -> None:
        self._llm, self._state = llm, state
        self._news: deque[StreamUpdate] = deque()
        self._over = False

    def __next__(self) -> StreamUpdate:
        state = self._state
        try:
            while not self._news and not self._over:
                self._news += state.take()
                if self._news:
                    break
                if state.error is not None:
                    raise state.error
                if state.is_finished:
                    self._over = True
                else:
                    self._llm._step(state)
        except BaseException:
            self.close()
            raise
        if not self._news:
            raise StopIteration
        return self._news.popleft()

    def close(self) -> None:
        """Abort the request, if it is not over."""
        self._over = True
        self._news.clear()
        self._llm._abort(self._state)

    def __del__(self) -> None:
        self.close()


def resolve_model(model: str | EngineConfig, loaded: LoadedModel | None, options: Mapping[str, Any]) -> tuple[EngineConfig, LoadedModel]:
    """The configuration that the arguments of `LLM` mean, and the model in memory."""
    if isinstance(model, EngineConfig):
        config = replace(model, **options)
    else:
        known = EngineConfig.__dataclass_fields__
        for name in options:
            if name not in known:
                raise UserError(f"LLM has no option {name!r}; it has {', '.join(known)}")
        config = EngineConfig(model=str(model), **options)
    if loaded is not None and config.model != loaded.name:
        raise UserError(f"model {config.model!r} was asked for with the weights of {loaded.name!r}")
    return config, loaded or load_model(config)
