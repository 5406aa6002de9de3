"""Closed forms for LLM inference: parameters, bytes, KV-cache size, concurrency, operations, the roofline.

Why: every number in the course comes from here, with its unit and its formula, so that a figure in the text cannot drift from the
arithmetic behind it. Each function returns a `Quantity` and carries the formula that a person would write: `explain(fn, …)` prints it with
the numbers put in. Pure Python, no torch and no numpy: it runs in the browser and while the book is built.

Terms: `model` is a ModelConfig (presets in `infer_lab.presets`), `gpu` a `hardware.Gpu`. Tokens are whole counts. `util` is the share of
the card's memory that the engine may use for weights, activations and cache together (vLLM's `gpu_memory_utilization`).
"""

from __future__ import annotations

from infer_lab.config import ModelConfig
from infer_lab.errors import DoesNotFitError, NotApplicableError, UserError
from infer_lab.formulas import Formula, Worked, explain, formula, tracing
from infer_lab.hardware import Gpu
from infer_lab.units import Number, Quantity, quantity

__all__ = [
    "Formula", "all_reduce_factor", "attention_heads_per_kv_head", "bandwidth", "crossover_tokens", "decode_flops", "decode_intensity",
    "decode_step_bytes", "decode_step_floor", "decode_throughput_ceiling", "decode_weight_bytes", "explain", "gpu_memory",
    "kv_budget", "kv_bytes", "kv_bytes_per_token", "max_cached_tokens", "max_concurrency", "pages", "parameters", "peak_flops",
    "prefill_flops", "projections_with_cache", "projections_without_cache", "quantity", "ridge", "tracing", "weight_bytes",
]  # fmt: skip

Count = int | float | Quantity


# --- the model: parameters and weights ------------------------------------------------------------------------------------------


@formula("{layers} · ({attention} + {ffn} + {norms}) + {embedding} + {final_norm}")
def parameters(model: ModelConfig) -> Worked:
    """All parameters of a dense Llama-shaped decoder: attention and gated FFN matrices, norms, biases, embedding, LM head.

    NotApplicableError for MoE and MLA models, whose shapes this does not describe.
    """
    _require_dense(model, "parameters")
    attention, ffn, norms = _per_layer(model)
    table = model.vocab_size * model.hidden_size
    embedding = table * (1 if model.tie_word_embeddings else 2)
    total = model.num_layers * (attention + ffn + norms) + embedding + model.hidden_size
    inputs = {"layers": model.num_layers, "attention": attention, "ffn": ffn, "norms": norms, "embedding": embedding,
              "final_norm": model.hidden_size}  # fmt: skip
    return Worked(Quantity(total), inputs)


@formula("{parameters} · {bytes} / {tp}")
def weight_bytes(model: ModelConfig, bytes_per_element: Number = 2, tp: int = 1) -> Worked:
    """Bytes of weights on one GPU of a tensor-parallel group. (Norm vectors are copied, not split: under 0.01 %, left out.)"""
    _check_tp(model, tp)
    count = parameters(model)
    return Worked(_bytes(count.base * bytes_per_element, tp), {"parameters": count, "bytes": bytes_per_element, "tp": tp})


@formula("({parameters} − {embedding_table}) · {bytes} / {tp}")
def decode_weight_bytes(model: ModelConfig, bytes_per_element: Number = 2, tp: int = 1) -> Worked:
    """Weight bytes that one decode step must read: everything but the embedding table, of which a step reads only its tokens' rows.

    With tied embeddings the table is the LM head, is read whole, and stays in.
    """
    _check_tp(model, tp)
    table = 0 if model.tie_word_embeddings else model.vocab_size * model.hidden_size
    count = parameters(model)
    return Worked(
        _bytes((count.base - table) * bytes_per_element, tp),
        {"parameters": count, "embedding_table": table, "bytes": bytes_per_element, "tp": tp},
    )


@formula("{heads} / {kv_heads}")
def attention_heads_per_kv_head(model: ModelConfig) -> Worked:
    """How many query heads share one KV head: 1 is MHA, all of them MQA, between lies GQA."""
    return Worked(Quantity(model.num_heads // model.num_kv_heads), {"heads": model.num_heads, "kv_heads": model.num_kv_heads})


# --- the KV cache ---------------------------------------------------------------------------------------------------------------


@formula("2 · {layers} · {kv_heads} · {head_dim} · {bytes}")
def kv_bytes_per_token(model: ModelConfig, bytes_per_element: Number = 2, tp: int = 1) -> Worked:
    """KV-cache bytes of one token, on one GPU of a tensor-parallel group. The 2 is K and V.

    tp splits KV heads over the GPUs; once there are more GPUs than KV heads, heads are copied and a GPU never holds less than one.
    An MLA model caches one latent (with its RoPE key) per layer instead; every GPU needs all of it, so tp does not shrink it.
    """
    _check_tp(model, tp)
    if model.mla_latent_dim:
        value = model.num_layers * model.mla_latent_dim * bytes_per_element
        return Worked(
            Quantity(_whole(value), "B/tok"),
            {"layers": model.num_layers, "latent": model.mla_latent_dim, "bytes": bytes_per_element},
            "{layers} · {latent} · {bytes}",
        )
    if model.num_kv_heads % tp and tp % model.num_kv_heads:
        raise NotApplicableError(
            f"{model.name}: {model.num_kv_heads} KV heads are neither split nor copied evenly over tp={tp}; one must divide the other"
        )
    heads = max(1, model.num_kv_heads // tp)
    value = 2 * model.num_layers * heads * model.head_dim * bytes_per_element
    inputs = {"layers": model.num_layers, "kv_heads": heads, "head_dim": model.head_dim, "bytes": bytes_per_element}
    return Worked(Quantity(_whole(value), "B/tok"), inputs)


@formula("{per_token} · {tokens}")
def kv_bytes(model: ModelConfig, tokens: Count, bytes_per_element: Number = 2, tp: int = 1) -> Worked:
    """KV-cache bytes of `tokens` cached tokens, whichever requests they belong to."""
    n = _count(tokens, "tokens")
    per_token = kv_bytes_per_token(model, bytes_per_element, tp)
    return Worked(Quantity(_whole(per_token.base * n), "B"), {"per_token": per_token, "tokens": n})


@formula("⌈{tokens} / {block_size}⌉")
def pages(tokens: Count, block_size: int = 16) -> Worked:
    """Blocks of a paged cache that hold `tokens` tokens of one request; the last one may be partly empty."""
    n = _count(tokens, "tokens")
    if block_size < 1:
        raise UserError(f"block_size must be at least 1, got {block_size}")
    return Worked(Quantity(-(-n // block_size)), {"tokens": n, "block_size": block_size})


@formula("{util} · {memory} − {weights} − {overhead}")
def kv_budget(
    gpu: Gpu,
    model: ModelConfig,
    util: float = 0.9,
    bytes_per_element: Number = 2,
    tp: int = 1,
    overhead: Count = 0,
    driver: int = 0,
) -> Worked:
    """Bytes left for the KV cache on one GPU after weights.

    util: share of the card's memory that the engine may use (vLLM's `gpu_memory_utilization`). overhead: bytes for activations, CUDA
    graphs and communication buffers; 0 by default, and real engines measure 1 to 5 GB here. driver=1 takes the capacity that
    the driver reports instead of the number on the box. DoesNotFitError when the weights alone exceed the share.
    """
    if not 0 < util <= 1:
        raise UserError(f"util is a share of the card's memory, in (0, 1]; got {util}")
    memory = gpu.driver_memory if driver else gpu.memory
    weights = weight_bytes(model, bytes_per_element, tp)
    other = quantity(overhead, "B")
    left = util * memory.to("B") - weights - other
    if left < Quantity(0, "B"):
        raise DoesNotFitError(
            f"{model.name} does not fit {gpu.name}: weights {weights.to('GB').format('.1f')} + overhead {other.to('GB').format('.1f')}"
            f" exceed {util:g} · {memory.to('GB').format('.0f')}; use more GPUs (tp), fewer bytes per weight, or a larger card"
        )
    return Worked(left, {"util": util, "memory": memory, "weights": weights, "overhead": other})


@formula("⌊{budget} / {per_token}⌋")
def max_cached_tokens(
    gpu: Gpu,
    model: ModelConfig,
    util: float = 0.9,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    tp: int = 1,
    overhead: Count = 0,
    driver: int = 0,
) -> Worked:
    """Tokens that the KV budget holds, over all requests together."""
    budget = kv_budget(gpu, model, util, bytes_per_element, tp, overhead, driver)
    per_token = kv_bytes_per_token(model, kv_bytes_per_element, tp)
    return Worked(Quantity(int(budget.base // per_token.base), "tok"), {"budget": budget, "per_token": per_token})


@formula("⌊{budget} / ({per_token} · {tokens})⌋")
def max_concurrency(
    gpu: Gpu,
    model: ModelConfig,
    tokens: Count,
    util: float = 0.9,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    tp: int = 1,
    overhead: Count = 0,
    driver: int = 0,
    block_size: int = 1,
) -> Worked:
    """Requests of `tokens` cached tokens each that fit at once. block_size rounds each request up to whole blocks (1: no rounding)."""
    slots = pages(tokens, block_size).value * block_size
    if slots < 1:
        raise UserError("a request holds at least one token")
    budget = kv_budget(gpu, model, util, bytes_per_element, tp, overhead, driver)
    per_token = kv_bytes_per_token(model, kv_bytes_per_element, tp)
    return Worked(Quantity(int(budget.base // (per_token.base * slots))), {"budget": budget, "per_token": per_token, "tokens": slots})


@formula("{weights} / {per_token}")
def crossover_tokens(model: ModelConfig, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2) -> Worked:
    """Cached tokens, over the whole batch, at which a decode step reads as many KV bytes as weight bytes."""
    weights, per_token = decode_weight_bytes(model, bytes_per_element), kv_bytes_per_token(model, kv_bytes_per_element)
    return Worked(Quantity(int(weights.base // per_token.base), "tok"), {"weights": weights, "per_token": per_token})


# --- work with and without a cache ----------------------------------------------------------------------------------------------


@formula("{n} · {prompt} + {n} · ({n} − 1) / 2")
def projections_without_cache(tokens: Count, prompt: Count = 1) -> Worked:
    """K (or V) rows that one layer projects to generate `tokens` tokens after `prompt`, when each step recomputes its whole prefix."""
    n, p = _count(tokens, "tokens"), _count(prompt, "prompt")
    return Worked(Quantity(n * p + n * (n - 1) // 2), {"n": n, "prompt": p})


@formula("{prompt} + {n} − 1")
def projections_with_cache(tokens: Count, prompt: Count = 1) -> Worked:
    """The same with a cache: each position once. (The last generated token is never fed back.)"""
    n, p = _count(tokens, "tokens"), _count(prompt, "prompt")
    return Worked(Quantity(p + n - 1 if n else 0), {"n": n, "prompt": p})


# --- operations and the roofline ------------------------------------------------------------------------------------------------


@formula("2 · {matrices} · {tokens} + 2 · {lm_head} + 4 · {layers} · {heads} · {head_dim} · {pairs}")
def prefill_flops(model: ModelConfig, tokens: Count, cached: Count = 0) -> Worked:
    """Operations to prefill `tokens` new tokens of one request whose first `cached` tokens are in the cache already.

    pairs: (query, key) pairs under the causal mask. The LM head runs for the last position only. A multiply-add counts as 2;
    norms, softmax and RoPE are left out.
    """
    _require_dense(model, "prefill_flops")
    n, c = _count(tokens, "tokens"), _count(cached, "cached")
    attention, ffn, _ = _per_layer(model, matrices_only=True)
    matrices, head = model.num_layers * (attention + ffn), model.vocab_size * model.hidden_size
    pairs = n * c + n * (n + 1) // 2
    total = 2 * matrices * n + 2 * head + 4 * model.num_layers * model.num_heads * model.head_dim * pairs
    inputs = {"matrices": matrices, "tokens": n, "lm_head": head, "layers": model.num_layers, "heads": model.num_heads,
              "head_dim": model.head_dim, "pairs": pairs}  # fmt: skip
    return Worked(Quantity(total, "FLOP"), inputs)


@formula("{batch} · (2 · {matrices} + 4 · {layers} · {heads} · {head_dim} · {context})")
def decode_flops(model: ModelConfig, batch: Count, context: Count) -> Worked:
    """Operations of one decode step: `batch` requests, each attending to `context` cached tokens. Counts *query* heads, not KV heads."""
    _require_dense(model, "decode_flops")
    b, s = _count(batch, "batch"), _count(context, "context")
    attention, ffn, _ = _per_layer(model, matrices_only=True)
    matrices = model.num_layers * (attention + ffn) + model.vocab_size * model.hidden_size
    total = b * (2 * matrices + 4 * model.num_layers * model.num_heads * model.head_dim * s)
    inputs = {"batch": b, "matrices": matrices, "layers": model.num_layers, "heads": model.num_heads, "head_dim": model.head_dim,
              "context": s}  # fmt: skip
    return Worked(Quantity(total, "FLOP"), inputs)


@formula("{weights} + {batch} · {context} · {per_token}")
def decode_step_bytes(
    model: ModelConfig, batch: Count, context: Count, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2
) -> Worked:
    """The fewest bytes that one decode step reads: the weights once, and every cached token of every request once."""
    b, s = _count(batch, "batch"), _count(context, "context")
    weights, per_token = decode_weight_bytes(model, bytes_per_element), kv_bytes_per_token(model, kv_bytes_per_element)
    total = _whole(weights.base + b * s * per_token.base)
    return Worked(Quantity(total, "B"), {"weights": weights, "batch": b, "context": s, "per_token": per_token})


@formula("{flops} / {bytes}")
def decode_intensity(
    model: ModelConfig, batch: Count, context: Count, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2
) -> Worked:
    """Operations per byte of a decode step; below the card's ridge the step waits for memory."""
    flops = decode_flops(model, batch, context)
    read = decode_step_bytes(model, batch, context, bytes_per_element, kv_bytes_per_element)
    return Worked(flops / read, {"flops": flops, "bytes": read})


@formula("max({bytes} / {bandwidth}, {flops} / {peak})")
def decode_step_floor(
    gpu: Gpu,
    model: ModelConfig,
    batch: Count,
    context: Count,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
) -> Worked:
    """No decode step on this card can be faster: bytes over bandwidth or operations over peak, whichever is longer.

    bandwidth: takes the place of the sheet's figure, e.g. a measured one (0: the sheet's).
    """
    read = decode_step_bytes(model, batch, context, bytes_per_element, kv_bytes_per_element)
    flops, peak = decode_flops(model, batch, context), gpu.peak_flops("bf16")
    rate = quantity(bandwidth, "B/s") if bandwidth else gpu.bandwidth
    seconds = max(read / rate, flops / peak)
    return Worked(seconds.to("s"), {"bytes": read, "bandwidth": rate, "flops": flops, "peak": peak})


@formula("{batch} / {step}")
def decode_throughput_ceiling(
    gpu: Gpu,
    model: ModelConfig,
    batch: Count,
    context: Count,
    bytes_per_element: Number = 2,
    kv_bytes_per_element: Number = 2,
    bandwidth: Count = 0,
) -> Worked:
    """Tokens per second that a batch cannot exceed: every request gets one token a step, and no step beats its floor."""
    step = decode_step_floor(gpu, model, batch, context, bytes_per_element, kv_bytes_per_element, bandwidth)
    b = _count(batch, "batch")
    return Worked(Quantity(b / step.base, "tok/s"), {"batch": b, "step": step})


@formula("{peak} / {bandwidth}")
def ridge(gpu: Gpu, dtype: str = "bf16", peak: Count = 0, bandwidth: Count = 0) -> Worked:
    """Operations per byte at which the card turns from memory-bound to compute-bound. Dense peak; 0 takes the sheet's figures."""
    top = quantity(peak, "FLOP/s") if peak else gpu.peak_flops(dtype)
    rate = quantity(bandwidth, "B/s") if bandwidth else gpu.bandwidth
    return Worked((top / rate).to("FLOP/B"), {"peak": top, "bandwidth": rate})


@formula("2 · ({n} − 1) / {n}")
def all_reduce_factor(n: int) -> Worked:
    """Times its payload that each GPU of a ring sends in an all-reduce over `n` GPUs."""
    if n < 1:
        raise UserError(f"a ring has at least one GPU, got {n}")
    return Worked(Quantity(2 * (n - 1) / n, "x"), {"n": n})


@formula("{memory}")
def gpu_memory(gpu: Gpu, driver: int = 0) -> Worked:
    """Capacity of the card: the number on the box, or with driver=1 what the driver reports."""
    memory = gpu.driver_memory if driver else gpu.memory
    return Worked(memory, {"memory": memory})


@formula("{bandwidth}")
def bandwidth(gpu: Gpu) -> Worked:
    """Nominal memory bandwidth of the card."""
    return Worked(gpu.bandwidth, {"bandwidth": gpu.bandwidth})


@formula("{peak}")
def peak_flops(gpu: Gpu, dtype: str = "bf16") -> Worked:
    """Nominal dense peak of the card."""
    peak = gpu.peak_flops(dtype)
    return Worked(peak, {"peak": peak})


# --- helpers --------------------------------------------------------------------------------------------------------------------


def _per_layer(model: ModelConfig, matrices_only: bool = False) -> tuple[int, int, int]:
    """Parameters of one layer: attention, FFN, norms."""
    d, head = model.hidden_size, model.head_dim
    q, kv = model.num_heads * head, model.num_kv_heads * head
    attention = d * q + 2 * d * kv + q * d
    if model.qkv_bias and not matrices_only:
        attention += q + 2 * kv
    return attention, 3 * d * model.intermediate_size, 2 * d + (2 * head if model.qk_norm else 0)


def _require_dense(model: ModelConfig, what: str) -> None:
    if model.mla_latent_dim or model.architecture not in ("llama", "qwen2", "qwen3"):
        raise NotApplicableError(
            f"{what} is a formula for dense Llama-shaped models; {model.name} ({model.architecture}) has experts or latent attention,"
            " and its counts do not follow from it"
        )


def _check_tp(model: ModelConfig, tp: int) -> None:
    if not isinstance(tp, int) or tp < 1:
        raise UserError(f"tp is a whole number of GPUs, at least 1; got {tp!r}")
    if model.num_heads % tp:
        raise NotApplicableError(f"{model.name}: {model.num_heads} query heads do not split evenly over tp={tp}")


def _count(value: Count, name: str) -> int:
    number = quantity(value)
    if not number.is_count:
        raise UserError(f"{name} is a count, got {number}")
    if number.base < 0 or number.base != int(number.base):
        raise UserError(f"{name} is a whole number of at least 0, got {number}")
    return int(number.base)


def _whole(value: Number) -> Number:
    """Half a byte per element (int4) must not turn whole totals into floats."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _bytes(total: Number, parts: int) -> Quantity:
    return Quantity(_whole(total), "B") / parts
