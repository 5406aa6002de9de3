"""infer-lab generate: one prompt, one answer or several."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from infer_lab import cli_options as options
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import EmptyPromptError, UserError
from infer_lab.sampling_params import SamplingParams

if TYPE_CHECKING:
    from infer_lab.llm import LLM
    from infer_lab.outputs import CompletionOutput, RequestOutput


def generate(
    prompt: Annotated[str, typer.Argument(help="The text, or - to read it from stdin")],
    raw: options.Raw = None,
    system: options.System = None,
    token_ids: options.TokenIds = False,
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
    n: options.NumAnswers = 1,
    max_tokens: options.MaxTokens = 128,
    min_tokens: options.MinTokens = 0,
    stop: options.Stop = None,
    ignore_eos: options.IgnoreEos = False,
    logprobs: options.Logprobs = None,
    stream: options.Stream = None,
    as_json: options.Json = False,
) -> None:
    """Answer one prompt. The text goes to stdout, as it comes; usage and timings go to stderr."""
    text = stdin_text() if prompt == "-" else prompt
    if not text:
        raise EmptyPromptError("the prompt is empty; give some text")
    params = SamplingParams(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        frequency_penalty=frequency_penalty,
        presence_penalty=presence_penalty,
        seed=seed,
        n=n,
        stop=tuple(stop or ()),
        ignore_eos=ignore_eos,
        logprobs=logprobs,
    )
    if stream and n > 1 and not as_json:
        raise UserError(f"--n {n} answers come at the same time, so their text cannot be streamed; leave out --stream, or add --json")
    if token_ids and (raw is False or system is not None):
        raise UserError("--token-ids are the whole prompt; leave out --chat and --system")
    ids = _parse_ids(text) if token_ids else None
    config = EngineConfig(
        model=model,
        device=device,
        dtype=dtype,
        kv_dtype=kv_dtype,
        quantization=quantization,
        quantization_group=quantization_group,
        quantization_cache=quant_cache,
        max_num_seqs=max(8, n),
        speculative=speculative,
    )
    llm = load(config)
    as_chat = ids is None and not raw and (raw is False or (llm.has_tokenizer and llm.tokenizer.chat_template is not None))
    if system is not None and not as_chat:
        raise UserError(f"--system goes with a chat; leave it out with {'--raw' if raw else 'this model, which has no chat template'}")
    question: Any = ids if ids is not None else text
    if as_chat:
        question = [*conversation(system), {"role": "user", "content": text}]
    if as_json:
        _print_json(llm, question, params, bool(stream))
    else:
        _print_text(llm, question, params, n == 1 if stream is None else stream)


def _print_json(llm: LLM, question: Any, params: SamplingParams, stream: bool) -> None:
    """One document; or one line an update, the last of which has the document in `output`."""
    about = {"model": llm.model_config.name, "device": str(llm.device), "dtype": str(llm.dtype).removeprefix("torch.")}
    for update in llm.stream(question, params):
        whole = None if update.output is None else about | update.output.to_dict()
        if stream:
            line: dict[str, Any] = {"index": update.index, "text": update.text, "token_ids": list(update.token_ids)}
            line |= {"finish_reason": update.finish_reason} | ({"output": whole} if whole else {})
            print(json.dumps(line, ensure_ascii=False), flush=True)
        elif whole is not None:
            print(json.dumps(whole, ensure_ascii=False))


def _print_text(llm: LLM, question: Any, params: SamplingParams, stream: bool) -> None:
    output: RequestOutput | None = None
    for update in llm.stream(question, params):
        if stream:
            print(update.text, end="", flush=True)
        output = update.output
    assert output is not None
    for answer in output.outputs:
        if len(output.outputs) > 1:
            print(f"── {answer.index + 1} of {len(output.outputs)} ──")
        said = "" if stream else answer.text
        print(said if llm.has_tokenizer else " ".join(map(str, answer.token_ids)))
        if answer.logprobs is not None:
            _print_logprobs(answer)
    Console(stderr=True).print(_summary(output, llm.config.speculative is not None), style="dim", highlight=False, markup=False)


def _print_logprobs(answer: CompletionOutput) -> None:
    """A line a token: its text, its log-probability and rank, and the likeliest tokens there."""
    print("\nlogprob  rank  token")
    for token, at in zip(answer.token_ids, answer.logprobs or (), strict=True):
        chosen = at[token]
        others = sorted((entry for other, entry in at.items() if other != token), key=lambda entry: entry.rank)
        beside = "   ".join(f"{entry.decoded_token!r} {entry.logprob:.2f}" for entry in others)
        print(f"{chosen.logprob:7.2f}  {chosen.rank:4d}  {chosen.decoded_token or str(token)!r}" + (f"   ({beside})" if beside else ""))


def _summary(output: RequestOutput, speculates: bool) -> str:
    metrics, usage = output.metrics, output.usage
    reasons = sorted({answer.finish_reason for answer in output.outputs})
    parts = [f"{usage.completion_tokens} tokens ({', '.join(reasons)})", f"{usage.prompt_tokens} in the prompt"]
    parts.append(f"first after {metrics.ttft_s:.2f} s")
    if metrics.tpot_s:
        parts.append(f"{1 / metrics.tpot_s:.1f} tokens/s" + (" each" if len(output.outputs) > 1 else ""))
    if metrics.drafts is not None:
        parts.append(f"{metrics.drafts.num_accepted_tokens} of {metrics.drafts.num_draft_tokens} drafts accepted")
    elif speculates:
        parts.append("no drafts: none to be had, or none worth their time")
    return " · ".join(parts)


# -- shared with `chat` --------------------------------------------------------------------------------------------------------


def load(config: EngineConfig) -> LLM:
    # quantizing has a progress bar of its own, and a terminal holds one
    with Console(stderr=True).status(f"Loading {escape(config.model)} …") if config.quantization is None else nullcontext():
        from infer_lab import LLM

        return LLM(config)


def conversation(system: str | None) -> list[dict[str, str]]:
    return [] if system is None else [{"role": "system", "content": system}]


def stdin_text() -> str:
    if sys.stdin is None:
        raise UserError("the prompt should come from stdin (-), which is closed")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UserError(f"what came from stdin is not text: {error}") from error


def _parse_ids(text: str) -> list[int]:
    try:
        return [int(word) for word in text.replace(",", " ").split()]
    except ValueError as error:
        raise UserError(f'--token-ids wants whole numbers such as "1 2 3": {error}') from error
