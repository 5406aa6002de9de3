"""Decoding SmolLM2 on the CPU beside transformers' `generate`: same weights, same dtype, same threads, in one run.

    python benchmarks/cpu_vs_transformers.py              # measure and show
    python benchmarks/cpu_vs_transformers.py --record     # and write a measurement record
    python benchmarks/cpu_vs_transformers.py --quick      # few tokens, to see that it runs; the figures mean nothing

Time per token = (time for N + 1 tokens − time for 1 token) / N, so the prompt's computation and the call's fixed cost drop out on
both sides. Every round measures all contenders one after the other, and the ratios are taken within the round: on a machine that
others use too, a round slows down as a whole. Medians over rounds. Goals: ratio to transformers at batch 1 at most 1, batch 8 at
least 3 × the tokens/s of batch 1. The last line of output is one JSON document.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table
from transformers import LlamaConfig, LlamaForCausalLM

from infer_lab import LLM, SamplingParams
from infer_lab.bench import Record, Timing

SOURCES = (
    "benchmarks/cpu_vs_transformers.py",
    "src/infer_lab/layers/attention.py",
    "src/infer_lab/layers/linear.py",
    "src/infer_lab/models/llama.py",
    "src/infer_lab/worker/input_batch.py",
    "src/infer_lab/worker/model_executor.py",
)
PROMPT = "The history of computing began long before the first electronic machines, when people"
BATCHES = (1, 8)


def transformers_model(llm: LLM) -> LlamaForCausalLM:
    """The peer, on the weights that our engine uses."""
    shape = llm.model_config
    config = LlamaConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        num_key_value_heads=shape.num_kv_heads,
        max_position_embeddings=shape.max_model_len,
        rms_norm_eps=shape.rms_norm_eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
        tie_word_embeddings=True,
        eos_token_id=None,
        pad_token_id=0,
    )
    model = LlamaForCausalLM(config).to(llm.dtype).eval()
    assert llm.loaded.checkpoint.tensors is not None
    state = dict(llm.loaded.checkpoint.tensors(torch.device("cpu")))
    model.load_state_dict(state | {"lm_head.weight": state["model.embed_tokens.weight"]})
    return model


def ours(llm: LLM, prompts: list[list[int]], num_tokens: int) -> list[tuple[int, ...]]:
    return [output.token_ids for output in llm.generate(prompts, SamplingParams(max_tokens=num_tokens, ignore_eos=True))]


@torch.inference_mode()
def theirs(model: LlamaForCausalLM, prompts: list[list[int]], num_tokens: int) -> list[tuple[int, ...]]:
    ids = torch.tensor(prompts)
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=num_tokens, do_sample=False)
    return [tuple(row[len(prompts[0]) :]) for row in out.tolist()]


def time_per_step(run: Callable[[int], object], num_tokens: int) -> float:
    """Seconds from one token to the next of every sequence in the batch."""
    run(2)  # warm
    start = time.perf_counter()
    run(1)
    middle = time.perf_counter()
    run(num_tokens + 1)
    return (time.perf_counter() - middle - (middle - start)) / num_tokens


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--tokens", type=int, default=24, help="tokens timed per run")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=0, help="0: as torch chooses")
    parser.add_argument("--record", action="store_true", help="write a measurement record")
    parser.add_argument("--quick", action="store_true", help="few tokens and rounds, to see that it runs")
    options = parser.parse_args(argv)
    if options.threads:
        torch.set_num_threads(options.threads)
    tokens, rounds = (4, 1) if options.quick else (options.tokens, options.rounds)

    llm = LLM("smollm2", device="cpu", dtype=options.dtype, enable_prefix_caching=False, max_num_seqs=max(BATCHES))
    peer = transformers_model(llm)
    prompt = llm.tokenizer.encode(PROMPT)
    same = ours(llm, [prompt], 8)[0] == theirs(peer, [prompt], 8)[0]
    contenders: dict[str, Callable[[int], object]] = {}
    for batch in BATCHES:
        contenders[f"infer_lab_batch{batch}"] = lambda n, b=batch: ours(llm, [prompt] * b, n)
        contenders[f"transformers_batch{batch}"] = lambda n, b=batch: theirs(peer, [prompt] * b, n)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, run in contenders.items():
            seconds[name].append(time_per_step(run, tokens))

    def median_ratio(over: str, under: str, factor: float = 1.0) -> float:
        ratios = [factor * a / b for a, b in zip(seconds[over], seconds[under], strict=True)]
        return Timing(tuple(ratios)).median

    ratio_b1 = median_ratio("infer_lab_batch1", "transformers_batch1")
    ratio_b8 = median_ratio("infer_lab_batch8", "transformers_batch8")
    scaling = median_ratio("infer_lab_batch1", "infer_lab_batch8", 8)
    timings = {name: Timing(tuple(samples)) for name, samples in seconds.items()}
    weights = sum(p.nbytes for p in llm.loaded.model.parameters())

    table = Table(title=f"SmolLM2-135M, {options.dtype}, {torch.get_num_threads()} threads, {weights / 1e6:.0f} MB of weights read a step")
    for column in ("", "ms a step", "p10", "p90", "tokens/s"):
        table.add_column(column, justify="right" if column else "left")
    for name, timing in timings.items():
        batch = int(name.rpartition("batch")[2])
        cells = [f"{1e3 * x:.1f}" for x in (timing.median, timing.p10, timing.p90)]
        table.add_row(name.replace("_batch", ", batch "), *cells, f"{batch / timing.median:.1f}")
    console = Console()
    console.print(table)
    console.print(f"batch 1: {ratio_b1:.2f} × transformers' time (goal: at most 1)")
    console.print(f"batch 8: {ratio_b8:.2f} × transformers' time; {scaling:.2f} × our own tokens/s at batch 1 (goal: at least 3)")
    console.print(f"first tokens equal: {same}; load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    if options.record:
        record = Record(
            "cpu-vs-transformers",
            "SmolLM2 on the CPU beside transformers",
            "cpu",
            workload={
                "dtype": options.dtype,
                "tokens": tokens,
                "rounds": rounds,
                "threads": torch.get_num_threads(),
                "prompt_tokens": len(prompt),
            },
            sources=SOURCES,
        )
        for name, timing in timings.items():
            record.add_timing(name, timing)
        record.add_value("batch1_time_ratio", ratio_b1, "x", note="our time per token over transformers', median over rounds")
        record.add_value("batch8_time_ratio", ratio_b8, "x", note="the same at batch 8")
        record.add_value("batch8_scaling", scaling, "x", note="our tokens/s at batch 8 over our tokens/s at batch 1")
        console.print(f"recorded: {record.write()}")
    figures = {name: {"median_s": t.median, "p10_s": t.p10, "p90_s": t.p90} for name, t in timings.items()}
    summary = {"dtype": options.dtype, "threads": torch.get_num_threads(), "tokens": tokens, "rounds": rounds, "first_tokens_equal": same}
    print(json.dumps(summary | {"batch1_ratio": ratio_b1, "batch8_ratio": ratio_b8, "batch8_scaling": scaling, "seconds": figures}))


if __name__ == "__main__":
    main()
