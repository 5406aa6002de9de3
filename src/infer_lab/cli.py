"""infer-lab: the engine on the command line. A user's mistake is one line on stderr and exit code 2; torch is imported when it is
needed."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from infer_lab import __version__
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import EmptyPromptError, InferLabError, UserError
from infer_lab.sampling_params import SamplingParams

if TYPE_CHECKING:
    from infer_lab.llm import LLM

app = typer.Typer(
    name="infer-lab",
    help='A small, complete LLM inference engine. Start with: infer-lab generate "What is a KV cache?"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Model = Annotated[
    str, typer.Option("--model", "-m", help="smollm2, dummy:<preset>, a .gguf file, or a Hugging Face folder (see: infer-lab models)")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:<index>")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16 or float16")]
MaxTokens = Annotated[int, typer.Option("--max-tokens", "-n", help="Stop after this many tokens")]
Temperature = Annotated[float, typer.Option("--temperature", "-t", help="0 takes the likeliest token every time")]
TopK = Annotated[int, typer.Option(help="Draw from the k likeliest tokens only; 0 = all")]
TopP = Annotated[float, typer.Option(help="Draw from the likeliest tokens that reach this probability together; 1 = all")]
Seed = Annotated[int | None, typer.Option(help="The same seed draws the same tokens; without one every run differs")]
System = Annotated[str | None, typer.Option(help="System message in place of the model's own")]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout")]
Raw = Annotated[
    bool | None,
    typer.Option("--raw/--chat", help="--raw continues the text as it stands; --chat asks it as a question (default for chat models)"),
]
TokenIds = Annotated[bool, typer.Option("--token-ids", help='The prompt is token ids, such as "1 2 3" (for models without a tokenizer)')]
IgnoreEos = Annotated[bool, typer.Option("--ignore-eos", help="Go on past the model's end token")]


def main() -> None:
    """Entry point: turns the library's named errors into messages and exit codes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")  # where a character cannot be written, "?" stands for it
    try:
        try:
            app()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (UserError, ModuleNotFoundError) as error:
        if isinstance(error, ModuleNotFoundError) and "infer-lab[" not in str(error):
            raise
        _fail(error, 2)
    except InferLabError as error:
        _fail(error, 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _give_up_stdout()
        sys.exit(1)
    except OSError as error:  # a full disk behind stdout, say
        _give_up_stdout()
        _fail(error, 1)


def _give_up_stdout() -> None:
    """What is still to be written goes nowhere; else Python tries again at its exit, and complains."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(error: Exception, code: int) -> None:
    print(f"infer-lab: {error}", file=sys.stderr)
    sys.exit(code)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"infer-lab {__version__}")
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version")]


@app.callback()
def _options(version: Version = False) -> None:
    """Options of the program itself."""


@app.command()
def generate(
    prompt: Annotated[str, typer.Argument(help="The text, or - to read it from stdin")],
    model: Model = "smollm2",
    max_tokens: MaxTokens = 128,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = None,
    raw: Raw = None,
    system: System = None,
    token_ids: TokenIds = False,
    ignore_eos: IgnoreEos = False,
    device: Device = "auto",
    dtype: Dtype = "auto",
    as_json: Json = False,
) -> None:
    """Answer one prompt. The text streams to stdout, the timings go to stderr."""
    text = _stdin() if prompt == "-" else prompt
    if not text:
        raise EmptyPromptError("the prompt is empty; give some text")
    params = SamplingParams(max_tokens, temperature, top_k, top_p, seed, ignore_eos)
    if token_ids and (raw is False or system is not None):
        raise UserError("--token-ids are the whole prompt; leave out --chat and --system")
    ids = _parse_ids(text) if token_ids else None
    llm = _load(EngineConfig(model=model, device=device, dtype=dtype, max_num_seqs=8))
    as_chat = ids is None and not raw and (raw is False or (llm.has_tokenizer and llm.tokenizer.chat_template is not None))
    if system is not None and not as_chat:
        raise UserError(f"--system goes with a chat; leave it out with {'--raw' if raw else 'this model, which has no chat template'}")
    question: Any = ids if ids is not None else text
    if as_chat:
        question = [*_conversation(system), {"role": "user", "content": text}]
    output = None
    for update in llm.stream(question, params):
        if not as_json:
            print(update.text, end="", flush=True)
        output = update.output
    assert output is not None
    if as_json:
        about = {"model": llm.model_config.name, "device": str(llm.device), "dtype": str(llm.dtype).removeprefix("torch.")}
        print(json.dumps(about | output.to_dict(), ensure_ascii=False))
        return
    print(" ".join(map(str, output.token_ids)) if not llm.has_tokenizer else "")
    Console(stderr=True).print(_summary(output), style="dim", highlight=False)


@app.command()
def chat(
    model: Model = "smollm2",
    max_tokens: MaxTokens = 512,
    temperature: Temperature = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = None,
    system: System = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
) -> None:
    """Talk with the model. /help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves."""
    params = SamplingParams(max_tokens, temperature, top_k, top_p, seed)
    llm = _load(EngineConfig(model=model, device=device, dtype=dtype, max_num_seqs=1))
    if llm.tokenizer.chat_template is None:
        raise UserError(f"{llm.model_config.name} has no chat template; use infer-lab generate --raw")
    with suppress(ImportError):
        import readline  # noqa: F401  (line editing and history for input())
    note = Console(stderr=True, highlight=False)
    note.print(f"{llm.model_config.name} on {llm.device}. /help for commands.", style="dim", markup=False)
    history = _conversation(system)
    while True:
        try:
            line = input("> ").strip()
        except EOFError:
            print()
            return
        except UnicodeDecodeError as error:
            note.print(f"that was not text: {error}", markup=False)
            continue
        except RuntimeError as error:  # "lost sys.stdin"
            raise UserError(f"a chat reads what you say from stdin, which is closed ({error})") from error
        except KeyboardInterrupt:
            note.print("\n/quit or Ctrl-D leaves", style="dim")
            continue
        if line in ("/quit", "/exit"):
            return
        if line == "/reset":
            history = _conversation(system)
            note.print("forgotten", style="dim")
        elif line.startswith("/"):
            note.print("/reset forgets the conversation · /quit leaves (or Ctrl-D) · Ctrl-C stops an answer", style="dim")
        elif line:
            try:
                answer = _answer(llm, [*history, {"role": "user", "content": line}], params)
            except InferLabError as error:
                note.print(f"{error} (/reset forgets the conversation)", markup=False)
                continue
            history += [{"role": "user", "content": line}, {"role": "assistant", "content": answer}]


@app.command()
def doctor(as_json: Json = False) -> None:
    """What this machine has, what works, and what to do about what does not. Exit code 1 if models cannot run."""
    from infer_lab import doctor as check

    findings = check.examine()
    report = check.as_json(findings)
    if as_json:
        print(json.dumps(report))
    else:
        marks = {"ok": "✓", "optional": "·", "problem": "✗"}
        for finding in findings:
            print(
                f"{marks[finding.status]} {finding.name:<14} {finding.found}"
                + (f"\n  {'':<14} → {finding.advice}" if finding.advice else "")
            )
        print("\nModels can run here." if report["ok"] else "\nModels cannot run here yet: see ✗ above.")
    raise typer.Exit(0 if report["ok"] else 1)


@app.command()
def models(as_json: Json = False) -> None:
    """The names that --model takes."""
    from infer_lab.presets import PRESETS

    runnable = [config for config in PRESETS.values() if config.runnable]
    if as_json:
        print(json.dumps({"models": ["smollm2"], "presets": [config.name for config in runnable]}))
        return
    print("smollm2                 SmolLM2-135M-Instruct, fetched once (93 MB)")
    for config in runnable:
        shape = f"{config.num_layers} layers of {config.hidden_size}, {config.num_heads}/{config.num_kv_heads} heads"
        print(f"dummy:{config.name:<18}random weights: {shape}")
    print("path/to/model.gguf      llama, qwen2 or qwen3 in F32, F16, BF16, Q8_0 or Q4_1")
    print("path/to/folder          a Hugging Face folder of the same architectures (config.json and *.safetensors)")


def _load(config: EngineConfig) -> LLM:
    with Console(stderr=True).status(f"Loading {escape(config.model)} …"):
        from infer_lab import LLM

        return LLM(config)


def _stdin() -> str:
    if sys.stdin is None:
        raise UserError("the prompt should come from stdin (-), which is closed")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UserError(f"what came from stdin is not text: {error}") from error


def _conversation(system: str | None) -> list[dict[str, str]]:
    return [] if system is None else [{"role": "system", "content": system}]


def _parse_ids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise UserError(f'--token-ids wants whole numbers such as "1 2 3": {error}') from error


def _answer(llm: LLM, messages: list[dict[str, str]], params: SamplingParams) -> str:
    """Stream one answer to stdout. Ctrl-C ends it after the running step; what was said until then counts."""
    pieces = []
    with _interrupt_noted() as interrupted:
        for update in llm.stream(messages, params):
            pieces.append(update.text)
            print(update.text, end="", flush=True)
            if interrupted:
                break
    print()
    return "".join(pieces)


@contextmanager
def _interrupt_noted() -> Iterator[list[int]]:
    """Ctrl-C within the block fills the list instead of raising in the middle of a step."""
    noted: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: noted.append(number))
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, previous)


def _summary(output: Any) -> str:
    metrics = output.metrics
    speed = f" · {1 / metrics.tpot_s:.1f} tokens/s" if metrics.tpot_s else ""
    return f"{len(output.token_ids)} tokens ({output.finish_reason}) · first after {metrics.ttft_s:.2f} s{speed}"
