"""infer-lab chat: a conversation in the terminal, which survives everything that is typed into it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from rich.console import Console

from infer_lab import cli_options as options
from infer_lab.cli_generate import conversation, load
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import InferLabError, UserError
from infer_lab.sampling_params import SamplingParams

if TYPE_CHECKING:
    from infer_lab.llm import LLM


def chat(
    system: options.System = None,
    model: options.Model = "smollm2",
    device: options.Device = "auto",
    dtype: options.Dtype = "auto",
    kv_dtype: options.KVDtype = "auto",
    quantization: options.Quantization = None,
    quantization_group: options.QuantizationGroup = 128,
    quant_cache: options.QuantCache = True,
    speculative: options.Speculative = None,
    temperature: options.Temperature = 0.0,
    top_k: options.TopK = 0,
    top_p: options.TopP = 1.0,
    min_p: options.MinP = 0.0,
    repetition_penalty: options.RepetitionPenalty = 1.0,
    frequency_penalty: options.FrequencyPenalty = 0.0,
    presence_penalty: options.PresencePenalty = 0.0,
    seed: options.Seed = None,
    max_tokens: options.MaxTokens = 512,
    stop: options.Stop = None,
) -> None:
    """Talk with the model. /help lists the commands; Ctrl-C stops an answer, Ctrl-D leaves."""
    params = SamplingParams(
        max_tokens=max_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        frequency_penalty=frequency_penalty,
        presence_penalty=presence_penalty,
        seed=seed,
        stop=tuple(stop or ()),
    )
    config = EngineConfig(
        model=model,
        device=device,
        dtype=dtype,
        kv_dtype=kv_dtype,
        quantization=quantization,
        quantization_group=quantization_group,
        quantization_cache=quant_cache,
        max_num_seqs=1,
        speculative=speculative,
    )
    llm = load(config)
    if llm.tokenizer.chat_template is None:
        raise UserError(f"{llm.model_config.name} has no chat template; use infer-lab generate --raw")
    with suppress(ImportError):
        import readline  # noqa: F401  (line editing and history for input())
    note = Console(stderr=True, highlight=False)
    note.print(f"{llm.model_config.name} on {llm.device}. /help for commands.", style="dim", markup=False)
    history = conversation(system)
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
            history = conversation(system)
            note.print("forgotten", style="dim")
        elif line.startswith("/"):
            note.print("/reset forgets the conversation · /quit leaves (or Ctrl-D) · Ctrl-C stops an answer", style="dim")
        elif line:
            try:
                answer = _answer(llm, [*history, {"role": "user", "content": line}], params, note)
            except InferLabError as error:
                note.print(f"{error} (/reset forgets the conversation)", markup=False)
                continue
            history += [{"role": "user", "content": line}, {"role": "assistant", "content": answer}]


def _answer(llm: LLM, messages: list[dict[str, str]], params: SamplingParams, note: Console) -> str:
    """Stream one answer to stdout. Ctrl-C ends it after the running step; what was said until then counts."""
    pieces = []
    reason = None
    with _interrupt_noted() as interrupted:
        for update in llm.stream(messages, params):
            pieces.append(update.text)
            print(update.text, end="", flush=True)
            reason = update.finish_reason
            if interrupted:
                break
    print()
    if reason == "length":
        note.print(f"(cut off after {params.max_tokens} tokens, or at the model's context; --max-tokens sets the first)", style="dim")
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
