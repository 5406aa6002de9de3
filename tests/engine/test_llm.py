"""What `LLM` promises its callers, on a tiny random model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_model import CONTEXT, EOS, write_tiny_model

from infer_lab import LLM, EngineConfig, SamplingParams
from infer_lab.core.plan import StepPlan
from infer_lab.errors import (
    CheckpointError,
    EmptyPromptError,
    EngineError,
    InvalidRequestError,
    PromptTooLongError,
    RequestTooLargeError,
    UnknownModelError,
    UserError,
)

SHORT = SamplingParams(max_tokens=6, ignore_eos=True)


def test_outputs_come_in_the_order_of_the_prompts_with_text_reason_and_times(tiny: LLM) -> None:
    outputs = tiny.generate(["abc", "a longer prompt", "x"], [SamplingParams(max_tokens=n, ignore_eos=True) for n in (5, 1, 9)])
    assert [o.prompt for o in outputs] == ["abc", "a longer prompt", "x"]
    assert [len(o.token_ids) for o in outputs] == [5, 1, 9]
    for output in outputs:
        assert output.finish_reason == "length" and output.text == tiny.tokenizer.decode(output.token_ids)
        m = output.metrics
        assert 0 <= m.queue_s <= m.ttft_s <= m.e2e_s and len(m.itl_s) == len(output.token_ids) - 1
        assert (m.tpot_s is None) == (len(output.token_ids) == 1)
        assert m.tpot_s is None or m.tpot_s == pytest.approx(sum(m.itl_s) / len(m.itl_s))


def test_text_and_its_token_ids_are_the_same_prompt(tiny: LLM) -> None:
    ids = tiny.tokenizer.encode("hello")
    by_text, by_ids, mixed = tiny.generate("hello", SHORT), tiny.generate(ids, SHORT), tiny.generate([ids, "hello"], SHORT)
    assert by_text[0].token_ids == by_ids[0].token_ids == mixed[0].token_ids == mixed[1].token_ids
    assert by_ids[0].prompt is None and by_ids[0].prompt_token_ids == tuple(ids)


def test_the_end_token_stops_and_is_left_out_of_the_text(tiny: LLM) -> None:
    (free,) = tiny.generate("stop somewhere", SamplingParams(max_tokens=30, ignore_eos=True))
    stop = next(i for i in range(1, 30) if free.token_ids[i] not in free.token_ids[:i])
    (stopped,) = tiny.generate("stop somewhere", SamplingParams(max_tokens=30, ignore_eos=True, stop_token_ids=(free.token_ids[stop],)))
    assert stopped.token_ids == free.token_ids[: stop + 1] and stopped.finish_reason == "stop"
    assert tiny.tokenizer.decode([*tiny.tokenizer.encode("ab"), tiny.tokenizer.encode(EOS)[0]]) == "ab"


def test_generation_ends_at_the_models_context_with_reason_length(tiny: LLM) -> None:
    (output,) = tiny.generate([[1] * (CONTEXT - 3)], SamplingParams(max_tokens=50, ignore_eos=True))
    assert len(output.token_ids) == 3 and output.finish_reason == "length"


def test_casebook_20_a_prompt_just_under_the_limit_gives_what_fits(tiny: LLM) -> None:
    for room in (1, 2, 5, 6, 7):
        (output,) = tiny.generate([[1] * (CONTEXT - room)], SHORT)
        assert len(output.token_ids) == min(room, 6) and output.finish_reason == "length"
        assert output.usage.total_tokens == min(CONTEXT, CONTEXT - room + 6)


def test_casebook_20_a_prompt_exactly_at_the_limit_is_refused_since_no_token_would_fit(tiny: LLM) -> None:
    with pytest.raises(PromptTooLongError, match=f"{CONTEXT} tokens.*max_model_len = {CONTEXT}.*{CONTEXT - 1} tokens or fewer"):
        tiny.generate([[1] * CONTEXT], SHORT)


@pytest.mark.parametrize("call", ["generate", "chat", "stream"])
def test_casebook_20_a_prompt_one_too_long_is_refused_the_same_way_everywhere(tiny: LLM, call: str) -> None:
    text = "x" * (CONTEXT + 1)
    calls = {
        "generate": lambda: tiny.generate(text, SHORT),
        "chat": lambda: tiny.chat([{"role": "user", "content": text}], SHORT),
        "stream": lambda: tiny.stream(text, SHORT),
    }
    with pytest.raises(PromptTooLongError, match="shorten the prompt"):
        calls[call]()
    assert not tiny.engine.scheduler.has_unfinished() and tiny.metrics.to_dict()["vllm:generation_tokens_total"] == 0


def test_casebook_20_the_limit_that_an_engine_was_given_is_the_one_that_holds(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", max_model_len=10) as llm:
        assert llm.max_model_len == 10 and len(llm.generate([[1] * 9], SHORT)[0].token_ids) == 1
        with pytest.raises(PromptTooLongError, match="max_model_len = 10"):
            llm.generate([[1] * 10], SHORT)


def test_one_bad_prompt_refuses_the_call_and_leaves_nothing_behind(tiny: LLM) -> None:
    for bad, kind in (([], EmptyPromptError), ("", EmptyPromptError), ([1] * 500, PromptTooLongError), ([1, 999], InvalidRequestError)):
        with pytest.raises(kind):
            tiny.generate([[1, 2], bad], SHORT)
        assert not tiny.engine.scheduler.has_unfinished()
    with pytest.raises(InvalidRequestError, match="-1 is not a token id"):
        tiny.generate([[1, -1]], SHORT)
    assert len(tiny.generate([[1, 2]], SHORT)[0].token_ids) == 6


def test_with_return_errors_a_bad_prompt_is_an_output_with_its_error_and_the_others_run(tiny: LLM) -> None:
    prompts = ["good", [], "also good", [1] * 500, [1, 999]]
    outputs = tiny.generate(prompts, SHORT, return_errors=True)
    assert [output.finish_reason for output in outputs] == ["length", "error", "length", "error", "error"]
    words = [None, "holds no token", None, "max_model_len", "not a token id"]
    for output, expected in zip(outputs, words, strict=True):
        assert (output.error is None) == (expected is None) and (expected is None or expected in str(output.error))
    assert outputs[0].token_ids == tiny.generate("good", SHORT)[0].token_ids and outputs[1].to_dict()["error"] == outputs[1].error


def test_with_return_errors_a_failed_step_ends_its_batch_and_the_rest_runs(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with LLM(str(tiny_folder), device="cpu", kv_cache_memory=2**20, max_num_seqs=2) as llm:
        expected = llm.generate([[i] * 3 for i in range(6)], SHORT)
        real, calls = llm.engine.executor.execute, iter([False, True])

        def execute(plan: StepPlan) -> object:
            if next(calls, False):
                raise RuntimeError("out of memory")
            return real(plan)

        monkeypatch.setattr(llm.engine.executor, "execute", execute)
        outputs = llm.generate([[i] * 3 for i in range(6)], SHORT, return_errors=True)
        assert [output.finish_reason for output in outputs] == ["error"] * 2 + ["length"] * 4
        assert all("out of memory" in str(output.error) and len(output.token_ids) == 1 for output in outputs[:2])
        assert [output.token_ids for output in outputs[2:]] == [output.token_ids for output in expected[2:]]
        llm.engine.scheduler.check_invariants()


def test_a_progress_bar_shows_on_a_terminal_or_when_asked_for(tiny: LLM, capsys: pytest.CaptureFixture[str]) -> None:
    tiny.generate(["a", "b"], SHORT)
    assert capsys.readouterr().err == ""
    tiny.generate(["a", "b"], SHORT, progress=True)
    shown = capsys.readouterr()
    assert "2/2" in shown.err and "tokens/s" in shown.err and shown.out == ""


def test_thousands_of_prompts_keep_their_order_and_leave_nothing(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", kv_cache_memory=2**21) as llm:
        prompts = [[i % 200, i // 200] for i in range(3000)]
        outputs = llm.generate(prompts, SamplingParams(max_tokens=1, ignore_eos=True))
        assert [list(output.prompt_token_ids) for output in outputs] == prompts
        assert len({output.token_ids for output in outputs}) > 20 and not llm.engine.scheduler.has_unfinished()


def test_a_request_larger_than_the_pool_is_refused_with_the_figures(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", num_kv_blocks=4) as llm:
        with pytest.raises(RequestTooLargeError, match="the whole pool has 3"):
            llm.generate([[1] * 20], SamplingParams(max_tokens=60))
        assert len(llm.generate([[1] * 20], SamplingParams(max_tokens=29, ignore_eos=True))[0].token_ids) == 29


def test_parameters_must_match_the_prompts_in_number(tiny: LLM) -> None:
    with pytest.raises(UserError, match="2 prompts came with 1"):
        tiny.generate(["a", "b"], [SHORT])


def test_no_prompts_give_no_outputs(tiny: LLM) -> None:
    assert tiny.generate([]) == []


def test_a_shared_prefix_is_computed_once(tiny: LLM) -> None:
    prefix = list(range(40))
    first = tiny.generate([[*prefix, 50]], SHORT)[0]
    second = tiny.generate([[*prefix, 60]], SHORT)[0]
    assert first.num_cached_tokens == 0 and second.num_cached_tokens == 32


def test_chat_renders_the_models_template_and_takes_one_or_several_conversations(tiny: LLM) -> None:
    one = [{"role": "user", "content": "hi"}]
    (output,) = tiny.chat(one, SHORT)
    assert output.prompt == "<user>hi\n<assistant>"
    several = tiny.chat([one, [{"role": "system", "content": "be brief"}, *one]], SHORT)
    assert several[0].token_ids == output.token_ids and several[1].prompt == "<system>be brief\n<user>hi\n<assistant>"
    for bad in ([], [{"role": "user"}], [{"content": "x"}], [{"role": "user", "content": ["x"]}]):
        with pytest.raises(UserError):
            tiny.chat(bad, SHORT)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prompt=st.text(min_size=1, max_size=20), seed=st.integers(0, 99))
def test_streamed_pieces_join_to_the_text_and_the_tokens_of_generate(tiny: LLM, prompt: str, seed: int) -> None:
    params = SamplingParams(max_tokens=12, temperature=1.5, seed=seed)
    updates = list(tiny.stream(prompt, params))
    (whole,) = tiny.generate(prompt, params)
    assert "".join(u.text for u in updates) == whole.text
    assert tuple(t for u in updates for t in u.token_ids) == whole.token_ids
    assert updates[-1].output is not None and updates[-1].output.text == whole.text and all(u.output is None for u in updates[:-1])


def test_leaving_a_stream_early_frees_its_blocks(tiny: LLM) -> None:
    for _ in tiny.stream("hello", SamplingParams(max_tokens=50, ignore_eos=True)):
        break
    assert not tiny.engine.scheduler.has_unfinished()
    tiny.engine.scheduler.check_invariants()


def test_a_step_that_fails_loses_its_requests_and_not_the_engine(tiny: LLM, monkeypatch: pytest.MonkeyPatch) -> None:
    before = tiny.generate("hello", SHORT)[0].token_ids
    for error, expected in ((RuntimeError("out of memory"), EngineError), (KeyboardInterrupt(), KeyboardInterrupt)):
        calls = iter([None, None, error])

        def fail(plan: StepPlan, calls: object = calls, real: object = tiny.engine.executor.execute) -> object:
            if error := next(calls):  # type: ignore[call-overload]
                raise error
            return real(plan)  # type: ignore[operator]

        with monkeypatch.context() as patch:
            patch.setattr(tiny.engine.executor, "execute", fail)
            with pytest.raises(expected):
                tiny.generate(["hello", "world"], SHORT)
        assert tiny.generate("hello", SHORT)[0].token_ids == before


def test_unseeded_requests_differ_and_the_engines_seed_repeats_them(tiny_folder: Path) -> None:
    hot = SamplingParams(max_tokens=12, temperature=2.0, ignore_eos=True)

    def draw(seed: int | None) -> list[tuple[int, ...]]:
        with LLM(str(tiny_folder), device="cpu", kv_cache_memory=2**20, seed=seed) as llm:
            return [o.token_ids for o in llm.generate(["same", "same"], hot)]

    first, again, other, free = draw(3), draw(3), draw(4), draw(None)
    assert first == again and first != other and free not in (first, other)
    assert first[0] != first[1], "two requests of one call have different streams"


def test_options_are_checked_and_none_is_ignored(tiny_folder: Path, tiny: LLM) -> None:
    cases: list[tuple[dict[str, object], str]] = [
        ({"devce": "cpu"}, "no option 'devce'"),
        ({"device": "tpu"}, "device"),
        ({"dtype": "int8"}, "dtype"),
        ({"max_model_len": CONTEXT + 1}, "trained for"),
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"num_kv_blocks": 10, "kv_cache_memory": 1}, "not both"),
        ({"num_kv_blocks": 1}, "num_blocks"),
        ({"kv_cache_memory": 10}, "less than two blocks"),
        ({"preemption": "swap"}, "num_host_blocks"),
        ({"preemption": "drop"}, "preemption"),
        ({"seed": -1}, "seed"),
        ({"loaded": tiny.loaded, "dtype": "bfloat16"}, "load it again"),
    ]
    for options, words in cases:
        with pytest.raises(UserError, match=words):
            LLM(str(tiny_folder), **({"device": "cpu"} | options))  # type: ignore[arg-type]
    assert LLM(EngineConfig(str(tiny_folder), device="cpu"), max_num_seqs=3).config.max_num_seqs == 3


def test_a_smaller_max_model_len_is_the_limit(tiny_folder: Path) -> None:
    with LLM(str(tiny_folder), device="cpu", max_model_len=10) as llm:
        assert len(llm.generate([[1] * 8], SHORT)[0].token_ids) == 2
        with pytest.raises(PromptTooLongError):
            llm.generate([[1] * 10], SHORT)


def test_a_closed_llm_says_so(tiny_folder: Path) -> None:
    llm = LLM(str(tiny_folder), device="cpu", kv_cache_memory=2**20)
    llm.close()
    llm.close()
    for use in (lambda: llm.generate("x"), lambda: llm.stream("x"), lambda: llm.metrics):
        with pytest.raises(UserError, match="closed"):
            use()


@pytest.mark.parametrize("name", ["gpt-17", "meta-llama/Llama-3-8B", "dummy:llama_9", "dummy:deepseek-v3", "smollm"])
def test_an_unknown_model_is_named_with_what_is_known(name: str) -> None:
    with pytest.raises(UnknownModelError, match="smollm2"):
        LLM(name, device="cpu")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(CheckpointError, match="no such file"):
        LLM("nowhere/model.gguf", device="cpu")


def test_a_model_that_cannot_fit_is_refused_before_memory_is_taken() -> None:
    with pytest.raises(UserError, match=r"needs 1\d{3}.* GiB for its weights in float32"):
        LLM("dummy:llama-3.1-405b", device="cpu")


def test_without_a_tokenizer_token_ids_go_in_and_out(tmp_path: Path) -> None:
    write_tiny_model(tmp_path, tokenizer=False)
    with LLM(str(tmp_path), device="cpu", kv_cache_memory=2**20) as llm:
        (output,) = llm.generate([[1, 2, 3]], SHORT)
        assert output.text == "" and len(output.token_ids) == 6
        assert [u.token_ids for u in llm.stream([1, 2, 3], SHORT)] == [(t,) for t in output.token_ids]
        with pytest.raises(UserError, match="no tokenizer"):
            llm.generate("text", SHORT)


@pytest.mark.parametrize(
    "changes",
    [{"max_tokens": 0}, {"temperature": -1.0}, {"temperature": float("nan")}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -2}, {"seed": -5}],
)
def test_sampling_parameters_out_of_range_are_named(changes: dict[str, float]) -> None:
    with pytest.raises(UserError, match=next(iter(changes))):
        SamplingParams(**changes)  # type: ignore[arg-type]
