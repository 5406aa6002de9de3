"""Shapes of public models, by the names that `dummy:<preset>`, the calculator and the course use.

Each row is the released configuration file of that model. Parameter counts that follow from them are tested
against the published sizes. `llama_3_8b` and `llama-3-8b` are the same name.
"""

from __future__ import annotations

from infer_lab.config import ExpertsConfig, LatentConfig, ModelConfig
from infer_lab.errors import UnknownModelError


def _llama(name: str, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, head_dim: int, vocab: int, context: int,
           theta: float = 500_000.0, **more: object) -> ModelConfig:  # fmt: skip
    return ModelConfig(name, "llama", layers, hidden, ffn, heads, kv_heads, head_dim, vocab, context, rope_theta=theta, **more)  # type: ignore[arg-type]


def _qwen3(name: str, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, **more: object) -> ModelConfig:
    return ModelConfig(name, "qwen3", layers, hidden, ffn, heads, kv_heads, 128, 151_936, 40_960, rope_theta=1e6, rms_norm_eps=1e-6,
                       qk_norm=True, **more)  # type: ignore[arg-type]  # fmt: skip


_LLAMA31_ROPE = (("factor", 8.0), ("low_freq_factor", 1.0), ("high_freq_factor", 4.0), ("original_max_position_embeddings", 8192.0))
_LLAMA32_ROPE = (("factor", 32.0), *_LLAMA31_ROPE[1:])

_ALL = (
    _llama("smollm2-135m", 30, 576, 1536, 9, 3, 64, 49_152, 8_192, theta=100_000.0, tie_word_embeddings=True),
    _llama("llama-3.2-1b", 16, 2048, 8192, 32, 8, 64, 128_256, 131_072, tie_word_embeddings=True, rope_scaling=_LLAMA32_ROPE),
    _llama("llama-2-7b", 32, 4096, 11_008, 32, 32, 128, 32_000, 4_096, theta=10_000.0),
    _llama("llama-3-8b", 32, 4096, 14_336, 32, 8, 128, 128_256, 8_192),
    _llama("llama-3-70b", 80, 8192, 28_672, 64, 8, 128, 128_256, 8_192),
    _llama("llama-3.1-405b", 126, 16_384, 53_248, 128, 8, 128, 128_256, 131_072, rope_scaling=_LLAMA31_ROPE),
    _qwen3("qwen3-0.6b", 28, 1024, 3072, 16, 8, tie_word_embeddings=True),
    _qwen3("qwen3-4b", 36, 2560, 9728, 32, 8, tie_word_embeddings=True),
    _qwen3("qwen3-8b", 36, 4096, 12_288, 32, 8),
    _qwen3("qwen3-32b", 64, 5120, 25_600, 64, 8),
    ModelConfig("qwen2.5-7b", "qwen2", 28, 3584, 18_944, 28, 4, 128, 152_064, 32_768, rope_theta=1e6, rms_norm_eps=1e-6, qkv_bias=True),
    ModelConfig("qwen2.5-72b", "qwen2", 80, 8192, 29_568, 64, 8, 128, 152_064, 32_768, rope_theta=1e6, rms_norm_eps=1e-6, qkv_bias=True),
    # From here on for arithmetic: windows, experts, latent attention.
    _llama("mistral-7b-v0.1", 32, 4096, 14_336, 32, 8, 128, 32_000, 32_768, theta=10_000.0, sliding_window=4096, num_windowed_layers=32,
           runnable=False),
    ModelConfig("gemma-3-27b", "gemma3", 62, 5376, 21_504, 32, 16, 128, 262_208, 131_072, rope_theta=1e6, rms_norm_eps=1e-6,
                tie_word_embeddings=True, qk_norm=True, sliding_window=1024, num_windowed_layers=52, sandwich_norms=True, runnable=False),
    _llama("mixtral-8x7b", 32, 4096, 14_336, 32, 8, 128, 32_000, 32_768, theta=1e6, experts=ExpertsConfig(8, 2, 14_336), runnable=False),
    _qwen3("qwen3-30b-a3b", 48, 2048, 6144, 32, 4, experts=ExpertsConfig(128, 8, 768), runnable=False),
    _qwen3("qwen3-235b-a22b", 94, 4096, 12_288, 64, 4, experts=ExpertsConfig(128, 8, 1536), runnable=False),
    ModelConfig("deepseek-v3", "deepseek_v3", 61, 7168, 18_432, 128, 128, 128, 129_280, 163_840, rms_norm_eps=1e-6,
                experts=ExpertsConfig(256, 8, 2048, num_shared_experts=1, num_dense_layers=3, router_bias=True),
                latent=LatentConfig(q_rank=1536, kv_rank=512, nope_dim=128, rope_dim=64, v_dim=128), runnable=False),
)  # fmt: skip

PRESETS: dict[str, ModelConfig] = {m.name: m for m in _ALL}


def preset(name: str) -> ModelConfig:
    """The shape called `name`; UnknownModelError lists the names that exist."""
    key = name.replace("_", "-")
    for candidate, model in PRESETS.items():
        if candidate == key or candidate.replace(".", "-") == key:
            return model
    raise UnknownModelError(f"no model shape is called {name!r}; known: {', '.join(PRESETS)}")
