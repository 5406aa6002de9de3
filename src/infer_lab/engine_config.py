"""How an engine is set up: frozen, checked once, resolved once when the engine is built. Imports no torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from infer_lab.core.config import SchedulerConfig
from infer_lab.errors import UserError
from infer_lab.quant.scheme import Scheme
from infer_lab.spec.config import SpeculativeConfig

_AS_THEY_ARE = (
    "admission", "block_size", "enable_chunked_prefill", "enable_prefix_caching", "long_prefill_token_threshold",
    "max_num_batched_tokens", "max_num_partial_prefills", "max_waiting_per_tenant", "max_waiting_requests", "max_waiting_tokens",
    "policy", "preemption", "priority_aging_s", "tenant_weights", "watermark",
)  # fmt: skip
DTYPES = ("auto", "float32", "bfloat16", "float16")
KV_DTYPES = ("auto", "bf16", "fp8", "int8")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a caller may set; every field is also a keyword of `LLM`.

    model: "smollm2", "dummy:<preset>", the path of a .gguf file or of a Hugging Face folder.
    device: "auto" (cuda when there is one), "cpu", "cuda", "cuda:1". dtype: "auto" is bfloat16 on cuda, float32 on cpu.
    kv_dtype: of cached keys and values: "auto" is dtype; "fp8" (e4m3) and "int8" have a scale for each token and head, and half the bytes.
    max_model_len: prompt and output together; None is the model's own limit.
    max_num_batched_tokens: token budget of a step; longer prompts are computed in chunks. max_num_seqs: requests in a batch.
    num_kv_blocks: KV blocks on the device, the null block included; or kv_cache_memory in bytes; or neither: sized from free memory.
    preemption: what happens to a request that must give way: its KV is thrown away ("recompute") or moved to num_host_kv_blocks blocks
        of host memory ("swap").
    quantization: how the layers' weights are stored: w8a16, w4a16, fp8, int8, or gguf (as the file has them); None: in dtype. A draft
        model's too. See quant.scheme.
    quantization_group: input columns that share a scale in w8a16 and w4a16: 32, 64 or 128.
    quantization_cache: whether a quantized model is kept in the user's cache (INFER_LAB_CACHE), so that it loads at once next time.
    speculative: where drafts come from: "ngram", "draft:<layers or model>", or a SpeculativeConfig; None: no drafts.
    kernels: on cuda, run the library's kernels; False is plain torch, the reference that they are compared with. (A CPU has torch only.)
    cuda_graphs: replay decode steps as CUDA graphs, captured when the engine starts; False launches kernel by kernel.
    async_scheduling: prepare and launch a step while the one before it runs; None: on cuda, unless there are drafts. Tokens do not change.
    policy, priority_aging_s, tenant_weights, admission, watermark, enable_chunked_prefill, long_prefill_token_threshold,
        max_num_partial_prefills, max_waiting_requests, max_waiting_tokens, max_waiting_per_tenant: how the scheduler decides; see
        SchedulerConfig, to which they go as they are.
    seed: from it come the seeds of requests that have none (and the weights of dummy models); None draws afresh every time.
    """

    model: str = "smollm2"
    device: str = "auto"
    dtype: str = "auto"
    kv_dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    num_kv_blocks: int | None = None
    kv_cache_memory: int | None = None
    enable_prefix_caching: bool = True
    preemption: Literal["recompute", "swap"] = "recompute"
    num_host_kv_blocks: int = 0
    quantization: str | None = None
    quantization_group: int = 128
    quantization_cache: bool = True
    speculative: SpeculativeConfig | str | None = None
    kernels: bool = True
    cuda_graphs: bool = True
    async_scheduling: bool | None = None
    policy: Literal["fcfs", "priority"] = "fcfs"
    priority_aging_s: float = 10.0
    tenant_weights: Mapping[str, float] = field(default_factory=dict, hash=False)
    admission: Literal["chunk", "prompt", "request"] = "prompt"
    watermark: float = 0.01
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 0
    max_waiting_requests: int = 0
    max_waiting_tokens: int = 0
    max_waiting_per_tenant: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise UserError(f"model must be a name such as smollm2, or a path; got {self.model!r}")
        if self.dtype not in DTYPES:
            raise UserError(f"dtype must be one of {', '.join(DTYPES)}; got {self.dtype!r}")
        if self.kv_dtype not in KV_DTYPES:
            raise UserError(f"kv_dtype must be one of {', '.join(KV_DTYPES)}; got {self.kv_dtype!r}")
        if not isinstance(self.device, str) or not re.fullmatch("auto|cpu|cuda(:[0-9]{1,4})?", self.device):
            raise UserError(f"device must be auto, cpu, cuda or cuda:<index>; got {self.device!r}")
        if self.num_kv_blocks is not None and self.kv_cache_memory is not None:
            raise UserError("give num_kv_blocks or kv_cache_memory, not both")
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "num_kv_blocks", "kv_cache_memory"):
            value = getattr(self, name)
            if value is not None and not (isinstance(value, int) and 1 <= value < 2**63):
                raise UserError(f"{name} must be a whole number of at least 1, got {value!r}")
        if not isinstance(self.num_host_kv_blocks, int) or self.num_host_kv_blocks < 0:
            raise UserError(f"num_host_kv_blocks must be a whole number of at least 0, got {self.num_host_kv_blocks!r}")
        for name in ("enable_prefix_caching", "kernels", "cuda_graphs"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if not isinstance(self.async_scheduling, bool | None):
            raise UserError(f"async_scheduling must be True, False or None, got {self.async_scheduling!r}")
        if self.seed is not None and not (isinstance(self.seed, int) and 0 <= self.seed < 2**63):
            raise UserError(f"seed must be a whole number in [0, 2**63), got {self.seed!r}")
        if not isinstance(self.quantization_cache, bool):
            raise UserError(f"quantization_cache must be True or False, got {self.quantization_cache!r}")
        Scheme.of("w8a16" if self.quantization is None else self.quantization, self.quantization_group)
        if isinstance(self.speculative, str):
            object.__setattr__(self, "speculative", SpeculativeConfig.parse(self.speculative))
        if not isinstance(self.speculative, SpeculativeConfig | None):
            raise UserError(f"speculative is a SpeculativeConfig, or a word such as 'ngram' or 'draft:8'; got {self.speculative!r}")
        if self.async_scheduling and self.speculative is not None:
            raise UserError("drafts continue a token that must be known, so speculative and async_scheduling exclude each other")
        # what the scheduler would refuse is refused before a model is loaded
        self.scheduler_config(self.num_kv_blocks or 2**30, self.max_model_len or 2, vocab_size=0)

    @property
    def scheme(self) -> Scheme | None:
        return None if self.quantization is None else Scheme.of(self.quantization, self.quantization_group)

    def runs_ahead(self, device_type: str) -> bool:
        """Whether steps are scheduled asynchronously there."""
        return self.speculative is None and (device_type == "cuda" if self.async_scheduling is None else self.async_scheduling)

    def scheduler_config(self, num_blocks: int, max_model_len: int, vocab_size: int, *, async_scheduling: bool = False) -> SchedulerConfig:
        """What the scheduler is told, once the sizes of the model and of its cache are known. UserError for what contradicts itself."""
        return SchedulerConfig(
            num_blocks=num_blocks,
            max_model_len=max_model_len,
            vocab_size=vocab_size,
            # each running request gets a token a step, and holds a block
            max_num_seqs=max(1, min(self.max_num_seqs, self.max_num_batched_tokens, num_blocks - 1)),
            num_host_blocks=self.num_host_kv_blocks,
            async_scheduling=async_scheduling,
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
        )
