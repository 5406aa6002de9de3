"""What a model is and how an engine is set up: frozen, checked once, resolved once. Imports nothing but the standard library,
so the calculator, the course and the browser can use it without torch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from infer_lab.errors import UserError

_POSITIVE = ("num_layers", "hidden_size", "intermediate_size", "num_heads", "num_kv_heads", "head_dim", "vocab_size", "max_model_len")


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Shape of a decoder-only transformer, in the field's own terms.

    architecture: "llama", "qwen2" (QKV bias), "qwen3" (QK-norm); others exist for calculation only.
    mla_latent_dim: width of the compressed KV entry (latent + decoupled RoPE key) for MLA models, else 0.
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
    mla_latent_dim: int = 0
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

    def with_(self, **changes: object) -> ModelConfig:
        return replace(self, **changes)  # type: ignore[arg-type]
