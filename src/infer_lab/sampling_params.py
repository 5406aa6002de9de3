"""What a caller may ask of one request. An option that is not here is an error, never ignored.

Names and meaning are vLLM's, where it has them. What happens to the logits of a token, in this order (vLLM V1's):

    log-probabilities for the caller are taken, from the logits as the model gave them
    allowed_token_ids → banned_token_ids → min_tokens (end and stop tokens) → logit_bias      masks, and sums
    repetition_penalty → frequency_penalty → presence_penalty
    temperature 0: the largest wins
    else: temperature → min_p → top_k → top_p (of what is left each time) → a draw

Imports no torch: the server and the course check options without it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any

from infer_lab.errors import UnsupportedOptionError, UserError

_LARGEST = 1e30  # temperatures are float32 where they are used
_SEEDS = 2**63
_PENALTIES = (1e-2, 1e2)  # beyond it float32 logits could leave their range
_BIAS = 100.0  # as in the OpenAI API; enough to force or forbid a token

# options of other engines, and what to do instead
_ELSEWHERE = {
    "best_of": "ask for n and choose by logprobs",
    "use_beam_search": "beam search is not implemented",
    "length_penalty": "it belongs to beam search, which is not implemented",
    "bad_words": "give banned_token_ids, such as those that the tokenizer has for the word",
    "logits_processors": "use logit_bias, allowed_token_ids and banned_token_ids",
    "structured_outputs": "guided decoding is not implemented",
    "guided_decoding": "guided decoding is not implemented",
    "truncate_prompt_tokens": "shorten the prompt before",
    "max_new_tokens": "it is called max_tokens here",
    "min_new_tokens": "it is called min_tokens here",
    "do_sample": "temperature 0 is greedy, a temperature above 0 samples",
    "num_return_sequences": "it is called n here",
}


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """max_tokens: generate at most so many. min_tokens: the end token and stop tokens are masked, and stop strings not looked for,
        before so many were generated (the model's context still ends a request).
    temperature: 0 is greedy, and the default (vLLM's is 1).
    top_k 0 (or -1), top_p 1 and min_p 0 switch those filters off. min_p: the least probability that a token may have, as a share of the
        likeliest token's.
    seed: fixes the request's own random stream (drawn by position, so batch mates, chunking and preemption do not change it); None
        takes a fresh one. Sequence i of n has seed + i.
    repetition_penalty: divides the positive logits, and multiplies the negative ones, of tokens in prompt or output.
    frequency_penalty, presence_penalty: subtracted for each time, and once, that a token stands in the output alone. Between -2 and 2.
    logit_bias: token id → what is added to its logit, between -100 and 100.
    allowed_token_ids: nothing else is generated (None: all are allowed). banned_token_ids: these never are.
    stop_token_ids: they end the request as the model's end tokens do, and count as output. ignore_eos: the model's own do not end it.
    stop: texts that end the request; include_stop_str_in_output leaves them at the end of the text.
    n: how many sequences from one prompt, which is computed once.
    logprobs: log-probabilities of each generated token and of the k likeliest there (0: of the generated token alone).
    prompt_logprobs: the same for the prompt's tokens, the first excepted. Such a request computes all of its prompt: what the prefix
        cache holds has no logits.
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int | None = None
    ignore_eos: bool = False
    stop_token_ids: Sequence[int] = ()
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict, hash=False)
    allowed_token_ids: Sequence[int] | None = None
    banned_token_ids: Sequence[int] = ()
    min_tokens: int = 0
    stop: str | Sequence[str] = ()
    include_stop_str_in_output: bool = False
    n: int = 1
    logprobs: int | None = None
    prompt_logprobs: int | None = None

    def __new__(cls, *args: Any, **options: Any) -> SamplingParams:
        known = {f.name for f in fields(cls)}
        for name in options:
            if name not in known:
                hint = _ELSEWHERE.get(name, f"the options are {', '.join(f.name for f in fields(cls))}")
                raise UnsupportedOptionError(f"SamplingParams has no option {name!r}: {hint}")
        return object.__new__(cls)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "max_tokens", _whole("max_tokens", self.max_tokens, 1))
        put(self, "min_tokens", _whole("min_tokens", self.min_tokens, 0))
        put(self, "n", _whole("n", self.n, 1))
        put(self, "top_k", _whole("top_k", self.top_k, -1))
        for name in ("logprobs", "prompt_logprobs", "seed"):
            if getattr(self, name) is not None:
                put(self, name, _whole(name, getattr(self, name), 0))
        put(self, "temperature", _number("temperature", self.temperature, 0.0, _LARGEST))
        put(self, "top_p", _number("top_p", self.top_p, 0.0, 1.0))
        put(self, "min_p", _number("min_p", self.min_p, 0.0, 1.0))
        put(self, "repetition_penalty", _number("repetition_penalty", self.repetition_penalty, *_PENALTIES))
        put(self, "frequency_penalty", _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0))
        put(self, "presence_penalty", _number("presence_penalty", self.presence_penalty, -2.0, 2.0))
        for name in ("ignore_eos", "include_stop_str_in_output"):
            _require(isinstance(getattr(self, name), bool), f"{name} must be True or False, got {getattr(self, name)!r}")
        put(self, "stop_token_ids", _token_ids("stop_token_ids", self.stop_token_ids))
        put(self, "banned_token_ids", _token_ids("banned_token_ids", self.banned_token_ids))
        if self.allowed_token_ids is not None:
            put(self, "allowed_token_ids", _token_ids("allowed_token_ids", self.allowed_token_ids))
        put(self, "logit_bias", _biases(self.logit_bias))
        put(self, "stop", _texts(self.stop))
        self._check_together()

    def _check_together(self) -> None:
        _require(self.top_p > 0, f"top_p must lie in (0, 1], got {self.top_p!r}")
        _require(
            self.min_tokens <= self.max_tokens,
            f"min_tokens = {self.min_tokens} is more than max_tokens = {self.max_tokens}; raise max_tokens or lower min_tokens",
        )
        if self.n > 1:
            _require(self.temperature > 0, f"n = {self.n} with temperature 0 gives {self.n} equal answers; set a temperature, or n = 1")
        if self.allowed_token_ids is not None:
            _require(len(self.allowed_token_ids) > 0, "allowed_token_ids is empty, so nothing could be generated; None allows everything")
            _require(
                bool(set(self.allowed_token_ids) - set(self.banned_token_ids)),
                f"all {len(self.allowed_token_ids)} allowed_token_ids are banned_token_ids too, so nothing could be generated",
            )

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0.0

    @property
    def has_penalty(self) -> bool:
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0

    def check_against(self, vocab_size: int, eos_token_ids: Iterable[int] = ()) -> None:
        """At admission, when the model is known: every token id is one of its own, and something can always be generated. UserError."""
        for name in ("allowed_token_ids", "banned_token_ids", "stop_token_ids", "logit_bias"):
            for token in getattr(self, name) or ():
                _require(
                    token < vocab_size, f"{name} has token {token}, and the model's vocabulary has {vocab_size} (0 to {vocab_size - 1})"
                )
        for name in ("logprobs", "prompt_logprobs"):
            k = getattr(self, name)
            _require(k is None or k <= vocab_size, f"{name} = {k} is more than the model's vocabulary of {vocab_size} tokens")
        banned = set(self.banned_token_ids)
        _require(self._can_generate(banned, vocab_size), f"all {vocab_size} tokens of the model are banned, so nothing could be generated")
        if self.min_tokens:
            banned |= set(self.stop_token_ids) | (set() if self.ignore_eos else set(eos_token_ids))
            _require(
                self._can_generate(banned, vocab_size),
                f"only end and stop tokens may be generated, and min_tokens = {self.min_tokens} forbids them at first;"
                " allow another token, or set min_tokens = 0",
            )

    def _can_generate(self, banned: set[int], vocab_size: int) -> bool:
        return len(banned) < vocab_size if self.allowed_token_ids is None else not banned.issuperset(self.allowed_token_ids)

    def for_child(self, index: int) -> SamplingParams:
        """Parameters of sequence `index` of n: its own seed, and the prompt's log-probabilities from the first one alone."""
        if self.n == 1:
            return self
        seed = None if self.seed is None else (self.seed + index) % _SEEDS
        return replace(self, n=1, seed=seed, prompt_logprobs=self.prompt_logprobs if index == 0 else None)


def _require(ok: bool, message: str) -> None:
    if not ok:
        raise UserError(message)


def _whole(name: str, value: object, least: int) -> int:
    ok = isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) < 2**63
    _require(ok, f"{name} must be a whole number in [{least}, 2**63), got {value!r}")
    return int(value)  # type: ignore[call-overload]


def _number(name: str, value: object, least: float, most: float) -> float:
    ok = isinstance(value, Real) and not isinstance(value, bool) and least <= value <= most  # type: ignore[operator]
    _require(ok, f"{name} must be a number in [{least:g}, {most:g}], got {value!r}")
    return float(value)  # type: ignore[arg-type]


def _token_ids(name: str, values: object) -> tuple[int, ...]:
    ok = isinstance(values, Iterable) and not isinstance(values, (str, bytes, Mapping))
    _require(ok, f"{name} must be token ids such as (2, 7), got {values!r}")
    return tuple(_whole(f"each of {name}", token, 0) for token in values)  # type: ignore[attr-defined]


def _biases(values: object) -> dict[int, float]:
    if values is None:
        return {}
    _require(isinstance(values, Mapping), f"logit_bias must map token ids to numbers, such as {{42: -5.0}}, got {values!r}")
    return {
        _whole("a token of logit_bias", token, 0): _number(f"logit_bias of token {token}", bias, -_BIAS, _BIAS)
        for token, bias in values.items()  # type: ignore[attr-defined]
    }


def _texts(values: object) -> tuple[str, ...]:
    if values is None or isinstance(values, str):
        values = () if values is None else (values,)
    ok = isinstance(values, Iterable) and not isinstance(values, (bytes, Mapping))
    _require(ok, f"stop must be a text or several, got {values!r}")
    texts: tuple[Any, ...] = tuple(values)  # type: ignore[call-overload]
    for text in texts:
        _require(isinstance(text, str) and text != "", f"each stop must be a text that is not empty, got {text!r}")
        half = next((letter for letter in text if "\ud800" <= letter <= "\udfff"), None)  # as UTF-8 that was not valid is read
        _require(half is None, f"stop = {text!r} holds {half!r}, which is not a character, so it could never be found")
    return texts
