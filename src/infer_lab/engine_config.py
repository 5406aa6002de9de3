"""How an engine is set up: frozen, checked once, resolved once when the engine is built. Imports no torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from infer_lab.errors import UserError

DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What a caller may set; every field is also a keyword of `LLM`.

    model: "smollm2", "dummy:<preset>", the path of a .gguf file or of a Hugging Face folder.
    device: "auto" (cuda when there is one), "cpu", "cuda", "cuda:1". dtype: "auto" is bfloat16 on cuda, float32 on cpu.
    max_model_len: prompt and output together; None is the model's own limit.
    max_num_batched_tokens: token budget of a step; longer prompts are computed in chunks. max_num_seqs: requests in a batch.
    num_kv_blocks: KV blocks on the device, the null block included; or kv_cache_memory in bytes; or neither: sized from free memory.
    preemption: what happens to a request that must give way: its KV is thrown away ("recompute") or moved to num_host_kv_blocks blocks
        of host memory ("swap").
    seed: from it come the seeds of requests that have none (and the weights of dummy models); None draws afresh every time.
    """

    model: str = "smollm2"
    device: str = "auto"
    dtype: str = "auto"
    max_model_len: int | None = None
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    block_size: int = 16
    num_kv_blocks: int | None = None
    kv_cache_memory: int | None = None
    enable_prefix_caching: bool = True
    preemption: Literal["recompute", "swap"] = "recompute"
    num_host_kv_blocks: int = 0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model:
            raise UserError(f"model must be a name such as smollm2, or a path; got {self.model!r}")
        if self.dtype not in DTYPES:
            raise UserError(f"dtype must be one of {', '.join(DTYPES)}; got {self.dtype!r}")
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
        if not isinstance(self.enable_prefix_caching, bool):
            raise UserError(f"enable_prefix_caching must be True or False, got {self.enable_prefix_caching!r}")
        if self.seed is not None and not (isinstance(self.seed, int) and 0 <= self.seed < 2**63):
            raise UserError(f"seed must be a whole number in [0, 2**63), got {self.seed!r}")
