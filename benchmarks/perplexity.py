"""What quantization costs: perplexity of a model on one fixed text, in float, in each scheme, and with each type of KV cache.

Why perplexity: it moves long before answers change. Why a fixed text of our own (`perplexity_text.txt`, about 2,000 tokens): no model has
been trained on it, and anyone can compute the same figure again. With so few tokens the figure itself says little, and the spread of
the mean over tokens is stated; differences between schemes on the same tokens say more, and theirs is stated too.

    python benchmarks/perplexity.py                       # SmolLM2
    python benchmarks/perplexity.py --record              # and write measurements/<device>/perplexity.json
    python benchmarks/perplexity.py --device cpu --quick

The engine itself runs, in chunks of a prompt, with whatever kernels the device has; each token but the first is predicted from all before
it (the text is cut at the model's limit). `gguf` is the file's own rounding, computed with as it is stored: it should cost nothing
beside float, which is the same file dequantized. The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from infer_lab import LLM, SamplingParams
from infer_lab.bench import Record
from infer_lab.engine_config import KV_DTYPES
from infer_lab.errors import UserError
from infer_lab.quant.scheme import AS_STORED, SCHEMES

TEXT = Path(__file__).with_name("perplexity_text.txt")
SOURCES = (
    "benchmarks/perplexity.py",
    "benchmarks/perplexity_text.txt",
    "src/infer_lab/kernels/pack.py",
    "src/infer_lab/layers/kv_layer.py",
    "src/infer_lab/quant/linear.py",
    "src/infer_lab/quant/row_scaled.py",
    "src/infer_lab/quant/scheme.py",
    "src/infer_lab/quant/stored.py",
    "src/infer_lab/quant/weight_only.py",
)
CHUNK = 256


def surprise(llm: LLM, token_ids: Sequence[int]) -> torch.Tensor:
    """-log p (nats, float64) of each token but the first."""
    params = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0)
    (output,) = llm.generate([list(token_ids)], params, progress=False)
    assert output.prompt_logprobs is not None
    places = zip(token_ids[1:], output.prompt_logprobs[1:], strict=True)
    return torch.tensor([-place[token].logprob for token, place in places if place is not None], dtype=torch.float64)


def engines(options: argparse.Namespace) -> Iterator[tuple[str, LLM]]:
    """Float first, then one change at a time."""
    common = {
        "device": options.device, "dtype": options.dtype, "max_num_seqs": 1, "max_num_batched_tokens": CHUNK, "quantization_cache": False,
        "quantization_group": options.group,
    }  # fmt: skip
    say(f"loading {options.model}")
    plain = LLM(options.model, **common)
    yield "float", plain
    for kv_dtype in options.kv_dtypes:
        with LLM(options.model, loaded=plain.loaded, kv_dtype=kv_dtype, **common) as llm:
            yield f"kv_{kv_dtype}", llm
    stored = [AS_STORED] if plain.loaded.checkpoint.stored_bits else []
    plain.close()
    del plain
    for scheme in (*stored, *options.schemes):
        say(f"loading {options.model} as {scheme}")
        with LLM(options.model, quantization=scheme, **common) as llm:
            yield scheme, llm


def standard_error(values: torch.Tensor) -> float:
    return float(values.std()) / math.sqrt(len(values))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--model", default="smollm2", help="as in infer-lab generate --model; it needs a tokenizer")
    parser.add_argument("--schemes", nargs="*", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--kv-dtypes", nargs="*", choices=KV_DTYPES[1:], default=["fp8", "int8"], help="of the cache, beside float weights")
    parser.add_argument("--group", type=int, default=128, help="columns that share a scale in w8a16 and w4a16")
    parser.add_argument("--record", action="store_true", help="write a measurement record")
    parser.add_argument("--quick", action="store_true", help="the first 64 tokens, to see that it runs; the figures mean nothing")
    options = parser.parse_args(argv)
    results: dict[str, torch.Tensor] = {}
    token_ids: list[int] = []
    try:
        for name, llm in engines(options):
            if not token_ids:
                tokenizer = llm.loaded.checkpoint.tokenizer
                if tokenizer is None:
                    raise UserError(f"{options.model} has no tokenizer, so it cannot read a text")
                token_ids = tokenizer.encode(TEXT.read_text(encoding="utf-8"))[: 64 if options.quick else llm.max_model_len - 1]
            results[name] = surprise(llm, token_ids)
            shape, device, dtype = llm.model_config, str(llm.device), str(llm.dtype).removeprefix("torch.")
    except UserError as error:
        print(f"perplexity.py: {error}", file=sys.stderr)
        return 2
    plain = results["float"]
    workload = {"model": options.model, "dtype": dtype, "text": TEXT.name, "tokens": len(token_ids)}
    workload |= {"context": "the whole text", "group": options.group, "quick": options.quick}
    record = Record("perplexity", f"Perplexity, {shape.name}", device, sources=SOURCES, workload=workload)
    say(f"\n{len(token_ids)} tokens, {device}, {dtype}")
    say(f"{'scheme':<8} {'perplexity':>11} {'nats a token':>20} {'against float':>20}")
    record.add_value("tokens", len(token_ids), "tok")
    perplexities: dict[str, float] = {}
    for name, nats in results.items():
        mean, error, change = float(nats.mean()), standard_error(nats), nats - plain
        perplexities[name] = math.exp(mean)
        record.add_value(
            f"perplexity_{name}", math.exp(mean), "1", note=f"exp of the mean over tokens, which is ± {error:.3f} (standard error)"
        )
        against = "" if name == "float" else f"{float(change.mean()):+.4f} ± {standard_error(change):.4f}"
        if against:
            note = f"nats a token more than float, on the same tokens; ± {standard_error(change):.4f} (standard error)"
            record.add_value(f"loss_added_{name}", float(change.mean()), "1", note=note)
        say(f"{name:<8} {math.exp(mean):11.3f} {f'{mean:.4f} ± {error:.4f}':>20} {against:>20}")
    path = str(record.write()) if options.record else None
    rounded = {name: round(value, 4) for name, value in perplexities.items()}
    print(json.dumps({"device": record.environment.slug, "tokens": len(token_ids), "perplexity": rounded, "record": path}))
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
