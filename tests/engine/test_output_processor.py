"""Tokens become text, finish reasons and usage the same way for everybody; streaming equals not streaming. (Casebook 18, 19.)"""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

import pytest
from byte_tokenizer import BYTE_TOKENIZER
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_model import CONTEXT, write_tiny_model

from infer_lab import LLM, SamplingParams
from infer_lab.core.plan import TokenLogprobs
from infer_lab.core.request import Request, RequestUpdate
from infer_lab.engine.detokenizer import ByteDetokenizer
from infer_lab.engine.sequence import SequenceState
from infer_lab.errors import UnsupportedOptionError, UserError
from infer_lab.outputs import StreamUpdate
from infer_lab.tokenizer import Tokenizer

TOKENS = st.one_of(st.sampled_from([BYTE_TOKENIZER.encode(letter)[0] for letter in "abab"]), st.integers(0, BYTE_TOKENIZER.vocab_size - 1))


def gold(tokens: Sequence[int], params: SamplingParams, tokenizer: Tokenizer) -> tuple[list[int], str, str, str | int | None]:
    """The slow and obvious way: after every token, decode everything, look everywhere. Tokens, text, finish reason, stop reason."""

    def text_of(count: int) -> str:
        return tokenizer.decode(tokens[:count])

    def settled(count: int) -> str:
        """The text that no later token can change: without an unfinished character."""
        raw = b"".join(tokenizer.token_bytes(token) for token in tokens[:count])
        return codecs.getincrementaldecoder("utf-8")("replace").decode(raw)

    def find(text: str, after: int) -> tuple[str, str] | None:
        for end in range(after + 1, len(text) + 1):
            ended = [stop for stop in params.stop if text[:end].endswith(stop)]
            if ended:
                stop = max(ended, key=len)
                return text[: end if params.include_stop_str_in_output else end - len(stop)], stop
        return None

    looked_at = 0
    for count in range(1, len(tokens) + 1):
        is_stop_token = tokens[count - 1] in params.stop_token_ids and count >= params.min_tokens
        shown = count - (is_stop_token and not params.include_stop_str_in_output)
        is_last = is_stop_token or count == params.max_tokens
        text = text_of(shown) if is_last else settled(shown)
        if count >= params.min_tokens and (found := find(text, looked_at)):
            return list(tokens[:count]), found[0], "stop", found[1]
        looked_at = len(text)
        if is_stop_token:
            return list(tokens[:count]), text, "stop", tokens[count - 1]
        if is_last:
            return list(tokens[:count]), text, "length", None
    raise AssertionError("too few tokens")


def core_updates(tokens: Sequence[int], params: SamplingParams, sizes: Sequence[int]) -> list[RequestUpdate]:
    """What the core would say, in steps that bring several tokens (accepted drafts)."""
    updates, at = [], 0
    for size in [*sizes, *[1] * len(tokens)]:
        new, reason = [], None
        for token in tokens[at : at + size]:
            new.append(token)
            at += 1
            if token in params.stop_token_ids and at >= params.min_tokens:
                reason = "stop"
            elif at == params.max_tokens:
                reason = "length"
            if reason:
                break
        updates.append(RequestUpdate("r", tuple(new), reason))
        if reason:
            return updates
    raise AssertionError("too few tokens")


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[int], SamplingParams, list[int]]:
    count = draw(st.integers(1, 20))
    tokens = draw(st.lists(TOKENS, min_size=count, max_size=count))
    text = BYTE_TOKENIZER.decode(tokens)
    stops = draw(st.lists(st.text("ab", min_size=1, max_size=3), max_size=2))
    if text:
        at = draw(st.integers(0, len(text) - 1))
        stops.append(text[at : at + draw(st.integers(1, 3))])
    params = SamplingParams(
        max_tokens=count,
        min_tokens=draw(st.integers(0, count)),
        stop=draw(st.sampled_from([stops, []])),
        stop_token_ids=draw(st.lists(st.sampled_from(tokens), max_size=1)),
        include_stop_str_in_output=draw(st.booleans()),
    )
    return tokens, params, draw(st.lists(st.integers(1, 4), max_size=20))


@settings(max_examples=300)
@given(case=cases(), read_every=st.integers(1, 4))
def test_text_tokens_and_reasons_are_what_the_slow_reference_says_however_steps_and_readers_go(
    case: tuple[list[int], SamplingParams, list[int]], read_every: int
) -> None:
    tokens, params, sizes = case
    sequence = SequenceState(0, Request("r", [1], params.max_tokens), params, BYTE_TOKENIZER)
    streamed: list[StreamUpdate] = []
    for number, update in enumerate(core_updates(tokens, params, sizes)):
        sequence.add(update)
        if number % read_every == 0 and (news := sequence.take()):
            streamed.append(news)
        if sequence.finish_reason:
            break
    streamed += [news] if (news := sequence.take()) else []
    expected = gold(tokens, params, BYTE_TOKENIZER)
    assert (sequence.token_ids, sequence.text, sequence.finish_reason, sequence.stop_reason) == expected
    assert [token for news in streamed for token in news.token_ids] == expected[0]
    assert "".join(news.text for news in streamed) == expected[1]
    assert [news.finish_reason for news in streamed if news.finish_reason] == [expected[2]] and sequence.take() is None


@pytest.fixture
def free(tiny: LLM) -> list[int]:
    """What the model says when nothing stops it."""
    return list(tiny.generate("stop somewhere", SamplingParams(max_tokens=40, ignore_eos=True))[0].token_ids)


def _first_new(tokens: list[int], after: int) -> int:
    return next(i for i in range(after, len(tokens)) if tokens[i] not in tokens[:i])


def test_casebook_19_finish_and_stop_reason_say_what_ended_the_request(tiny: LLM, free: list[int]) -> None:
    at = _first_new(free, 3)
    text = tiny.tokenizer.decode(free)
    stop = text[5:8]
    eos = tiny.tokenizer.encode("<end>")[0]

    def run(**options: object) -> tuple[str, str | int | None, int]:
        (output,) = tiny.generate("stop somewhere", SamplingParams(max_tokens=40, **options))  # type: ignore[arg-type]
        assert output.usage.completion_tokens == len(output.token_ids)
        assert output.usage.prompt_tokens == 14 and output.usage.total_tokens == 14 + len(output.token_ids)
        return output.finish_reason, output.stop_reason, len(output.token_ids)

    assert run(ignore_eos=True) == ("length", None, 40)
    assert run(ignore_eos=True, stop_token_ids=(free[at],)) == ("stop", free[at], at + 1)
    assert run(ignore_eos=True, stop=stop)[:2] == ("stop", stop)
    assert run(allowed_token_ids=(eos,)) == ("stop", None, 1), "the model's own end has no stop_reason"
    with_ids = SamplingParams(max_tokens=5, allowed_token_ids=(eos,), stop_token_ids=(eos,), ignore_eos=True)
    assert tiny.generate("x", with_ids)[0].stop_reason == eos
    assert tiny.generate([[1] * (CONTEXT - 2)], SamplingParams(max_tokens=9, ignore_eos=True))[0].finish_reason == "length"


def test_casebook_19_what_is_not_supported_is_refused_by_name(tiny: LLM) -> None:
    for option in ("best_of", "use_beam_search", "guided_decoding", "no_such_thing"):
        with pytest.raises(UnsupportedOptionError, match=option):
            SamplingParams(**{option: 1})  # type: ignore[arg-type]
    with pytest.raises(UserError, match="vocabulary has"):
        tiny.generate("x", SamplingParams(logit_bias={99_999: 1.0}))


def test_stop_strings_without_a_tokenizer_are_refused_by_name(tmp_path: Path) -> None:
    write_tiny_model(tmp_path, tokenizer=False)
    with LLM(str(tmp_path), device="cpu", kv_cache_memory=2**20) as llm, pytest.raises(UserError, match="stop_token_ids"):
        llm.generate([[1, 2]], SamplingParams(stop="x"))


def test_a_stop_tokens_own_text_is_left_out_unless_it_is_wanted(tiny: LLM, free: list[int]) -> None:
    at = _first_new(free, 3)
    for include in (False, True):
        params = SamplingParams(max_tokens=40, ignore_eos=True, stop_token_ids=(free[at],), include_stop_str_in_output=include)
        (output,) = tiny.generate("stop somewhere", params)
        assert output.text == tiny.tokenizer.decode(free[: at + include])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), include=st.booleans())
def test_casebook_18_a_stop_string_ends_generation_at_once_and_streaming_equals_not_streaming(
    tiny: LLM, free: list[int], data: st.DataObject, include: bool
) -> None:
    text = tiny.tokenizer.decode(free)
    start = data.draw(st.integers(0, len(text) - 2))
    stop = text[start : start + data.draw(st.integers(1, 4))]
    params = SamplingParams(max_tokens=40, ignore_eos=True, stop=[stop, "never there"], include_stop_str_in_output=include)
    (whole,) = tiny.generate("stop somewhere", params)
    end = text.index(stop) + (len(stop) if include else 0)
    assert whole.text == text[:end] and (whole.finish_reason, whole.stop_reason) == ("stop", stop)
    assert not tiny.engine.scheduler.has_unfinished()
    updates = list(tiny.stream("stop somewhere", params))
    streamed = updates[-1].output
    assert streamed is not None and (streamed.text, streamed.token_ids, streamed.stop_reason) == (whole.text, whole.token_ids, stop)
    assert "".join(update.text for update in updates) == whole.text


def test_n_sequences_come_in_order_with_seeds_of_their_own_and_the_prompt_is_charged_once(tiny: LLM) -> None:
    params = SamplingParams(max_tokens=12, temperature=2.0, seed=7, n=3, ignore_eos=True)
    one, two = tiny.generate(["abc", "xyz"], params)
    assert [output.index for output in one.outputs] == [0, 1, 2] and len({output.token_ids for output in one.outputs}) == 3
    assert one.usage.prompt_tokens == 3 and one.usage.completion_tokens == 36 and two.prompt == "xyz"
    assert one.token_ids == one.outputs[0].token_ids and one.text == one.outputs[0].text
    (alone,) = tiny.generate("abc", SamplingParams(max_tokens=12, temperature=2.0, seed=7, ignore_eos=True))
    assert alone.token_ids == one.outputs[0].token_ids, "the first of n is the one that n = 1 gives"
    assert tiny.generate(["abc"], params)[0].outputs[2].token_ids == one.outputs[2].token_ids


def test_a_stream_of_n_sequences_names_each_and_ends_once(tiny: LLM) -> None:
    params = SamplingParams(max_tokens=6, temperature=2.0, seed=7, n=3, ignore_eos=True)
    (whole,) = tiny.generate("abc", params)
    updates = list(tiny.stream("abc", params))
    for output in whole.outputs:
        own = [update for update in updates if update.index == output.index]
        assert tuple(t for update in own for t in update.token_ids) == output.token_ids
        assert "".join(update.text for update in own) == output.text
        assert [update.finish_reason for update in own] == [None] * (len(own) - 1) + ["length"]
    assert [update.output is not None for update in updates] == [False] * (len(updates) - 1) + [True]


def test_log_probabilities_stand_by_token_with_rank_and_text(tiny: LLM) -> None:
    params = SamplingParams(max_tokens=5, temperature=1.5, seed=3, logprobs=2, prompt_logprobs=1, ignore_eos=True)
    (output,) = tiny.generate("abcd", params)
    assert output.logprobs is not None and len(output.logprobs) == 5
    for token, at in zip(output.token_ids, output.logprobs, strict=True):
        assert next(iter(at)) == token and {1, 2} <= {entry.rank for entry in at.values()} and len(at) in (2, 3)
        assert at[token].decoded_token == tiny.tokenizer.decode([token], skip_special_tokens=False)
    expected = sum(at[token].logprob for token, at in zip(output.token_ids, output.logprobs, strict=True))
    assert output.outputs[0].cumulative_logprob == pytest.approx(expected)
    prompt = output.prompt_logprobs
    assert prompt is not None and prompt[0] is None and len(prompt) == 4
    assert all(at is not None and token in at for token, at in zip(output.prompt_token_ids[1:], prompt[1:], strict=True))
    streamed = [entry for update in tiny.stream("abcd", params) for entry in update.logprobs]
    assert [list(at) for at in streamed] == [list(at) for at in output.logprobs]
    assert tiny.generate("abcd", SamplingParams(max_tokens=2))[0].logprobs is None


def test_log_probabilities_beyond_a_stop_string_are_left_out_with_their_tokens() -> None:
    a, b = (BYTE_TOKENIZER.encode(letter)[0] for letter in "ab")
    params = SamplingParams(max_tokens=9, stop="b", logprobs=0)
    sequence = SequenceState(0, Request("r", [1], 9), params, BYTE_TOKENIZER)
    entries = tuple(TokenLogprobs(token, -1.0, 1) for token in (a, b, a, a))
    assert sequence.add(RequestUpdate("r", (a, b, a, a), None, entries)) == 2
    output = sequence.completion()
    assert output.text == "a" and output.token_ids == (a, b) and output.logprobs is not None and len(output.logprobs) == 2
    assert output.cumulative_logprob == -2.0


@pytest.mark.parametrize("stop", [(), "zzz"])
def test_text_is_decoded_when_somebody_reads_it_or_stop_strings_are_looked_for(stop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    token_of = {BYTE_TOKENIZER.token_bytes(token): token for token in range(256)}
    tokens = [token_of[bytes([byte])] for byte in "añb 日本".encode()]
    calls: list[int] = []
    real = ByteDetokenizer.add
    monkeypatch.setattr(ByteDetokenizer, "add", lambda self, *ids: calls.append(len(ids)) or real(self, *ids))
    sequence = SequenceState(0, Request("r", [1], 99), SamplingParams(max_tokens=99, stop=stop), BYTE_TOKENIZER)
    for token in tokens[:-1]:
        sequence.add(RequestUpdate("r", (token,)))
    assert calls == ([1] * (len(tokens) - 1) if stop else [])
    update = sequence.take()
    assert update is not None and update.text == "añb 日" and len(update.token_ids) == len(tokens) - 1
    assert sequence.take() is None and sequence.text == "añb 日"
    sequence.add(RequestUpdate("r", tuple(tokens[-1:]), "length"))
    assert sequence.completion().text == "añb 日本" and sum(calls) == len(tokens), "each token once"


def test_a_lost_sequence_keeps_the_text_of_its_tokens(tiny: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = tiny.generate(["hello"], SamplingParams(max_tokens=6, ignore_eos=True))
    real, steps = tiny.engine.step, iter(range(100))
    monkeypatch.setattr(tiny.engine, "step", lambda: real() if next(steps) < 4 else 1 / 0)
    (lost,) = tiny.generate(["hello"], SamplingParams(max_tokens=6, ignore_eos=True), return_errors=True)
    assert (lost.finish_reason, lost.token_ids) == ("error", whole.token_ids[:4]) and lost.error is not None
    assert lost.text == tiny.tokenizer.decode(list(lost.token_ids))[: len(lost.text)] and lost.text != ""
