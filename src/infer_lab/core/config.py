"""How a scheduler decides: frozen, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from infer_lab.errors import UserError


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """Everything that a scheduler is told.

    Memory
      num_blocks: KV blocks on the device, the null block 0 included. block_size: tokens a block.
      num_host_blocks: KV blocks in host memory, for preemption by swap.
      watermark: share of the pool that admitting a request must leave free while others run, so that they can grow.
    Step
      max_num_batched_tokens: the token budget of a step. max_num_seqs: requests in a batch.
      enable_chunked_prefill: False computes a prompt in one step or not at all.
      long_prefill_token_threshold: most tokens of one request in a step while it has more than one to compute; 0 = no limit.
      max_num_partial_prefills: how many requests may be in the middle of a prompt at once; 0 = no limit.
    Limits
      max_model_len: prompt and output together, for every request.
      max_waiting_requests, max_waiting_tokens, max_waiting_per_tenant (requests):
        what may wait before `QueueFullError`; 0 = no limit.
    Order
      policy: "fcfs", or "priority" (smaller first), where waiting `priority_aging_s` seconds is worth one level.
      tenant_weights: shares of tenants while several wait, each in [1e-6, 1e6]; 1 for those not named.
    Admission and preemption
      admission: what must fit into free blocks before a request is admitted: its first "chunk", its "prompt", or the whole
        "request" with all that it may generate, beside all that the running ones may (then nothing is ever preempted).
      preemption: "recompute" throws KV away; "swap" moves it to the host while there is room, else recomputes.
    Drafts
      vocab_size: tokens that the model knows, so that no draft lies beyond them; 0 = not checked.
    Running ahead
      async_scheduling: a plan may contain tokens that the plan before it will sample (`PLACEHOLDER`).
    step_records: how many of the last steps are kept for looking at.
    """

    num_blocks: int
    block_size: int = 16
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 256
    max_model_len: int = 8192
    num_host_blocks: int = 0
    watermark: float = 0.01
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    max_num_partial_prefills: int = 0
    max_waiting_requests: int = 0
    max_waiting_tokens: int = 0
    max_waiting_per_tenant: int = 0
    policy: Literal["fcfs", "priority"] = "fcfs"
    priority_aging_s: float = 10.0
    tenant_weights: Mapping[str, float] = field(default_factory=dict)
    admission: Literal["chunk", "prompt", "request"] = "prompt"
    preemption: Literal["recompute", "swap"] = "recompute"
    vocab_size: int = 0
    async_scheduling: bool = False
    step_records: int = 1024

    def __post_init__(self) -> None:
        def require(ok: bool, message: str) -> None:
            if not ok:
                raise UserError(message)

        whole = ("num_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len", "num_host_blocks", "step_records")
        limits = ("max_num_partial_prefills", "max_waiting_requests", "max_waiting_tokens", "max_waiting_per_tenant", "vocab_size")
        for name in (*whole, *limits, "long_prefill_token_threshold"):
            require(isinstance(getattr(self, name), int), f"{name} must be a whole number, got {getattr(self, name)!r}")
        for name in ("watermark", "priority_aging_s"):
            require(isinstance(getattr(self, name), (int, float)), f"{name} must be a number, got {getattr(self, name)!r}")
        require(self.num_blocks >= 2, f"num_blocks must be at least 2 (block 0 is the null block), got {self.num_blocks}")
        for name in ("block_size", "max_num_batched_tokens", "max_num_seqs", "step_records"):
            require(getattr(self, name) >= 1, f"{name} must be at least 1, got {getattr(self, name)}")
        require(self.max_model_len >= 2, f"max_model_len must be at least 2 (one token in, one out), got {self.max_model_len}")
        for name in (*limits, "long_prefill_token_threshold", "num_host_blocks"):
            require(getattr(self, name) >= 0, f"{name} must not be negative, got {getattr(self, name)}")
        require(0 <= self.watermark < 1, f"watermark must lie in [0, 1), got {self.watermark}")
        require(
            self.max_num_batched_tokens >= self.max_num_seqs,
            f"max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least max_num_seqs ({self.max_num_seqs}),"
            " so that every running request can get its one token in every step",
        )
        require(
            self.enable_chunked_prefill or self.max_num_batched_tokens >= self.max_model_len,
            f"without chunked prefill a step must take the longest prompt: raise max_num_batched_tokens"
            f" ({self.max_num_batched_tokens}) to max_model_len ({self.max_model_len}) or lower the latter",
        )
        require(
            self.enable_chunked_prefill or not (self.long_prefill_token_threshold or self.max_num_partial_prefills),
            "long_prefill_token_threshold and max_num_partial_prefills say how prompts are cut; they need enable_chunked_prefill",
        )
        require(self.policy in ("fcfs", "priority"), f"policy must be 'fcfs' or 'priority', got {self.policy!r}")
        require(self.priority_aging_s >= 1e-3, f"priority_aging_s must be at least 0.001 (inf: no aging), got {self.priority_aging_s}")
        require(
            self.admission in ("chunk", "prompt", "request"),
            f"admission must be 'chunk', 'prompt' or 'request', got {self.admission!r}",
        )
        require(self.preemption in ("recompute", "swap"), f"preemption must be 'recompute' or 'swap', got {self.preemption!r}")
        require(
            self.preemption == "recompute" or self.num_host_blocks > 0,
            "preemption by swap needs num_host_blocks > 0",
        )
        require(isinstance(self.tenant_weights, Mapping), f"tenant_weights must map tenants to numbers, got {self.tenant_weights!r}")
        for tenant, weight in self.tenant_weights.items():
            ok = isinstance(weight, (int, float)) and 1e-6 <= weight <= 1e6
            require(ok, f"the weight of tenant {tenant!r} must lie in [1e-6, 1e6], got {weight!r}")
