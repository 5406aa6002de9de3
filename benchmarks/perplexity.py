"""What quantization costs: perplexity of a model on one fixed text, in float and in each scheme.

Why perplexity: it moves long before answers change. Why a fixed text of our own (`perplexity_text.txt`, about 2,000 tokens): no model has
been trained on it, and anyone can compute the same figure again. With so few tokens the figure itself says little, and the spread of
the mean over tokens is stated; differences between schemes on the same tokens say more, and theirs is stated too.

    python benchmarks/perplexity.py                       # SmolLM2
    python benchmarks/perplexity.py --record              # and write measurements/<device>/perplexity.json
    python benchmarks/perplexity.py --device cpu --quick

The whole text is one context (cut at the model's limit): each token but the first is predicted from all before it. The last line of
output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from infer_lab.bench import Record
from infer_lab.core.plan import AdmittedRequest, ScheduledRequest
from infer_lab.engine.build import LoadedModel, load_model
from infer_lab.engine_config import EngineConfig
from infer_lab.errors import UserError
from infer_lab.quant.scheme import SCHEMES
from infer_lab.worker.input_batch import InputBatch
from infer_lab.worker.kv_cache import KVCache

TEXT = Path(__file__).with_name("perplexity_text.txt")
SOURCES = (
    "benchmarks/perplexity.py",
    "benchmarks/perplexity_text.txt",
    "src/infer_lab/kernels/pack.py",
    "src/infer_lab/models/llama.py",
    "src/infer_lab/quant/linear.py",
    "src/infer_lab/quant/row_scaled.py",
    "src/infer_lab/quant/scheme.py",
    "src/infer_lab/quant/weight_only.py",
)
BLOCK, CHUNK = 16, 256


@torch.inference_mode()
def surprise(loaded: LoadedModel, token_ids: Sequence[int]) -> torch.Tensor:
    """-log p (nats, float64) of each token but the first, through the engine's own parts, CHUNK tokens at a time."""
    blocks = -(-len(token_ids) // BLOCK)
    cache = KVCache(loaded.config, num_blocks=blocks, block_size=BLOCK, dtype=loaded.dtype, device=loaded.device)
    batch = InputBatch(1, blocks, BLOCK, loaded.device, loaded.dtype)
    batch.admit(AdmittedRequest("text", tuple(token_ids), len(token_ids)))
    found = []
    for start in range(0, len(token_ids), CHUNK):
        chunk, following = tuple(token_ids[start : start + CHUNK]), token_ids[start + 1 : start + CHUNK + 1]
        inputs = batch.prepare([ScheduledRequest("text", start, chunk, True, 0, tuple(range(blocks)) if start == 0 else ())])
        hidden = loaded.model(inputs.token_ids, inputs.positions, cache.layers, inputs.attention)
        logits = loaded.model.logits(hidden[: len(following)])
        target = torch.tensor(following, device=logits.device)
        found.append(torch.nn.functional.cross_entropy(logits, target, reduction="none").double().cpu())
    return torch.cat(found)


def standard_error(values: torch.Tensor) -> float:
    return float(values.std()) / math.sqrt(len(values))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--model", default="smollm2", help="as in infer-lab generate --model; it needs a tokenizer")
    parser.add_argument("--schemes", nargs="+", choices=SCHEMES, default=list(SCHEMES))
    parser.add_argument("--group", type=int, default=128, help="columns that share a scale in w8a16 and w4a16")
    parser.add_argument("--record", action="store_true", help="write a measurement record")
    parser.add_argument("--quick", action="store_true", help="the first 64 tokens, to see that it runs; the figures mean nothing")
    options = parser.parse_args(argv)
    results: dict[str, torch.Tensor] = {}
    try:
        for scheme in (None, *options.schemes):
            say(f"loading {options.model}" + (f" as {scheme}" if scheme else ""))
            config = EngineConfig(
                options.model, device=options.device, dtype=options.dtype, quantization=scheme, quantization_group=options.group,
                quantization_cache=False,
            )  # fmt: skip
            loaded = load_model(config)
            tokenizer = loaded.checkpoint.tokenizer
            if tokenizer is None:
                raise UserError(f"{options.model} has no tokenizer, so it cannot read a text")
            token_ids = tokenizer.encode(TEXT.read_text(encoding="utf-8"))
            token_ids = token_ids[: 64 if options.quick else loaded.config.max_model_len]
            results[scheme or "float"] = surprise(loaded, token_ids)
    except UserError as error:
        print(f"perplexity.py: {error}", file=sys.stderr)
        return 2
    plain = results["float"]
    workload = {"model": options.model, "dtype": str(loaded.dtype).removeprefix("torch."), "text": TEXT.name, "tokens": len(token_ids)}
    workload |= {"context": "the whole text", "group": options.group, "quick": options.quick}
    record = Record("perplexity", f"Perplexity, {loaded.config.name}", str(loaded.device), sources=SOURCES, workload=workload)
    say(f"\n{len(token_ids)} tokens, {loaded.device}, {workload['dtype']}")
    say(f"{'scheme':<8} {'perplexity':>11} {'nats a token':>20} {'against float':>20}")
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
