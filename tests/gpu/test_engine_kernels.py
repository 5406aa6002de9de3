"""Which kernels a running engine launches, by name: the parts that this library explains run in its own kernels.

The exceptions, both since they measure faster there (`benchmarks/gemm_notes.md`): large products in 16 bits go to cuBLAS, and so do those
of weight-only layers in steps of 512 tokens or more, after a kernel of ours has unpacked the layer.
"""

from __future__ import annotations

import re

import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from infer_lab import LLM, SamplingParams
from infer_lab.bench.timeline import kind_of, our_kernels

# what torch and its libraries call the work that must be ours
FOREIGN = re.compile(
    r"flash|fmha|softmax|attention|sdpa|rms_?norm|layer_?norm|Mean|rsqrt|silu|sigmoid|topk|radix|sort|multinomial|exponential|argmax|cumsum|scan"
    r"|int4|int8_t.*gemm|scaled_mm",
    re.IGNORECASE,
)
PROMPTS = [[(7 * i + j) % 1000 for j in range(30 + 40 * i)] for i in range(4)]


def launches(llm: LLM) -> dict[str, int]:
    """How often each kernel ran while prompts were computed and tokens decoded, greedy and drawn."""
    params = [SamplingParams(temperature=t, max_tokens=12, ignore_eos=True, seed=1, **rest) for t, rest in
              ((0.0, {}), (0.7, {}), (0.7, {"top_k": 20, "top_p": 0.9}), (0.7, {"min_p": 0.05}))]  # fmt: skip
    llm.generate(PROMPTS, params, progress=False)
    llm.engine.scheduler.reset_prefix_cache()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        llm.generate(PROMPTS, params, progress=False)
        torch.cuda.synchronize()
    return {event.key: event.count for event in profiler.key_averages() if event.device_type.name != "CPU"}


@pytest.mark.parametrize(
    "quantization, graphs", [(None, True), (None, False), ("w4a16", True), ("w8a16", False), ("fp8", False), ("int8", False)]
)
def test_what_we_explain_runs_in_our_kernels(device: torch.device, quantization: str | None, graphs: bool) -> None:
    options = {"quantization": quantization, "quantization_cache": False, "cuda_graphs": graphs, "seed": 0}
    with LLM("dummy:qwen3-0.6b", device="cuda", max_num_seqs=4, max_model_len=512, **options) as llm:
        found = launches(llm)
        layers = llm.model_config.num_layers
    foreign = {name: count for name, count in found.items() if name not in our_kernels()}
    print(f"\n{quantization or 'bf16'}, {'graphs' if graphs else 'no graphs'}: not ours: {foreign}")
    kinds = {kind_of(name) for name in found}
    wanted = {"attention", "norm", "rope and KV write", "activation", "sampling"}
    assert wanted | ({"quantized products"} if quantization else set()) <= kinds
    assert not [name for name in foreign if FOREIGN.search(name)]
    if quantization:
        # the head alone is left to cuBLAS: far fewer launches than layers
        steps = 2 * len(PROMPTS) * 12
        assert sum(count for name, count in foreign.items() if kind_of(name) == "cuBLAS products") <= steps < 4 * layers * 12
