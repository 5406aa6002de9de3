"""Where the time of a decode step goes, kernel by kernel: torch's profiler around steps of a running engine.

A kernel is ours if a function of that name is compiled by Triton or Gluon in `infer_lab.kernels`; the kernels of a replayed CUDA graph are
seen one by one. What lies between kernels (launches, the host, waiting) is the entry of kind "idle".
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from types import MappingProxyType

import torch
from torch.profiler import ProfilerActivity, profile

from infer_lab.bench.engine_work import Job
from infer_lab.llm import LLM
from infer_lab.sampling_params import SamplingParams

KINDS: Mapping[str, str] = MappingProxyType({
    "_paged_decode_kernel": "attention", "flash_prefill": "attention", "_hopper_prefill_kernel": "attention", "rmsnorm": "norm",
    "rope_kv_write": "rope and KV write", "silu_mul": "activation", "_sampling_kernels": "sampling", "logprobs": "log-probabilities",
    "skinny_gemm": "matrix products", "w4a16": "quantized products", "w8a16": "quantized products", "_w8a8": "quantized products",
    "_hopper_fp8_kernel": "quantized products", "_gemm": "quantized products", "quantize_rows": "rows to 8 bits",
    "dequantize_weight": "weights to 16 bits",
})  # fmt: skip
"""Module of `infer_lab.kernels` → what its kernels do."""
_CUBLAS = re.compile(r"gemm|gemv|nvjet|cutlass|cublas|splitk", re.IGNORECASE)
_COPY = re.compile(r"memcpy|memset", re.IGNORECASE)

Entry = tuple[str, str, float, float]
"""Kind, name, microseconds and launches of one step."""


@cache
def our_kernels() -> Mapping[str, str]:
    """Name of each kernel of ours → the module that it is in."""
    found = {}
    for path in resources.files("infer_lab.kernels").iterdir():
        if path.name.endswith(".py"):
            # after @triton.jit, whatever its arguments; of a helper that is inlined no launch will ever bear the name
            names = re.findall(r"^@(?:triton|gluon)\.jit(?:\([^)]*\))?\ndef (\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
            found |= dict.fromkeys(names, path.name.removesuffix(".py"))
    return MappingProxyType(found)


def kind_of(name: str) -> str:
    """What a kernel does: ours by their module, "cuBLAS products", "copies", or "torch" for all others."""
    module = our_kernels().get(name)
    if module is not None:
        return KINDS.get(module, module)
    if _COPY.search(name):
        return "copies"
    return "cuBLAS products" if _CUBLAS.search(name) else "torch"


def decode_timeline(llm: LLM, job: Job, steps: int = 16) -> list[Entry]:
    """Of a step in which every request of the job decodes, the longest entry first; on a CPU, operators of torch instead of kernels."""
    params = SamplingParams(temperature=job.temperature, max_tokens=llm.max_model_len, ignore_eos=True)
    streams = [llm.stream(prompt, params) for prompt in job.prompts]
    on_gpu = llm.device.type == "cuda"
    try:
        for stream in streams:
            next(stream)
        for _ in range(4):
            next(streams[0])
        with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiler:
            if on_gpu:
                torch.cuda.synchronize(llm.device)
            start = time.perf_counter()
            for _ in range(steps):
                next(streams[0])
            if on_gpu:
                torch.cuda.synchronize(llm.device)
            seconds = time.perf_counter() - start
    finally:
        for stream in streams:
            stream.close()  # type: ignore[attr-defined]
    return _entries(profiler.key_averages(), on_gpu, seconds, steps)


def _entries(averages: Sequence, on_gpu: bool, seconds: float, steps: int) -> list[Entry]:
    entries: list[Entry] = []
    for event in averages:
        us = event.self_device_time_total if on_gpu else event.self_cpu_time_total
        is_kernel = (event.device_type.name != "CPU") == on_gpu
        if us and is_kernel:
            entries.append((kind_of(event.key) if on_gpu else "torch", event.key, round(us / steps, 2), event.count / steps))
    idle = seconds * 1e6 / steps - sum(us for _, _, us, _ in entries)
    entries.append(("idle", "between kernels", round(max(idle, 0.0), 2), 0.0))
    return sorted(entries, key=lambda entry: -entry[2])
