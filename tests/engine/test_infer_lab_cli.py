"""The command line: a mistake is one line on stderr and exit code 2; --json is one document; a chat survives everything typed into it."""

from __future__ import annotations

import builtins
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import infer_lab
from infer_lab import SamplingParams, cli
from infer_lab.errors import EngineError
from infer_lab.llm import LLM

Run = Callable[..., SimpleNamespace]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the program in this process: exit code, stdout, stderr."""

    def call(*arguments: str) -> SimpleNamespace:
        monkeypatch.setattr(sys, "argv", ["infer-lab", *arguments])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(bool(stop.code))
        out, err = capsys.readouterr()
        return SimpleNamespace(code=code, out=out, err=err)

    return call


def test_json_carries_text_tokens_reason_and_timings(run: Run, tiny_folder: Path, tiny: LLM) -> None:
    done = run("generate", "hello", "-m", str(tiny_folder), "--raw", "--max-tokens", "5", "--ignore-eos", "--device", "cpu", "--json")
    assert done.code == 0
    data = json.loads(done.out)
    (expected,) = tiny.generate("hello", SamplingParams(max_tokens=5, ignore_eos=True))
    assert data["token_ids"] == list(expected.token_ids) and data["text"] == expected.text
    assert (data["finish_reason"], data["num_tokens"], data["num_prompt_tokens"], data["num_cached_tokens"]) == ("length", 5, 5, 0)
    assert 0 < data["ttft_s"] < data["e2e_s"] and data["tpot_s"] > 0 and data["device"] == "cpu" and data["dtype"] == "float32"


def test_json_carries_usage_stop_reason_and_log_probabilities(run: Run, tiny_folder: Path, tiny: LLM) -> None:
    common = ("-m", str(tiny_folder), "--raw", "-n", "20", "--ignore-eos", "--device", "cpu", "--json")
    (free,) = tiny.generate("hello", SamplingParams(max_tokens=20, ignore_eos=True))
    stop = free.text[4:6]
    data = json.loads(run("generate", "hello", *common, "--stop", stop, "--stop", "never", "--logprobs", "1").out)
    assert data["text"] == free.text[: free.text.index(stop)] and (data["finish_reason"], data["stop_reason"]) == ("stop", stop)
    usage = data["usage"]
    assert usage["prompt_tokens"] == 5 and usage["completion_tokens"] == len(data["token_ids"]) == len(data["logprobs"])
    assert usage["total_tokens"] == 5 + usage["completion_tokens"]


def test_several_answers_are_headed_and_json_has_them_all(run: Run, tiny_folder: Path) -> None:
    common = ("-m", str(tiny_folder), "--raw", "-n", "6", "--ignore-eos", "--device", "cpu", "--n", "3", "-t", "2", "--seed", "4")
    done = run("generate", "hello", *common)
    assert [f"── {i} of 3 ──" in done.out for i in (1, 2, 3)] == [True] * 3 and "18 tokens" in done.err
    data = json.loads(run("generate", "hello", *common, "--json").out)
    assert [answer["index"] for answer in data["outputs"]] == [0, 1, 2] and data["usage"]["completion_tokens"] == 18
    assert all(answer["text"] in done.out for answer in data["outputs"])


def test_json_streams_a_line_an_update_and_the_last_has_everything(run: Run, tiny_folder: Path) -> None:
    common = ("-m", str(tiny_folder), "--raw", "-n", "6", "--ignore-eos", "--device", "cpu", "--json")
    whole = json.loads(run("generate", "hello", *common).out)
    lines = [json.loads(line) for line in run("generate", "hello", *common, "--stream").out.splitlines()]
    assert len(lines) == 6 and "".join(line["text"] for line in lines) == whole["text"]
    assert lines[-1]["output"]["token_ids"] == whole["token_ids"] and not any("output" in line for line in lines[:-1])


def test_log_probabilities_are_a_line_a_token(run: Run, tiny_folder: Path) -> None:
    common = ("-m", str(tiny_folder), "--raw", "-n", "4", "--ignore-eos", "--device", "cpu")
    table = run("generate", "hello", *common, "--logprobs", "2").out.split("logprob  rank  token\n")[1].splitlines()
    assert len(table) == 4 and all(line.split()[1] == "1" for line in table), "greedy takes the likeliest"


def test_a_chat_model_is_asked_by_default_and_raw_continues_the_text(run: Run, tiny_folder: Path) -> None:
    common = ("-m", str(tiny_folder), "-n", "2", "--device", "cpu", "--json")
    assert json.loads(run("generate", "hi", *common).out)["prompt"] == "<user>hi\n<assistant>"
    assert json.loads(run("generate", "hi", *common, "--raw").out)["prompt"] == "hi"
    assert json.loads(run("generate", "hi", *common, "--system", "be brief").out)["prompt"].startswith("<system>be brief\n<user>hi")


def test_text_goes_to_stdout_and_timings_to_stderr(run: Run, tiny_folder: Path, tiny: LLM) -> None:
    done = run("generate", "hello", "-m", str(tiny_folder), "--raw", "-n", "5", "--ignore-eos", "--device", "cpu")
    (expected,) = tiny.generate("hello", SamplingParams(max_tokens=5, ignore_eos=True))
    assert done.out == expected.text + "\n"
    assert "5 tokens (length)" in done.err


def test_speculation_changes_the_summary_and_not_the_text(run: Run, loopy: LLM) -> None:
    common = ("generate", "abababab", "-m", loopy.config.model, "--raw", "-n", "30", "--ignore-eos", "--device", "cpu")
    plain, drafted = run(*common), run(*common, "--speculative", "ngram")
    assert drafted.out == plain.out and "drafts accepted" in " ".join(drafted.err.split()) and "draft" not in plain.err
    assert json.loads(run(*common, "--speculative", "ngram", "--json").out)["drafts"]["num_accepted_tokens"] > 0
    assert (run(*common, "--speculative", "eagle").code, run(*common, "--speculative", "draft:2").code) == (2, 2)


def test_token_ids_go_in_and_out_where_there_is_no_text(run: Run, tiny_folder: Path) -> None:
    done = run("generate", "1, 2 3", "--token-ids", "-m", str(tiny_folder), "-n", "3", "--device", "cpu", "--json")
    assert json.loads(done.out)["prompt_token_ids"] == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("generate", "x", "-m", "gpt-17"), "no model is called 'gpt-17'"),
        (("generate", "x", "-m", "nowhere.gguf"), "no such file"),
        (("generate", ""), "the prompt is empty"),
        (("generate", "x", "--temperature", "-1"), "temperature"),
        (("generate", "x", "--max-tokens", "0"), "max_tokens"),
        (("generate", "x", "--top-p", "2"), "top_p"),
        (("generate", "x", "--top-k", "-2"), "top_k"),
        (("generate", "x", "--seed", "-1"), "seed"),
        (("generate", "x", "--min-p", "1.5"), "min_p"),
        (("generate", "x", "--logprobs", "-1"), "logprobs"),
        (("generate", "x", "--stop", ""), "stop"),
        (("generate", "x", "--n", "0"), "n must be"),
        (("generate", "x", "--n", "2"), "temperature"),
        (("generate", "x", "--n", "2", "-t", "1", "--stream"), "cannot be streamed"),
        (("generate", "x", "--repetition-penalty", "0"), "repetition_penalty"),
        (("generate", "x", "--min-tokens", "200"), "min_tokens"),
        (("generate", "x", "--speculative", "magic"), "magic"),
        (("chat", "--top-p", "0"), "top_p"),
        (("generate", "x", "--dtype", "int3"), "dtype"),
        (("generate", "x", "--device", "tpu"), "device"),
        (("generate", "one", "--token-ids", "-m", "TINY"), "whole numbers"),
        (("generate", "1 999", "--token-ids", "-m", "TINY"), "not a token id"),
        (("generate", "word " * 100, "-m", "TINY"), "max_model_len = 128"),
        (("generate", "x", "-m", "TINY", "--raw", "--system", "s"), "--raw"),
        (("generate", "x", "-m", "CUT"), "truncated"),
        (("generate", "x", "-m", "MAGIC"), "not a GGUF file"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_mistake_is_one_line_and_exit_code_2(run: Run, tiny_folder: Path, tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    cut, magic = tmp_path / "cut.gguf", tmp_path / "magic.gguf"
    cut.write_bytes(b"GGUF\x03\x00\x00\x00" + b"\x01")
    magic.write_bytes(b"\x00" * 64)
    places = {"TINY": str(tiny_folder), "CUT": str(cut), "MAGIC": str(magic)}
    done = run(*(places.get(a, a) for a in arguments))
    assert done.code == 2 and done.out == ""
    lines = [line for line in done.err.splitlines() if line.strip()]
    assert len(lines) == 1 and lines[0].startswith("infer-lab: ") and words in lines[0]


def test_usage_errors_are_exit_code_2_as_well(run: Run) -> None:
    assert run("generate").code == 2
    assert run("generate", "x", "--no-such-option").code == 2


def test_a_bad_prompt_in_a_real_process_leaves_no_traceback(tiny_folder: Path) -> None:
    command = [sys.executable, "-m", "infer_lab", "generate", "word " * 100, "-m", str(tiny_folder), "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 2 and "Traceback" not in done.stderr and "max_model_len" in done.stderr


def test_doctor_reports_every_check_as_json(run: Run) -> None:
    done = run("doctor", "--json")
    report = json.loads(done.out)
    assert report["ok"] == (done.code == 0)
    names = [finding["name"] for finding in report["findings"]]
    assert {"python", "torch", "cuda", "triton", "memory", "smollm2", "browser", "node"} <= set(names)
    for finding in report["findings"]:
        assert finding["status"] in ("ok", "optional", "problem") and finding["found"]
        assert finding["status"] == "ok" or finding["advice"] or finding["name"] == "memory", finding


def test_doctor_says_what_to_do_about_a_cache_that_is_not_there(run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("INFER_LAB_CACHE", str(tmp_path / "cache"))
    done = run("doctor")
    assert "not fetched yet" in done.out and str(tmp_path / "cache") in done.out


def test_models_lists_every_name_that_runs(run: Run) -> None:
    data = json.loads(run("models", "--json").out)
    assert data["models"] == ["smollm2"] and {"smollm2-135m", "qwen3-0.6b", "llama-3.2-1b", "llama-3-8b"} <= set(data["presets"])
    assert "deepseek-v3" not in data["presets"] and "deepseek" not in run("models").out


def test_every_command_has_help(run: Run) -> None:
    for command in ((), ("generate",), ("chat",), ("doctor",), ("models",)):
        done = run(*command, "--help")
        assert done.code == 0 and "Usage" in done.out


# -- chat -----------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Lines for input(); a KeyboardInterrupt among them is Ctrl-C at the prompt, the end is Ctrl-D."""

    def prepare(*lines: str | BaseException) -> None:
        waiting: Iterator[str | BaseException] = iter(lines)

        def answer(_: str = "") -> str:
            line = next(waiting, EOFError())
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", answer)

    return prepare


def test_a_chat_remembers_what_was_said_until_it_is_reset(
    run: Run, typed: Callable[..., None], tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    stream = LLM.stream
    monkeypatch.setattr(LLM, "stream", lambda self, messages, params: asked.append(len(messages)) or stream(self, messages, params))
    typed("/help", "hi", "", KeyboardInterrupt(), "yo", "/reset", "hi", "/quit", "never")
    done = run("chat", "-m", str(tiny_folder), "-n", "4", "--device", "cpu")
    assert done.code == 0 and asked == [1, 3, 1]
    assert "/reset" in done.err and "forgotten" in done.err


def test_a_question_that_does_not_fit_leaves_the_chat_alive(run: Run, typed: Callable[..., None], tiny_folder: Path) -> None:
    typed("word " * 100, "hi")
    done = run("chat", "-m", str(tiny_folder), "-n", "3", "--device", "cpu")
    assert done.code == 0 and "max_model_len" in done.err and done.out.strip()


def test_ctrl_c_stops_an_answer_and_keeps_the_chat(
    run: Run, typed: Callable[..., None], tiny_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = LLM.stream
    counts: list[int] = []

    def interrupted(self: LLM, messages: object, params: object) -> Iterator[object]:
        counts.append(0)
        for update in stream(self, messages, params):  # type: ignore[arg-type]
            counts[-1] += 1
            if len(counts) == 1 and counts[0] == 3:
                signal.raise_signal(signal.SIGINT)
            yield update

    monkeypatch.setattr(LLM, "stream", interrupted)
    typed("hi", "yo")
    done = run("chat", "-m", str(tiny_folder), "-n", "20", "--device", "cpu")
    assert done.code == 0 and counts[0] == 3 and counts[1] > 3


def test_a_model_without_a_chat_template_says_what_to_use_instead(run: Run, tmp_path: Path) -> None:
    from tiny_model import write_tiny_model

    done = run("chat", "-m", str(write_tiny_model(tmp_path, chat_template=False)), "--device", "cpu")
    assert done.code == 2 and "--raw" in done.err


# -- what is imported when -----------------------------------------------------------------------------------------------------


def _fresh_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_the_calculator_and_the_core_and_the_help_import_no_torch() -> None:
    done = _fresh_python(
        "import sys, infer_lab, infer_lab.calculator, infer_lab.core.scheduler, infer_lab.cli, infer_lab.doctor, infer_lab.engine_config\n"
        "print([m for m in ('torch', 'numpy', 'tokenizers') if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_without_torch_the_message_says_how_to_install_it() -> None:
    done = _fresh_python(
        "import sys\nsys.modules['torch'] = None\nsys.argv = ['infer-lab', 'generate', 'x']\nfrom infer_lab.cli import main\nmain()"
    )
    assert done.returncode == 2 and "pip install 'infer-lab[engine]'" in done.stderr and "Traceback" not in done.stderr


def test_unknown_names_of_the_package_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="NoSuchThing"):
        infer_lab.NoSuchThing  # noqa: B018


# -- terminals, pipes and disks -------------------------------------------------------------------------------------------------


def _process(*arguments: str, redirect: str = "", **environment: str) -> subprocess.CompletedProcess[bytes]:
    """The program behind a shell's redirections."""
    command = ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-W", "error", "-m", "infer_lab", *arguments]
    env = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.run(command, capture_output=True, env=env, input=b"\xff\xfe\n", cwd="/")


@pytest.mark.parametrize(
    ("redirect", "environment", "code", "words"),
    [
        ("", {"PYTHONIOENCODING": "ascii"}, 0, "20 tokens"),
        (">/dev/full", {}, 1, "No space left"),
        (">&-", {}, 0, "20 tokens"),
        ("| head -c 1", {}, 0, ""),
    ],
    ids=["ascii terminal", "full disk", "closed stdout", "closed pipe"],
)
def test_output_that_cannot_be_written_leaves_no_traceback(
    tiny_folder: Path, redirect: str, environment: dict[str, str], code: int, words: str
) -> None:
    common = ("-m", str(tiny_folder), "--device", "cpu", "-n", "20", "--raw", "--ignore-eos")
    done = _process("generate", "héllo 你好", *common, redirect=redirect, **environment)
    assert done.returncode == code and words in done.stderr.decode()
    assert b"Traceback" not in done.stderr and b"ignored" not in done.stderr


@pytest.mark.parametrize("command", ["generate", "chat"])
@pytest.mark.parametrize("redirect", ["", "<&-"], ids=["bytes", "closed"])
def test_input_that_is_no_text_leaves_no_traceback(tiny_folder: Path, command: str, redirect: str) -> None:
    prompt = ("-",) if command == "generate" else ()
    done = _process(command, *prompt, "-m", str(tiny_folder), "--device", "cpu", "-n", "2", redirect=redirect, PYTHONUTF8="0")
    assert b"Traceback" not in done.stderr and done.returncode == (0 if command == "chat" and not redirect else 2), done.stderr


def test_a_prompt_of_bytes_that_are_no_utf_8_is_a_users_mistake(tiny_folder: Path, run: Run) -> None:
    done = run("generate", os.fsdecode(b"\xff\xfe"), "-m", str(tiny_folder), "--device", "cpu", "--raw")
    assert done.code == 2 and "UTF-8" in done.err


@pytest.mark.parametrize("name", ["[/red]", "a" * 300, "~nobody-of-this-name/x", "[bold]"])
def test_a_model_name_of_any_kind_is_one_line_and_exit_code_2(run: Run, name: str) -> None:
    done = run("generate", "x", "-m", name)
    assert done.code == 2 and done.err.count("\n") == 1 and name[:9] in done.err


def test_options_that_would_be_ignored_are_refused(run: Run, tiny_folder: Path, tmp_path: Path) -> None:
    from tiny_model import write_tiny_model

    plain = str(write_tiny_model(tmp_path, chat_template=False))
    for arguments in (("1 2", "--token-ids", "--chat"), ("1 2", "--token-ids", "--system", "s")):
        assert run("generate", *arguments, "-m", str(tiny_folder), "--device", "cpu").code == 2
    done = run("generate", "x", "--system", "s", "-m", plain, "--device", "cpu")
    assert done.code == 2 and "no chat template" in done.err


def test_a_chat_survives_brackets_and_bytes_and_a_failed_step(
    run: Run, typed: Callable[..., None], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tmp_path / "[red]"
    named.symlink_to(tiny_folder)
    asked: list[object] = []
    stream = LLM.stream

    def failing(self: LLM, messages: object, params: object) -> Iterator[object]:
        asked.append(messages)
        if len(asked) == 2:
            raise EngineError("a step failed [/dim]")
        return stream(self, messages, params)  # type: ignore[arg-type,return-value]

    monkeypatch.setattr(LLM, "stream", failing)
    typed("[/red]", "\x00", UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), "[link=x]", "\ud800", "hi")
    done = run("chat", "-m", str(named), "-n", "3", "--device", "cpu", "--system", "[/b]")
    assert done.code == 0 and len(asked) == 5 and "[/dim]" in done.err and "not text" in done.err and "UTF-8" in done.err
