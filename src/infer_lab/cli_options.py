"""What `generate` and `chat` may be told on the command line, once for both. Every value is checked by SamplingParams or EngineConfig."""

from __future__ import annotations

from typing import Annotated

import typer

_ENGINE, _SAMPLING, _STOPPING, _OUTPUT = "Model and engine", "Choosing tokens", "Ending an answer", "Output"


def _option(*names: str, help: str, panel: str) -> typer.models.OptionInfo:
    return typer.Option(*names, help=help, rich_help_panel=panel)


Model = Annotated[
    str,
    _option("--model", "-m", help="smollm2, dummy:<preset>, a .gguf file, or a Hugging Face folder (see: infer-lab models)", panel=_ENGINE),
]
Device = Annotated[str, _option("--device", help="auto, cpu, cuda or cuda:<index>", panel=_ENGINE)]
Dtype = Annotated[str, _option("--dtype", help="auto, float32, bfloat16 or float16", panel=_ENGINE)]
KVDtype = Annotated[str, _option("--kv-dtype", help="Of cached keys and values: auto (as --dtype), bf16, fp8 or int8", panel=_ENGINE)]
Quantization = Annotated[
    str | None,
    _option("--quantization", "-q", help="Keep the layers' weights packed: w8a16, w4a16, fp8, int8, or gguf (as stored)", panel=_ENGINE),
]
QuantizationGroup = Annotated[int, _option("--quantization-group", help="Columns that share a scale: 32, 64 or 128", panel=_ENGINE)]
QuantCache = Annotated[
    bool, _option("--quant-cache/--no-quant-cache", help="Keep the quantized model on disk, to load at once next time", panel=_ENGINE)
]
Speculative = Annotated[
    str | None,
    _option("--speculative", help="Guess tokens ahead and verify them together: ngram, draft:<first layers>, draft:<model>", panel=_ENGINE),
]

Temperature = Annotated[float, _option("--temperature", "-t", help="0 takes the likeliest token every time", panel=_SAMPLING)]
TopK = Annotated[int, _option("--top-k", help="Draw from the k likeliest tokens only; 0 = all", panel=_SAMPLING)]
TopP = Annotated[
    float, _option("--top-p", help="Draw from the likeliest tokens that reach this probability together; 1 = all", panel=_SAMPLING)
]
MinP = Annotated[
    float, _option("--min-p", help="Leave out tokens below this share of the likeliest one's probability; 0 = none", panel=_SAMPLING)
]
RepetitionPenalty = Annotated[
    float, _option("--repetition-penalty", help="Above 1, tokens of prompt and answer become less likely; 1 = off", panel=_SAMPLING)
]
FrequencyPenalty = Annotated[
    float, _option("--frequency-penalty", help="Taken from a token's logit for each time that the answer has it", panel=_SAMPLING)
]
PresencePenalty = Annotated[float, _option("--presence-penalty", help="Taken once, if the answer has the token", panel=_SAMPLING)]
Seed = Annotated[int | None, _option("--seed", help="The same seed draws the same tokens; without one every run differs", panel=_SAMPLING)]
NumAnswers = Annotated[int, _option("--n", help="So many answers to one prompt, which is computed once", panel=_SAMPLING)]

MaxTokens = Annotated[int, _option("--max-tokens", "-n", help="Stop after this many tokens", panel=_STOPPING)]
MinTokens = Annotated[int, _option("--min-tokens", help="Do not stop before so many", panel=_STOPPING)]
Stop = Annotated[
    list[str] | None, _option("--stop", help="End the answer where this text would come; may be given several times", panel=_STOPPING)
]
IgnoreEos = Annotated[bool, _option("--ignore-eos", help="Go on past the model's end token", panel=_STOPPING)]

Logprobs = Annotated[
    int | None,
    _option("--logprobs", help="Show how likely each token was, beside the k likeliest; 0 = the token alone", panel=_OUTPUT),
]
Stream = Annotated[
    bool | None,
    _option("--stream/--no-stream", help="Show text as it comes (default, for one answer). With --json, a line an update", panel=_OUTPUT),
]
Json = Annotated[bool, _option("--json", help="One JSON document on stdout, with token ids, usage and timings", panel=_OUTPUT)]

System = Annotated[str | None, typer.Option(help="System message in place of the model's own")]
Raw = Annotated[
    bool | None,
    typer.Option("--raw/--chat", help="--raw continues the text as it stands; --chat asks it as a question (default for chat models)"),
]
TokenIds = Annotated[bool, typer.Option("--token-ids", help='The prompt is token ids, such as "1 2 3" (for models without a tokenizer)')]
