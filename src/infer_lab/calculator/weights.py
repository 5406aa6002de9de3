"""Parameters and the bytes that they take: on disk, on one GPU of a group, and in one decode step.

Dense models read all their matrices in every step. A mixture of experts stores all experts but reads only those that some token of the
batch was sent to, so its traffic grows with the batch until every expert is hit. Matrices of each kind are those of the released models
(`infer_lab.presets`); totals are tested against the published sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from infer_lab.calculator.arguments import Count, check_tp, count, split
from infer_lab.config import ModelConfig
from infer_lab.errors import NotApplicableError, UserError
from infer_lab.formulas import Worked, formula
from infer_lab.units import Number, Quantity


@dataclass(frozen=True, slots=True)
class Shape:
    """Parameter counts of a model, by what they belong to.

    attention: of one layer, biases included. ffn: of one dense FFN. expert: of one routed expert, router: of one router (both 0 for
    dense models). shared: of the shared experts of one layer. norms: of one layer. table: the embedding table.
    """

    attention: int
    attention_matrices: int
    ffn: int
    expert: int
    router: int
    router_matrix: int
    shared: int
    norms: int
    table: int
    dense_layers: int
    expert_layers: int

    @classmethod
    def of(cls, model: ModelConfig) -> Shape:
        d, head = model.hidden_size, model.head_dim
        norms = 2 * d * (2 if model.sandwich_norms else 1) + (2 * head if model.qk_norm else 0)
        if model.latent:
            rank = model.latent
            queries = d * rank.q_rank + rank.q_rank * model.num_heads * (rank.nope_dim + rank.rope_dim)
            keys = d * (rank.kv_rank + rank.rope_dim) + rank.kv_rank * model.num_heads * (rank.nope_dim + rank.v_dim)
            matrices = attention = queries + keys + model.num_heads * rank.v_dim * d
            norms += rank.q_rank + rank.kv_rank
        else:
            q, kv = model.num_heads * head, model.num_kv_heads * head
            matrices = 2 * d * q + 2 * d * kv
            attention = matrices + (q + 2 * kv if model.qkv_bias else 0)
        expert = router = router_matrix = shared = expert_layers = 0
        if experts := model.experts:
            expert, expert_layers = 3 * d * experts.intermediate_size, model.num_layers - experts.num_dense_layers
            router_matrix = d * experts.num_experts
            router = router_matrix + (experts.num_experts if experts.router_bias else 0)
            shared = expert * experts.num_shared_experts
        return cls(
            attention, matrices, 3 * d * model.intermediate_size, expert, router, router_matrix, shared, norms, model.vocab_size * d,
            model.num_layers - expert_layers, expert_layers,
        )  # fmt: skip


@formula("{layers} · ({attention} + {ffn} + {norms}) + {embedding} + {final_norm}")
def parameters(model: ModelConfig) -> Worked:
    """All parameters: attention and gated FFN matrices, norms, biases, embedding, LM head; for MoE every expert and the routers.

    Extra heads for multi-token prediction are not counted (DeepSeek-V3 publishes them apart).
    """
    shape = Shape.of(model)
    embedding = shape.table * (1 if model.tie_word_embeddings else 2)
    common = {"layers": model.num_layers, "attention": shape.attention, "norms": shape.norms, "embedding": embedding,
              "final_norm": model.hidden_size}  # fmt: skip
    if not model.experts:
        total = model.num_layers * (shape.attention + shape.ffn + shape.norms) + embedding + model.hidden_size
        return Worked(Quantity(total), {**common, "ffn": shape.ffn})
    n = model.experts.num_experts
    total = (
        model.num_layers * (shape.attention + shape.norms)
        + shape.dense_layers * shape.ffn
        + shape.expert_layers * (n * shape.expert + shape.shared + shape.router)
        + embedding
        + model.hidden_size
    )
    inputs = {**common, "expert_layers": shape.expert_layers, "experts": n, "expert": shape.expert, "router": shape.router}
    text = "{layers} · ({attention} + {norms}) + {expert_layers} · ({experts} · {expert} + {router})"
    if shape.shared:
        inputs["shared"], text = shape.shared, text.replace("{router})", "{shared} + {router})")
    if shape.dense_layers:
        inputs |= {"dense_layers": shape.dense_layers, "ffn": shape.ffn}
        text += " + {dense_layers} · {ffn}"
    return Worked(Quantity(total), inputs, text + " + {embedding} + {final_norm}")


@formula("{parameters}")
def active_parameters(model: ModelConfig) -> Worked:
    """Parameters that one token meets: all but the experts that it is not sent to. What "A3B" in a model's name counts."""
    every = parameters(model)
    if not model.experts:
        return Worked(every, {"parameters": every})
    shape, experts = Shape.of(model), model.experts
    idle = experts.num_experts - experts.num_experts_per_token
    return Worked(
        Quantity(int(every.base) - shape.expert_layers * idle * shape.expert),
        {"parameters": every, "layers": shape.expert_layers, "idle": idle, "expert": shape.expert},
        "{parameters} − {layers} · {idle} · {expert}",
    )


@formula("{parameters} · {bytes} / {tp}")
def weight_bytes(model: ModelConfig, bytes_per_element: Number = 2, tp: int = 1) -> Worked:
    """Bytes of weights on one GPU of a tensor-parallel group. (Norm vectors are copied, not split: under 0.01 %, left out.)"""
    check_tp(model, tp)
    every = parameters(model)
    return Worked(split(every.base * bytes_per_element, tp), {"parameters": every, "bytes": bytes_per_element, "tp": tp})


@formula("⌈{layers} / {pp}⌉ / {layers} · ({dense} / {tp} + {experts} / {split}) · {bytes}")
def weight_bytes_per_gpu(model: ModelConfig, tp: int = 1, pp: int = 1, ep: int = 1, bytes_per_element: Number = 2) -> Worked:
    """Bytes of weights on the fullest GPU: layers over pp stages, matrices over tp GPUs, whole experts over ep GPUs.

    ep = 1 slices every expert over the tp group as any matrix. Embedding and LM head are spread as the layers are, which understates the
    first and last stage of a pipeline by a little.
    """
    check_tp(model, tp)
    if not 1 <= pp <= model.num_layers:
        raise UserError(f"{model.name}: {model.num_layers} layers do not fill {pp} pipeline stages")
    if ep < 1 or (ep > 1 and not model.experts):
        raise NotApplicableError(f"{model.name} has no experts to spread over ep={ep} GPUs")
    if model.experts and model.experts.num_experts % ep:
        raise NotApplicableError(f"{model.name}: {model.experts.num_experts} experts do not spread evenly over ep={ep}")
    shape, every = Shape.of(model), parameters(model)
    routed = shape.expert_layers * model.experts.num_experts * shape.expert if model.experts else 0
    over = ep if ep > 1 else tp
    fullest = -(-model.num_layers // pp)
    dense = int(every.base) - routed
    total = fullest * (dense / tp + routed / over) * bytes_per_element / model.num_layers
    inputs = {"layers": model.num_layers, "pp": pp, "dense": dense, "tp": tp, "experts": routed, "split": over, "bytes": bytes_per_element}
    return Worked(Quantity(int(total) if total.is_integer() else total, "B"), inputs)


@formula("{experts} · (1 − (1 − {chosen} / {experts})^{tokens})")
def distinct_experts(model: ModelConfig, tokens: Count) -> Worked:
    """Experts of one layer that at least one of `tokens` tokens is sent to, on average, if the router spreads them evenly.

    Real routers are skewed, which lowers the figure; expert-parallel serving feels the skew as well.
    """
    if not model.experts:
        raise NotApplicableError(f"{model.name} has no experts")
    n = count(tokens, "tokens")
    every, chosen = model.experts.num_experts, model.experts.num_experts_per_token
    if n == 1:
        return Worked(Quantity(chosen), {"experts": every, "chosen": chosen, "tokens": n})
    return Worked(Quantity(every * (1 - (1 - chosen / every) ** n)), {"experts": every, "chosen": chosen, "tokens": n})


@formula("({parameters} − {embedding_table}) · {bytes} / {tp}")
def decode_weight_bytes(model: ModelConfig, bytes_per_element: Number = 2, tp: int = 1, tokens: Count = 1) -> Worked:
    """Weight bytes that one decode step must read: everything but the embedding table, of which a step reads only its tokens' rows.

    With tied embeddings the table is the LM head, is read whole, and stays in. tokens: how many the step computes; it matters for MoE only,
    where each layer reads the experts that some token is sent to (`distinct_experts`).
    """
    check_tp(model, tp)
    every, shape = parameters(model), Shape.of(model)
    table = 0 if model.tie_word_embeddings else shape.table
    inputs = {"parameters": every, "embedding_table": table, "bytes": bytes_per_element, "tp": tp}
    if not model.experts:
        return Worked(split((every.base - table) * bytes_per_element, tp), inputs)
    hit = distinct_experts(model, tokens)
    idle = model.experts.num_experts - hit
    read = every.base - table - shape.expert_layers * idle.base * shape.expert
    inputs |= {"layers": shape.expert_layers, "idle": idle, "expert": shape.expert}
    return Worked(split(read * bytes_per_element, tp), inputs,
                  "({parameters} − {embedding_table} − {layers} · {idle} · {expert}) · {bytes} / {tp}")  # fmt: skip
