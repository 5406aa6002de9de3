"""Shapes of public models, by the names that `dummy:<preset>`, the calculator and the course use.

Each row is the released configuration file of that model. Parameter counts that follow from them are tested
against the published sizes. `llama_3_8b` and `llama-3-8b` are the same name.
"""

from __future__ import annotations

from infer_lab.config import ModelConfig
from infer_lab.errors import UnknownModelError


def _llama(name: str, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, head_dim: int, vocab: int, context: int,
           theta: float = 500_000.0, **more: object) -> ModelConfig:  # fmt: skip
    return ModelConfig(name, "llama", layers, hidden, ffn, heads, kv_heads, head_dim, vocab, context, rope_theta=theta, **more)  # type: ignore[arg-type]


_LLAMA31_ROPE = (("factor", 8.0), ("low_freq_factor", 1.0), ("high_freq_factor", 4.0), ("original_max_position_embeddings", 8192.0))
_LLAMA32_ROPE = (("factor", 32.0), *_LLAMA31_ROPE[1:])

_ALL = (
    _llama("smollm2-135m", 30, 576, 1536, 9, 3, 64, 49_152, 8_192, theta=100_000.0, tie_word_embeddings=True),
    _llama("llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128_256, 131_072, tie_word_embeddings=True, rope_scaling=_LLAMA32_ROPE),
    _llama("llama-2-7b", 32, 4096, 11_008, 32, 32, 128, 32_000, 4_096, theta=10_000.0),
    _llama("llama-3-8b", 32, 4096, 14_336, 32, 8, 128, 128_256, 8_192),
    _llama("llama-3-70b", 80, 8192, 28_672, 64, 8, 128, 128_256, 8_192),
    _llama("llama-3.1-405b", 126, 16_384, 53_248, 128, 8, 128, 128_256, 131_072, rope_scaling=_LLAMA31_ROPE),
    ModelConfig("qwen3-0.6b", "qwen3", 28, 1024, 3072, 16, 8, 128, 151_936, 40_960, rope_theta=1e6, rms_norm_eps=1e-6,
                tie_word_embeddings=True, qk_norm=True),
    ModelConfig("qwen3-4b", "qwen3", 36, 2560, 9728, 32, 8, 128, 151_936, 40_960, rope_theta=1e6, rms_norm_eps=1e-6,
                tie_word_embeddings=True, qk_norm=True),
    ModelConfig("qwen2.5-7b", "qwen2", 28, 3584, 18_944, 28, 4, 128, 152_064, 32_768, rope_theta=1e6, rms_norm_eps=1e-6, qkv_bias=True),
    ModelConfig("qwen2.5-72b", "qwen2", 80, 8192, 29_568, 64, 8, 128, 152_064, 32_768, rope_theta=1e6, rms_norm_eps=1e-6, qkv_bias=True),
    # MLA and MoE: for the calculator; the cache holds one 512-wide latent and a 64-wide RoPE key per token and layer.
    ModelConfig("deepseek-v3", "deepseek_v3", 61, 7168, 18_432, 128, 128, 128, 129_280, 163_840, rms_norm_eps=1e-6,
                mla_latent_dim=576, runnable=False),
)  # fmt: skip

PRESETS: dict[str, ModelConfig] = {m.name: m for m in _ALL}


def preset(name: str) -> ModelConfig:
    """The shape called `name`; UnknownModelError lists the names that exist."""
    key = name.replace("_", "-")
    for candidate, model in PRESETS.items():
        if candidate == key or candidate.replace(".", "-") == key:
            return model
    raise UnknownModelError(f"no model shape is called {name!r}; known: {', '.join(PRESETS)}")
