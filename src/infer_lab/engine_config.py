"""How an engine is set up: frozen, checked once, resolved once when the engine is built. Imports no torch."""

from __future__ import annotations

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
        if not self.model:
            raise UserError("model is empty; give a name such as smollm2, or a path")
        if self.dtype not in DTYPES:
            raise UserError(f"dtype must be one of {', '.join(DTYPES)}; got {self.dtype!r}")
        if self.device != "auto" and self.device.partition(":")[0] not in ("cpu", "cuda"):
            raise UserError(f"device must be auto, cpu, cuda or cuda:<index>; got {self.device!r}")
        if self.num_kv_blocks is not None and self.kv_cache_memory is not None:
            raise UserError("give num_kv_blocks or kv_cache_memory, not both")
        for name in ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "block_size", "kv_cache_memory"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UserError(f"{name} must be at least 1, got {value}")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise UserError(f"seed must lie in [0, 2**63), got {self.seed}")
