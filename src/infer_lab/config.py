"""What a model is and how an engine is set up: frozen, checked once, resolved once. Imports nothing but the standard library,
so the calculator, the course and the browser can use it without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from infer_lab.errors import UserError

_POSITIVE = ("num_layers", "hidden_size", "intermediate_size", "num_heads", "num_kv_heads", "head_dim", "vocab_size", "max_model_len")


@dataclass(frozen=True, slots=True)
class ExpertsConfig:
    """The FFN as a mixture of experts. Every layer after the first `num_dense_layers` has a router and `num_experts` gated FFNs of width
    `intermediate_size`; a token goes through `num_experts_per_token` of them and through all `num_shared_experts`.

    router_bias: a correction per expert that takes part in the choice only (DeepSeek-V3).
    """

    num_experts: int
    num_experts_per_token: int
    intermediate_size: int
    num_shared_experts: int = 0
    num_dense_layers: int = 0
    router_bias: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.num_experts_per_token <= self.num_experts or self.intermediate_size < 1:
            raise UserError(
                f"a token goes through at least 1 and at most all of {self.num_experts} experts, each at least 1 wide; got"
                f" {self.num_experts_per_token} of width {self.intermediate_size}"
            )


@dataclass(frozen=True, slots=True)
class LatentConfig:
    """Multi-head latent attention (DeepSeek-V2): keys and values are made from one latent of `kv_rank` a token, beside one RoPE key of
    `rope_dim` that all heads share; both together are what the cache holds. Queries come through a bottleneck of `q_rank`.
    """

    q_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    v_dim: int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a decoder-only transformer, in the field's own terms.

    architecture: "llama", "qwen2" (QKV bias), "qwen3" (QK-norm); others exist for calculation only.
    experts, latent: what replaces the FFN and attention in MoE and MLA models.
    sliding_window: tokens that `num_windowed_layers` of the layers look back on; the other layers see everything. 0: all see everything.
    sandwich_norms: a norm after attention and FFN as well as before (Gemma).
    runnable: False for presets that are here for arithmetic alone.
    """

    name: str
    architecture: str
    num_layers: int
    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    max_model_len: int
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-5
    tie_word_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    rope_scaling: tuple[tuple[str, float], ...] = ()
    experts: ExpertsConfig | None = None
    latent: LatentConfig | None = None
    sliding_window: int = 0
    num_windowed_layers: int = 0
    sandwich_norms: bool = False
    runnable: bool = True

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            if getattr(self, name) <= 0:
                raise UserError(f"{self.name}: {name} must be positive, got {getattr(self, name)}")
        if self.num_heads % self.num_kv_heads:
            raise UserError(
                f"{self.name}: {self.num_heads} query heads cannot share {self.num_kv_heads} KV heads evenly;"
                " num_heads must be a multiple of num_kv_heads"
            )

        if bool(self.sliding_window) != bool(self.num_windowed_layers) or not 0 <= self.num_windowed_layers <= self.num_layers:
            raise UserError(
                f"{self.name}: a sliding window needs both its width and the number of layers that have it, at most {self.num_layers};"
                f" got {self.sliding_window} and {self.num_windowed_layers}"
            )

    @property
    def mla_latent_dim(self) -> int:
        """Width of the compressed KV entry (latent + decoupled RoPE key) for MLA models, else 0."""
        return self.latent.kv_rank + self.latent.rope_dim if self.latent else 0

    def with_(self, **changes: object) -> ModelConfig:
        return replace(self, **changes)  # type: ignore[arg-type]
