"""Closed forms for LLM inference: parameters, bytes, cache, operations, roofline, speculation, collectives, queues, capacity.

Why: every number in the course comes from here, with its unit and its formula, so that a figure in the text cannot drift from the
arithmetic behind it. Each function returns a `Quantity` and carries the formula that a person would write: `explain(fn, …)` prints it with
the numbers put in. Pure Python, no torch and no numpy: it runs in the browser and while the book is built.

Terms: `model` is a ModelConfig (presets in `infer_lab.presets`), `gpu` a `hardware.Gpu`. Tokens are whole counts. `util` is the share of
the card's memory that the engine may use for weights, activations and cache together (vLLM's `gpu_memory_utilization`).

One noun a file: `weights`, `kv_cache`, `operations`, `amdahl`, `attention_io`, `roofline`, `intensity`, `speculation`,
`collectives`, `queueing`, `quantization`, `capacity`.
"""

from infer_lab.calculator.amdahl import amdahl_speedup
from infer_lab.calculator.attention_io import attention_io_reduction, flash_attention_elements, standard_attention_elements
from infer_lab.calculator.capacity import (
    decode_time_per_token,
    prefill_share,
    replica_batch,
    replicas_needed,
    time_to_first_token,
)
from infer_lab.calculator.collectives import (
    all_reduce_factor,
    all_to_all_bytes,
    one_shot_all_reduce_time,
    pipeline_bubble,
    ring_all_reduce_time,
    tp_payload,
    tree_all_reduce_time,
)
from infer_lab.calculator.intensity import decode_attention_intensity, gemm_bytes, gemm_intensity, gemm_ridge_rows
from infer_lab.calculator.kv_cache import (
    attention_heads_per_kv_head,
    crossover_tokens,
    gpu_memory,
    kv_budget,
    kv_bytes,
    kv_bytes_per_request,
    kv_bytes_per_token,
    max_cached_tokens,
    max_concurrency,
    pages,
)
from infer_lab.calculator.operations import (
    decode_flops,
    prefill_flops,
    projections_with_cache,
    projections_without_cache,
)
from infer_lab.calculator.quantization import bits_per_weight, quantized_weight_bytes
from infer_lab.calculator.queueing import (
    in_flight,
    knee_utilization,
    mg1_wait,
    mmc_wait,
    mmc_wait_probability,
    mmc_wait_quantile,
    utilization,
)
from infer_lab.calculator.roofline import (
    bandwidth,
    decode_intensity,
    decode_step_bytes,
    decode_step_floor,
    decode_throughput_ceiling,
    peak_flops,
    prefill_bytes,
    prefill_floor,
    ridge,
    ridge_batch,
)
from infer_lab.calculator.speculation import (
    best_draft_tokens,
    break_even_acceptance,
    speculative_speedup,
    speculative_yield,
    verify_cost,
)
from infer_lab.calculator.weights import (
    active_parameters,
    decode_weight_bytes,
    distinct_experts,
    parameters,
    weight_bytes,
    weight_bytes_per_gpu,
)
from infer_lab.formulas import Formula, explain, tracing
from infer_lab.units import quantity

__all__ = [
    "Formula",
    "active_parameters",
    "all_reduce_factor",
    "all_to_all_bytes",
    "amdahl_speedup",
    "attention_heads_per_kv_head",
    "attention_io_reduction",
    "bandwidth",
    "best_draft_tokens",
    "bits_per_weight",
    "break_even_acceptance",
    "crossover_tokens",
    "decode_attention_intensity",
    "decode_flops",
    "decode_intensity",
    "decode_step_bytes",
    "decode_step_floor",
    "decode_throughput_ceiling",
    "decode_time_per_token",
    "decode_weight_bytes",
    "distinct_experts",
    "explain",
    "flash_attention_elements",
    "gemm_bytes",
    "gemm_intensity",
    "gemm_ridge_rows",
    "gpu_memory",
    "in_flight",
    "knee_utilization",
    "kv_budget",
    "kv_bytes",
    "kv_bytes_per_request",
    "kv_bytes_per_token",
    "max_cached_tokens",
    "max_concurrency",
    "mg1_wait",
    "mmc_wait",
    "mmc_wait_probability",
    "mmc_wait_quantile",
    "one_shot_all_reduce_time",
    "pages",
    "parameters",
    "peak_flops",
    "pipeline_bubble",
    "prefill_bytes",
    "prefill_floor",
    "prefill_flops",
    "prefill_share",
    "projections_with_cache",
    "projections_without_cache",
    "quantity",
    "quantized_weight_bytes",
    "replica_batch",
    "replicas_needed",
    "ridge",
    "ridge_batch",
    "ring_all_reduce_time",
    "speculative_speedup",
    "speculative_yield",
    "standard_attention_elements",
    "time_to_first_token",
    "tp_payload",
    "tracing",
    "tree_all_reduce_time",
    "utilization",
    "verify_cost",
    "weight_bytes",
    "weight_bytes_per_gpu",
]  # fmt: skip
