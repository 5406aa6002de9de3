"""Speculative decoding beside plain decoding on the same weights: tokens per second, acceptance, and what the closed form says.

Why two texts: speculation pays where text repeats itself (quoting, editing, lists) and costs where it does not. And two drafters: n-grams
cost nothing; a self-draft of the first k of L layers costs about k / L of a step for each token, and has to be right that often.

    python benchmarks/speculation.py                     # SmolLM2, greedy, one request at a time
    python benchmarks/speculation.py --record            # and write measurements/<device>/speculation.json
    python benchmarks/speculation.py --device cpu --quick

Every round measures all contenders one after the other and ratios are taken within the round, since other programs slow a round down as a
whole; medians over rounds. Outputs must equal those of plain decoding. "predicted" is calculator.speculative_speedup for the measured
acceptance if a draft costs its share of the layers and verifying is free: what a batch-1 step on a GPU comes near to, and a CPU does not.
The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from infer_lab import LLM, SamplingParams
from infer_lab.bench import Record
from infer_lab.calculator import speculative_speedup
from infer_lab.core.record import DraftCounts
from infer_lab.errors import UserError
from infer_lab.spec.config import SpeculativeConfig

SOURCES = (
    "benchmarks/speculation.py",
    "src/infer_lab/models/llama.py",
    "src/infer_lab/spec/adaptive.py",
    "src/infer_lab/spec/draft_model.py",
    "src/infer_lab/spec/ngram.py",
    "src/infer_lab/spec/speculator.py",
    "src/infer_lab/worker/model_executor.py",
)
PLANETS = "Mercury has 0 moons. Venus has 0 moons. Earth has 1 moon. Mars has 2 moons. Jupiter has 95 moons. Saturn has 146 moons."
TEXTS = {
    "repetitive": f"The list:\n{PLANETS}\n\nThe list once more:\n{PLANETS}\n\nThe list once more:\n",
    "free": "It was a cold evening in November when the old lighthouse keeper heard a knock at the door.",
}


def contenders(layers: Sequence[int], drafts: int) -> dict[str, SpeculativeConfig | None]:
    fixed = {"num_draft_tokens": drafts, "adaptive": False}
    found: dict[str, SpeculativeConfig | None] = {"plain": None}
    found |= {"ngram": SpeculativeConfig("ngram", **fixed), "ngram_adaptive": SpeculativeConfig("ngram", drafts)}
    for count in layers:
        found[f"draft_{count}"] = SpeculativeConfig("draft", draft_layers=count, **fixed)
    found[f"draft_{layers[-1]}_adaptive"] = SpeculativeConfig("draft", drafts, draft_layers=layers[-1])
    return found


@dataclass(slots=True)
class Outcome:
    """Of one contender on one text: seconds of each round, and what is the same in each."""

    seconds: list[float] = field(default_factory=list)
    token_ids: tuple[int, ...] = ()
    steps: int = 0
    drafts: DraftCounts = field(default_factory=DraftCounts)

    def rates(self) -> list[float]:
        return [len(self.token_ids) / s for s in self.seconds]

    def acceptance(self) -> float:
        """Of a draft, given that those before it in its step were accepted: the closed form's parameter."""
        per_pos, drafts = self.drafts.num_accepted_tokens_per_pos, self.drafts.num_drafts
        tried = drafts + sum(per_pos[:-1]) if per_pos else 0
        return self.drafts.num_accepted_tokens / tried if tried else 0.0


def decode(llm: LLM, prompt: str, tokens: int, outcome: Outcome) -> None:
    """The prompt's KV comes from the cache after the first time, so decoding is what is timed."""
    first = len(llm.engine.scheduler.step_records)
    start = time.perf_counter()
    (output,) = llm.generate(prompt, SamplingParams(max_tokens=tokens, ignore_eos=True), progress=False)
    outcome.seconds.append(time.perf_counter() - start)
    outcome.token_ids = output.token_ids
    outcome.steps = len(llm.engine.scheduler.step_records) - first
    outcome.drafts = output.metrics.drafts or DraftCounts()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:<index>")
    parser.add_argument("--model", default="smollm2", help="as in infer-lab generate --model")
    parser.add_argument(
        "--layers", type=int, nargs="+", help="self-drafts of so many first layers; default: a third and two thirds of them"
    )
    parser.add_argument("--drafts", type=int, default=4, help="most drafts a step")
    parser.add_argument("--tokens", type=int, default=96, help="tokens generated in a run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--record", action="store_true", help="write a measurement record")
    parser.add_argument("--quick", action="store_true", help="few tokens and one round, to see that it runs; the figures mean nothing")
    options = parser.parse_args(argv)
    tokens, rounds = (4, 1) if options.quick else (options.tokens, options.rounds)
    try:
        base = LLM(options.model, device=options.device, seed=0)
    except UserError as error:
        print(f"speculation.py: {error}", file=sys.stderr)
        return 2
    num_layers = base.model_config.num_layers
    layers = options.layers or [num_layers // 3, 2 * num_layers // 3]
    engines = {
        name: LLM(options.model, loaded=base.loaded, device=options.device, seed=0, num_kv_blocks=64, max_num_seqs=1, speculative=config)
        for name, config in contenders(layers, options.drafts).items()
        if not options.quick or "adaptive" not in name
    }
    outcomes = {(text, name): Outcome() for text in TEXTS for name in engines}
    for number in range(rounds + 1):
        say(f"round {number} of {rounds}" if number else "warming up")
        for (text, name), outcome in outcomes.items():
            decode(engines[name], TEXTS[text], tokens if number else min(tokens, 16), outcome)
            if not number:
                outcome.seconds.clear()
    equal = all(outcome.token_ids == outcomes[text, "plain"].token_ids for (text, _), outcome in outcomes.items())

    device = str(base.device)
    workload = {"model": options.model, "dtype": str(base.dtype).removeprefix("torch."), "tokens": tokens, "rounds": rounds}
    workload |= {
        "drafts": options.drafts,
        "layers": list(layers),
        "num_layers": num_layers,
        "batch": 1,
        "temperature": 0,
        "quick": options.quick,
    }
    record = Record("speculation", f"Speculative decoding, {base.model_config.name}", device, sources=SOURCES, workload=workload)
    say(f"\n{'text':<11} {'drafter':<18} {'tokens/s':>9} {'speed-up':>9} {'predicted':>9} {'accepted':>9} {'tokens/step':>12}")
    speedups: dict[str, float] = {}
    for (text, name), outcome in outcomes.items():
        plain = outcomes[text, "plain"]
        ratios = [a / b for a, b in zip(plain.seconds, outcome.seconds, strict=True)]
        key = f"{text}_{name}"
        record.add_samples(f"tok_s_{key}", outcome.rates(), "tok/s")
        if name == "plain":
            say(f"{text:<11} {name:<18} {median(outcome.rates()):9.1f}")
            continue
        speedups[key] = median(ratios)
        record.add_samples(f"speedup_{key}", ratios, "x", note="plain decoding's time over this one's, within a round")
        record.add_value(f"tokens_per_step_{key}", tokens / outcome.steps, "tok")
        shown, predicted = f"{'—':>9}", f"{'—':>9}"
        if outcome.drafts.num_drafts:
            acceptance = outcome.acceptance()
            record.add_value(f"acceptance_{key}", acceptance, "1", note="of a draft, given that those before it were accepted")
            shown = f"{acceptance:9.2f}"
            if "adaptive" not in name and name.startswith("draft"):
                share = int(name.split("_")[1]) / num_layers
                ideal = speculative_speedup(acceptance, options.drafts, share).value
                record.add_value(f"predicted_{key}", ideal, "x", note="if a draft costs its share of the layers and verifying is free")
                predicted = f"{ideal:9.2f}"
        say(f"{text:<11} {name:<18} {median(outcome.rates()):9.1f} {speedups[key]:9.2f} {predicted} {shown} {tokens / outcome.steps:12.2f}")
    say(f"\noutputs equal those without drafts: {equal}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    path = str(record.write()) if options.record else None
    slug = record.environment.slug
    print(json.dumps({"device": slug, "speedups": {k: round(v, 3) for k, v in speedups.items()}, "outputs_equal": equal, "record": path}))
    return 0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
