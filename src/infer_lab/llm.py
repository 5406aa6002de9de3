"""The offline API: LLM(model).generate(prompts, params), shaped like vLLM's.

    llm = LLM("smollm2")
    outputs = llm.generate(["The sky is", "Two plus two is"], SamplingParams(max_tokens=16))
    answer = llm.chat([{"role": "user", "content": "What is a KV cache?"}])

All prompts of a call run together in one engine: continuous batching, paged KV cache, prefix cache.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from numbers import Integral
from typing import Any

from infer_lab.core.request import Request
from infer_lab.core.scheduler import Scheduler
from infer_lab.engine.admission import make_request
from infer_lab.engine.build import LoadedModel, build_engine, load_model
from infer_lab.engine.detokenizer import detokenizer_for
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import EmptyPromptError, EngineError, InvalidRequestError, UserError
from infer_lab.outputs import RequestMetrics, RequestOutput, StreamUpdate
from infer_lab.sampling_params import SamplingParams
from infer_lab.tokenizer import Message, Tokenizer

Prompt = str | Sequence[int]
Params = SamplingParams | Sequence[SamplingParams] | None


class LLM:
    """One model in memory with its engine. Not for use from several threads at once. Options are the fields of EngineConfig."""

    def __init__(self, model: str | EngineConfig = "smollm2", *, loaded: LoadedModel | None = None, **options: Any) -> None:
        """loaded: the `loaded` of another LLM, to try other engine options on the same weights without reading them again."""
        config = _engine_config(model, options)
        if loaded is not None and config.model != loaded.name:
            raise UserError(f"model {config.model!r} was asked for with the weights of {loaded.name!r}")
        self.config = config
        self.loaded = loaded or load_model(config)
        built = build_engine(config, self.loaded)
        self.engine = built.core
        self.kv_cache = built.cache
        self.max_model_len = built.max_model_len
        self.model_config = self.loaded.config
        self.device, self.dtype = self.loaded.device, self.loaded.dtype
        self._tokenizer = self.loaded.checkpoint.tokenizer
        self._eos = self.loaded.checkpoint.eos_token_ids
        self._seeds = random.Random(config.seed)
        self._count = 0
        self._closed = False
        self._busy = False  # the scheduler is at work
        self._dropped: list[Request] = []  # streams that were dropped meanwhile (by the garbage collector, anywhere)

    # -- what a caller wants ----------------------------------------------------------------------------------------------

    def generate(self, prompts: Prompt | Sequence[Prompt], params: Params = None) -> list[RequestOutput]:
        """Continue each prompt (text, or token ids); results in the order of the prompts. params: one for all, or one for each.

        Every prompt is checked before anything runs: EmptyPromptError, PromptTooLongError, RequestTooLargeError, InvalidRequestError.
        """
        listed = _as_prompts(prompts)
        return self._run(self._requests([(p if isinstance(p, str) else None, self._ids(p, i)) for i, p in enumerate(listed)], params))

    def chat(self, messages: Sequence[Message] | Sequence[Sequence[Message]], params: Params = None) -> list[RequestOutput]:
        """Answer a conversation, or each of several: lists of {"role": "system" | "user" | "assistant", "content": text}."""
        if not isinstance(messages, Sequence) or isinstance(messages, str):
            raise UserError(f'a conversation is a list of {{"role": "user", "content": "text"}}, got {messages!r}')
        conversations = [messages] if not messages or isinstance(messages[0], Mapping) else messages
        prompts = []
        for conversation in conversations:
            text = self.tokenizer.render_chat(conversation)  # type: ignore[arg-type]
            prompts.append((text, self._encode(text, add_special_tokens=False)))
        return self._run(self._requests(prompts, params))

    def stream(self, prompt: Prompt | Sequence[Message], params: SamplingParams | None = None) -> Iterator[StreamUpdate]:
        """One prompt or conversation, token by token. Several streams may be read in turn: they run together in one batch.

        Leaving the loop early, and dropping or closing what this returns, aborts the request."""
        if not isinstance(prompt, str) and isinstance(prompt, Sequence) and len(prompt) and isinstance(prompt[0], Mapping):
            text: str | None = self.tokenizer.render_chat(prompt)  # type: ignore[arg-type]
            ids = self._encode(text, add_special_tokens=False)
        else:
            text, ids = (prompt if isinstance(prompt, str) else None), self._ids(prompt, 0)  # type: ignore[arg-type]
        if not isinstance(params, SamplingParams | None):
            raise UserError(f"stream takes one SamplingParams, got {params!r}")
        (pair,) = self._requests([(text, ids)], params)
        return _Stream(self, *pair)

    @property
    def tokenizer(self) -> Tokenizer:
        if self._tokenizer is None:
            raise UserError(f"{self.model_config.name} has no tokenizer; give token ids, such as generate([[1, 2, 3]])")
        return self._tokenizer

    @property
    def has_tokenizer(self) -> bool:
        return self._tokenizer is not None

    def close(self) -> None:
        """Give the memory back. The object cannot be used afterwards."""
        if not self._closed:
            self._closed = True
            del self.engine, self.kv_cache, self.loaded
            if self.device.type == "cuda":
                import torch

                torch.cuda.empty_cache()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- requests ------------------------------------------------------------------------------------------------------------

    def _ids(self, prompt: Prompt, index: int) -> list[int]:
        if isinstance(prompt, str):
            ids = self._encode(prompt)
        elif isinstance(prompt, (bytes, Mapping)) or not hasattr(prompt, "__iter__"):
            raise InvalidRequestError(f"prompt {index} is neither text nor token ids: {prompt!r}")
        else:
            ids = prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)  # type: ignore[union-attr]  (arrays)
            for token in ids:
                if not isinstance(token, Integral) or isinstance(token, bool) or not 0 <= int(token) < self.model_config.vocab_size:
                    raise InvalidRequestError(
                        f"prompt {index}: {token!r} is not a token id; the vocabulary has {self.model_config.vocab_size}"
                    )
        if not ids:
            raise EmptyPromptError(f"prompt {index} holds no token; give some text or at least one token id")
        return ids

    def _encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids = self.tokenizer.encode(text, add_special_tokens)
        if ids and max(ids) >= self.model_config.vocab_size:
            raise InvalidRequestError(
                f"the tokenizer gives token {max(ids)} for this text, and the model has {self.model_config.vocab_size} only;"
                " its tokenizer is not the one that it was trained with"
            )
        return ids

    def _requests(self, prompts: Sequence[tuple[str | None, list[int]]], params: Params) -> list[tuple[str | None, Request]]:
        if self._closed:
            raise UserError("this LLM was closed; make a new one")
        if params is None or isinstance(params, SamplingParams):
            params = [params or SamplingParams()] * len(prompts)
        if not isinstance(params, Sequence) or not all(isinstance(p, SamplingParams) for p in params):
            raise UserError(f"sampling parameters are a SamplingParams, or one for each prompt; got {params!r}")
        if len(params) != len(prompts):
            raise UserError(f"{len(prompts)} prompts came with {len(params)} sampling parameters; give one for all, or one for each")
        requests = []
        for (text, ids), p in zip(prompts, params, strict=True):
            if p.seed is None and p.temperature > 0:
                p = replace(p, seed=self._seeds.getrandbits(63))
            request = make_request(str(self._count), ids, p, vocab_size=self.model_config.vocab_size, eos_token_ids=self._eos)
            self._count += 1
            requests.append((text, request))
        added: list[Request] = []
        try:
            with self._at_work():
                for _, request in requests:
                    added.append(request)
                    self.engine.scheduler.add(request)
        except BaseException:
            for request in added:
                self._abort(request)
            raise
        return requests

    def _run(self, requests: list[tuple[str | None, Request]]) -> list[RequestOutput]:
        try:
            for _, request in requests:
                while not request.is_finished:
                    self._step(request)
        except BaseException:  # a failed step, or Ctrl-C between two steps
            for _, request in requests:
                self._abort(request)
            raise
        return [self._output(text, request) for text, request in requests]

    def _abort(self, request: Request) -> None:
        if self._busy:
            self._dropped.append(request)
        elif not self._closed and self.engine.scheduler.requests.get(request.request_id) is request:
            self.engine.scheduler.abort(request.request_id)

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            while self._dropped:
                self._abort(self._dropped.pop())

    def _step(self, request: Request) -> None:
        """One step of the engine, for the sake of a request that is not finished."""
        if self._closed or self.engine.scheduler.requests.get(request.request_id) is not request:
            raise EngineError(f"request {request.request_id} was lost: the engine was closed, or a step failed that ran for another call")
        with self._at_work():
            try:
                self.engine.step()
            except BaseException as error:
                # the step is neither done nor undone (out of memory, Ctrl-C): every living request is lost, the engine is not
                self.engine.reset(Scheduler(self.engine.scheduler.config))
                if isinstance(error, Exception):
                    raise EngineError(f"a step failed, and its requests are lost: {error}") from error
                raise

    def _output(self, text: str | None, request: Request) -> RequestOutput:
        tokens = tuple(request.output_token_ids)
        timeline = request.timeline
        arrival = timeline.arrival_time or 0.0
        metrics = RequestMetrics(
            queue_s=timeline.queue_time or 0.0,
            ttft_s=timeline.ttft or 0.0,
            tpot_s=timeline.tpot,
            e2e_s=(timeline.finish_time or arrival) - arrival,
            itl_s=tuple(after - before for before, after in pairwise(timeline.token_times)),
            num_preemptions=request.num_preemptions,
        )
        return RequestOutput(
            request_id=request.request_id,
            prompt=text,
            prompt_token_ids=tuple(request.prompt_token_ids),
            token_ids=tokens,
            text=self._tokenizer.decode(tokens) if self._tokenizer else "",
            finish_reason=request.finish_reason or "abort",
            num_cached_tokens=request.num_cached_tokens,
            metrics=metrics,
        )


class _Stream(Iterator[StreamUpdate]):
    """Why not a generator: one that is dropped before it was started would leave its request in the engine. Tokens are read from the
    request itself, so those of steps that ran for somebody else are not missed."""

    def __init__(self, llm: LLM, text: str | None, request: Request) -> None:
        self._llm, self._text, self._request = llm, text, request
        self._detokenizer = detokenizer_for(llm.tokenizer) if llm.has_tokenizer else None
        self._given = 0
        self._over = False

    def __next__(self) -> StreamUpdate:
        if self._over:
            raise StopIteration
        request = self._request
        try:
            while request.num_output_tokens == self._given and not request.is_finished:
                self._llm._step(request)
        except BaseException:
            self.close()
            raise
        tokens = tuple(request.output_token_ids[self._given :])
        self._given += len(tokens)
        text = self._detokenizer.add(*tokens) if self._detokenizer else ""
        if not request.is_finished:
            return StreamUpdate(text, tokens)
        self._over = True
        text += self._detokenizer.flush() if self._detokenizer else ""
        return StreamUpdate(text, tokens, self._llm._output(self._text, request))

    def close(self) -> None:
        """Abort the request, if it is not over."""
        self._over = True
        self._llm._abort(self._request)

    def __del__(self) -> None:
        self.close()


def _engine_config(model: str | EngineConfig, options: dict[str, Any]) -> EngineConfig:
    if isinstance(model, EngineConfig):
        return replace(model, **options)
    known = EngineConfig.__dataclass_fields__
    for name in options:
        if name not in known:
            raise UserError(f"LLM has no option {name!r}; it has {', '.join(known)}")
    return EngineConfig(model=str(model), **options)


def _as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """A single prompt as a list of one."""
    if isinstance(prompts, (bytes, Mapping, set)) or not hasattr(prompts, "__iter__"):
        raise InvalidRequestError(f"prompts are text, token ids, or a list of those; got {prompts!r}")
    if isinstance(prompts, str):
        return [prompts]
    listed = list(prompts)
    # an array's elements are single numbers too
    return [listed] if (listed and isinstance(listed[0], Integral)) or getattr(prompts, "ndim", 2) == 1 else listed  # type: ignore[list-item]
