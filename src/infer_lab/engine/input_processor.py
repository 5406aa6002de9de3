"""From what a caller gives (text, token ids, a conversation; parameters) to requests of the core, checked whole.

Why before the engine: what cannot be served is refused here, by name and in the caller's own call, so that the engine only ever sees
requests that fit, and one bad request harms nobody else.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral

from infer_lab.core.config import SchedulerConfig
from infer_lab.core.limits import check_request
from infer_lab.engine.admission import make_request
from infer_lab.engine.build import LoadedModel
from infer_lab.engine.output_processor import RequestState
from infer_lab.engine.sequence import SequenceState
from infer_lab.errors import EmptyPromptError, InvalidRequestError, UnsupportedOptionError, UserError
from infer_lab.sampling_params import SamplingParams
from infer_lab.tokenizer import Message, Tokenizer

Prompt = str | Sequence[int]
Conversation = Sequence[Message]


class InputProcessor:
    """seed: of the engine; requests without a seed of their own draw theirs from it."""

    def __init__(self, loaded: LoadedModel, limits: SchedulerConfig, seed: int | None) -> None:
        self.tokenizer: Tokenizer | None = loaded.checkpoint.tokenizer
        self._model_name = loaded.config.name
        self._vocab_size = loaded.config.vocab_size
        self._eos = loaded.checkpoint.eos_token_ids
        self._limits = limits
        self._seeds = random.Random(seed)

    def request(
        self,
        request_id: str,
        prompt: Prompt | Conversation,
        params: SamplingParams,
        name: str = "the prompt",
        *,
        priority: int = 0,
        tenant: str = "",
    ) -> RequestState:
        """name: of the prompt, in messages. EmptyPromptError, PromptTooLongError, RequestTooLargeError, InvalidRequestError, UserError."""
        if priority != 0 and self._limits.policy != "priority":
            raise UnsupportedOptionError(
                f"priority = {priority!r} changes nothing under policy {self._limits.policy!r}; set policy='priority'"
            )
        text, ids = self._encode_prompt(prompt, name)
        if params.stop and self.tokenizer is None:
            raise UserError(
                f"{self._model_name} has no tokenizer, so no text in which to look for stop = {params.stop!r}; use stop_token_ids"
            )
        if params.seed is None and params.temperature > 0:
            params = replace(params, seed=self._seeds.getrandbits(63))
        sequences = []
        for index in range(params.n):
            own = params.for_child(index)
            request = make_request(
                request_id if params.n == 1 else f"{request_id}#{index}",
                ids,
                own,
                vocab_size=self._vocab_size,
                eos_token_ids=self._eos,
                priority=priority,
                tenant=tenant,
            )
            check_request(request, self._limits)
            sequences.append(SequenceState(index, request, own, self.tokenizer))
        return RequestState(request_id, text, sequences)

    def require_tokenizer(self) -> Tokenizer:
        if self.tokenizer is None:
            raise UserError(f"{self._model_name} has no tokenizer; give token ids, such as generate([[1, 2, 3]])")
        return self.tokenizer

    def _encode_prompt(self, prompt: Prompt | Conversation, name: str) -> tuple[str | None, list[int]]:
        if is_conversation(prompt):
            text = self.require_tokenizer().render_chat(prompt)  # type: ignore[arg-type]
            return text, self._encode(text, add_special_tokens=False)
        if isinstance(prompt, str):
            ids = self._encode(prompt)
        elif isinstance(prompt, (bytes, Mapping)) or not hasattr(prompt, "__iter__"):
            raise InvalidRequestError(f"{name} is neither text nor token ids: {prompt!r}")
        else:
            ids: list[int] = prompt.tolist() if hasattr(prompt, "tolist") else list(prompt)  # type: ignore  (an array, or not of integers)
            if set(map(type, ids)) != {int} or min(ids) < 0 or max(ids) >= self._vocab_size:  # one by one only where that is in doubt
                for token in ids:
                    if not isinstance(token, Integral) or isinstance(token, bool) or not 0 <= int(token) < self._vocab_size:
                        raise InvalidRequestError(f"{name}: {token!r} is not a token id; the vocabulary has {self._vocab_size}")
        if not ids:
            raise EmptyPromptError(f"{name} holds no token; give some text or at least one token id")
        return (prompt if isinstance(prompt, str) else None), ids  # type: ignore[return-value]

    def _encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        ids = self.require_tokenizer().encode(text, add_special_tokens)
        if ids and max(ids) >= self._vocab_size:
            raise InvalidRequestError(
                f"the tokenizer gives token {max(ids)} for this text, and the model has {self._vocab_size} only;"
                " its tokenizer is not the one that it was trained with"
            )
        return ids


def is_conversation(prompt: object) -> bool:
    return isinstance(prompt, Sequence) and not isinstance(prompt, str) and len(prompt) > 0 and isinstance(prompt[0], Mapping)


def as_prompts(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    """A single prompt as a list of one."""
    if isinstance(prompts, (bytes, Mapping, set)) or not hasattr(prompts, "__iter__"):
        raise InvalidRequestError(f"prompts are text, token ids, or a list of those; got {prompts!r}")
    if isinstance(prompts, str):
        return [prompts]
    if getattr(prompts, "ndim", 2) == 1:
        return [prompts]  # type: ignore[list-item]  (an array of token ids)
    listed = list(prompts)
    return [listed] if listed and isinstance(listed[0], Integral) else listed  # type: ignore[list-item, return-value]


def as_params(params: SamplingParams | Sequence[SamplingParams] | None, num_prompts: int) -> list[SamplingParams]:
    """One for each prompt."""
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * num_prompts
    if not isinstance(params, Sequence) or not all(isinstance(p, SamplingParams) for p in params):
        raise UserError(f"sampling parameters are a SamplingParams, or one for each prompt; got {params!r}")
    if len(params) != num_prompts:
        raise UserError(f"{num_prompts} prompts came with {len(params)} sampling parameters; give one for all, or one for each")
    return list(params)


def as_priorities(priority: int | Sequence[int], num_prompts: int) -> list[int]:
    """One for each prompt."""
    if isinstance(priority, Integral):
        return [int(priority)] * num_prompts
    if not isinstance(priority, Sequence) or isinstance(priority, str) or len(priority) != num_prompts:
        raise UserError(f"priority is a whole number, or one for each of {num_prompts} prompts; got {priority!r}")
    return list(priority)
