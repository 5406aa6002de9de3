"""The KV cache: bytes a token, bytes a request, and how many requests fit on a card beside the weights.

Three things that hand calculations get wrong, all arguments here: KV heads are not query heads; a request occupies whole blocks; a layer
with a sliding window keeps no more than its window. MLA caches one latent for all heads and is copied, not split, by tensor parallelism.
"""

from __future__ import annotations

from infer_lab.calculator.arguments import Count, check_tp, count, whole
from infer_lab.calculator.weights import decode_weight_bytes, weight_bytes
from infer_lab.config import ModelConfig
from infer_lab.errors import DoesNotFitError, NotApplicableError, UserError
from infer_lab.formulas import Worked, formula
from infer_lab.hardware import Gpu
from infer_lab.units import Number, Quantity, quantity


@formula("{heads} / {kv_heads}")
def attention_heads_per_kv_head(model: ModelConfig) -> Worked:
    """How many query heads share one KV head: 1 is MHA, all of them MQA, between lies GQA."""
    return Worked(Quantity(model.num_heads // model.num_kv_heads), {"heads": model.num_heads, "kv_heads": model.num_kv_heads})


@formula("2 · {layers} · {kv_heads} · {head_dim} · {bytes}")
def kv_bytes_per_token(model: ModelConfig, bytes_per_element: Number = 2, tp: int = 1, scale_bytes: Number = 0) -> Worked:
    """KV-cache bytes of one token, on one GPU of a tensor-parallel group. The 2 is K and V.

    tp splits KV heads over the GPUs; once there are more GPUs than KV heads, heads are copied and a GPU never holds less than one.
    An MLA model caches one latent (with its RoPE key) per layer instead; every GPU needs all of it, so tp does not shrink it.
    scale_bytes: beside each head's vector (each latent), for caches that keep a scale per token and head. An FP8 cache with one scale per
    tensor or layer, vLLM's and FlashAttention's default, has none.
    """
    check_tp(model, tp)
    if model.mla_latent_dim:
        layers, latent = model.num_layers, model.mla_latent_dim
        inputs = {"layers": layers, "latent": latent, "bytes": bytes_per_element, "scale": scale_bytes}
        value = layers * (latent * bytes_per_element + scale_bytes)
        text = "{layers} · ({latent} · {bytes} + {scale})" if scale_bytes else "{layers} · {latent} · {bytes}"
        return Worked(Quantity(whole(value), "B/tok"), inputs, text)
    if model.num_kv_heads % tp and tp % model.num_kv_heads:
        raise NotApplicableError(
            f"{model.name}: {model.num_kv_heads} KV heads are neither split nor copied evenly over tp={tp}; one must divide the other"
        )
    heads = max(1, model.num_kv_heads // tp)
    value = 2 * model.num_layers * heads * (model.head_dim * bytes_per_element + scale_bytes)
    inputs = {"layers": model.num_layers, "kv_heads": heads, "head_dim": model.head_dim, "bytes": bytes_per_element, "scale": scale_bytes}
    return Worked(
        Quantity(whole(value), "B/tok"), inputs, "2 · {layers} · {kv_heads} · ({head_dim} · {bytes} + {scale})" if scale_bytes else ""
    )


@formula("{per_token} · {tokens}")
def kv_bytes(model: ModelConfig, tokens: Count, bytes_per_element: Number = 2, tp: int = 1, scale_bytes: Number = 0) -> Worked:
    """KV-cache bytes of `tokens` cached tokens, whichever requests they belong to, every layer keeping every token."""
    n = count(tokens, "tokens")
    per_token = kv_bytes_per_token(model, bytes_per_element, tp, scale_bytes)
    return Worked(Quantity(whole(per_token.base * n), "B"), {"per_token": per_token, "tokens": n})


@formula("⌈{tokens} / {block_size}⌉")
def pages(tokens: Count, block_size: int = 16) -> Worked:
    """Blocks of a paged cache that hold `tokens` tokens of one request; the last one may be partly empty."""
    n = count(tokens, "tokens")
    if block_size < 1:
        raise UserError(f"block_size must be at least 1, got {block_size}")
    return Worked(Quantity(-(-n // block_size)), {"tokens": n, "block_size": block_size})


@formula("{per_token} · {slots}")
def kv_bytes_per_request(
    model: ModelConfig, tokens: Count, bytes_per_element: Number = 2, tp: int = 1, block_size: int = 1, scale_bytes: Number = 0
) -> Worked:
    """KV-cache bytes that one request of `tokens` tokens occupies: whole blocks, and in windowed layers no more than the window.

    A window may begin inside a block, so a windowed layer holds up to ⌈(window − 1) / block_size⌉ + 1 blocks.
    """
    blocks = int(pages(tokens, block_size))
    per_token = kv_bytes_per_token(model, bytes_per_element, tp, scale_bytes)
    slots = blocks * block_size
    if not model.num_windowed_layers:
        return Worked(Quantity(whole(per_token.base * slots), "B"), {"per_token": per_token, "slots": slots})
    kept = min(blocks, -(-(model.sliding_window - 1) // block_size) + 1) * block_size
    layers, windowed = model.num_layers, model.num_windowed_layers
    value = per_token.base * ((layers - windowed) * slots + windowed * kept) / layers
    inputs = {"per_token": per_token, "layers": layers, "full": layers - windowed, "slots": slots, "windowed": windowed, "kept": kept}
    text = "{per_token} / {layers} · ({full} · {slots} + {windowed} · {kept})"
    return Worked(Quantity(whole(value), "B"), inputs, text)


@formula("{memory}")
def gpu_memory(gpu: Gpu, driver: int = 0) -> Worked:
    """Capacity of the card: the number on the box, or with driver=1 what the driver reports."""
    memory = gpu.driver_memory if driver else gpu.memory
    return Worked(memory, {"memory": memory})


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
    scale_bytes: Number = 0,
) -> Worked:
    """Tokens that the KV budget holds, over all requests together, every layer keeping every token."""
    budget = kv_budget(gpu, model, util, bytes_per_element, tp, overhead, driver)
    per_token = kv_bytes_per_token(model, kv_bytes_per_element, tp, scale_bytes)
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
    scale_bytes: Number = 0,
) -> Worked:
    """Requests of `tokens` cached tokens each that fit at once. block_size rounds each request up to whole blocks (1: no rounding)."""
    slots = int(pages(tokens, block_size)) * block_size
    if slots < 1:
        raise UserError("a request holds at least one token")
    budget = kv_budget(gpu, model, util, bytes_per_element, tp, overhead, driver)
    if model.num_windowed_layers:
        each = kv_bytes_per_request(model, tokens, kv_bytes_per_element, tp, block_size, scale_bytes)
        return Worked(Quantity(int(budget.base // each.base)), {"budget": budget, "per_request": each}, "⌊{budget} / {per_request}⌋")
    per_token = kv_bytes_per_token(model, kv_bytes_per_element, tp, scale_bytes)
    return Worked(Quantity(int(budget.base // (per_token.base * slots))), {"budget": budget, "per_token": per_token, "tokens": slots})


@formula("{weights} / {per_token}")
def crossover_tokens(model: ModelConfig, bytes_per_element: Number = 2, kv_bytes_per_element: Number = 2) -> Worked:
    """Cached tokens, over the whole batch, at which a decode step reads as many KV bytes as weight bytes.

    NotApplicableError for MoE: what a step reads of its weights grows with the batch.
    """
    if model.experts:
        raise NotApplicableError(f"{model.name} reads more of its experts as the batch grows, so there is no one crossover")
    weights, per_token = decode_weight_bytes(model, bytes_per_element), kv_bytes_per_token(model, kv_bytes_per_element)
    return Worked(Quantity(int(weights.base // per_token.base), "tok"), {"weights": weights, "per_token": per_token})
