"""infer-lab: the engine on the command line. A user's mistake is one line on stderr and exit code 2; torch is imported when it is
needed."""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

from infer_lab import __version__, cli_bench, cli_chat, cli_generate
from infer_lab.errors import InferLabError, UserError

app = typer.Typer(
    name="infer-lab",
    help='A small, complete LLM inference engine. Start with: infer-lab generate "What is a KV cache?"',
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout")]


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


app.command()(cli_generate.generate)
app.command()(cli_chat.chat)
app.add_typer(cli_bench.app, name="bench")


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
