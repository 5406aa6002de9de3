"""How long a decode step takes, how much of it the host needs, and what graphs and running ahead save: one line for each way of running.

    python benchmarks/decode_step.py --model dummy:qwen3-0.6b --batch 1 --batch 256 --prompt 512 --output 128

A quick look while working on the engine; the recorded rows come from `infer-lab bench`. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import time

from infer_lab import LLM, SamplingParams

WAYS = {"graphs, ahead": {}, "graphs": {"async_scheduling": False}, "neither": {"async_scheduling": False, "cuda_graphs": False}}


def step_times(llm: LLM, batch: int, prompt: int, output: int) -> tuple[float, float]:
    """(median milliseconds of a whole step, of the time between launching and asking for a result) of full decode steps."""
    engine, rng = llm.llm_engine, random.Random(0)
    prompts = [[rng.randrange(llm.model_config.vocab_size) for _ in range(prompt)] for _ in range(batch)]
    params = SamplingParams(max_tokens=output, temperature=0.6, ignore_eos=True)
    step, whole = engine.step, []

    def timed() -> object:
        start = time.perf_counter()
        news = step()
        whole.append(time.perf_counter() - start)
        return news

    engine.step = timed  # type: ignore[method-assign]
    waited: list[float] = []
    core = engine.core
    take_in = core._apply_oldest

    def waiting() -> object:
        plan, result = core._in_flight[0]
        start = time.perf_counter()
        output = result()
        waited.append(time.perf_counter() - start)
        core._in_flight[0] = (plan, lambda: output)
        return take_in()

    core._apply_oldest = waiting  # type: ignore[method-assign]
    try:
        llm.generate(prompts, params, progress=False)
    finally:
        engine.step, core._apply_oldest = step, take_in  # type: ignore[method-assign]
    middle = slice(len(whole) - output + output // 4, len(whole) - output // 8)
    ms = [1e3 * statistics.median(times[middle]) for times in (whole, waited)]
    return ms[0], ms[0] - ms[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="dummy:qwen3-0.6b")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--batch", type=int, action="append", help="default: 1, 32 and 256")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--output", type=int, default=128)
    parser.add_argument("--block-size", type=int, default=16)
    parser.add_argument("--way", choices=list(WAYS), action="append", help="default: all")
    args = parser.parse_args()
    batches = args.batch or [1, 32, 256]
    found = []
    loaded = None
    for way in args.way or WAYS:
        start = time.perf_counter()
        llm = LLM(
            args.model, device=args.device, loaded=loaded, max_num_seqs=max(batches), max_num_batched_tokens=max(2048, max(batches)),
            max_model_len=args.prompt + args.output + 1, block_size=args.block_size, seed=0, enable_prefix_caching=False, **WAYS[way],
        )  # fmt: skip
        loaded, ready = llm.loaded, time.perf_counter() - start
        for batch in batches:
            step_times(llm, batch, args.prompt, 16)
            step, host = step_times(llm, batch, args.prompt, args.output)
            found.append({"way": way, "batch": batch, "step_ms": round(step, 3), "host_ms": round(host, 3), "ready_s": round(ready, 1)})
            print(
                f"{way:14} batch {batch:4}: {step:7.3f} ms a step, of which the host {host:6.3f} ms; ready after {ready:.1f} s", flush=True
            )
        llm.close()
        del llm
    print(json.dumps(found))


if __name__ == "__main__":
    main()
