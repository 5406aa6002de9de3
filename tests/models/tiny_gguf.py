"""Small GGUF files for tests, written by the `gguf` package: a whole llama with a four-token vocabulary, or any part of one left out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

HIDDEN, FFN, HEADS, KV_HEADS, VOCAB, LAYERS = 64, 96, 4, 2, 96, 2
Q = gguf.GGMLQuantizationType


def _quantize(weight: np.ndarray, kind: Q) -> np.ndarray:
    return weight.astype(np.float32) if kind is Q.F32 else gguf.quantize(weight, kind)


def write_tiny_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    kind: Q = Q.F32,
    leave_out: str = "",
    extra_tensor: str = "",
    wrong_shape: str = "",
    tokenizer_model: str | None = None,
    kinds: Mapping[str, Q] | None = None,
    hidden: int = HIDDEN,
    ffn: int = FFN,
    seed: int = 0,
) -> Path:
    """kinds: of single matrices, by the middle of their names."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(LAYERS)
    writer.add_context_length(128)
    writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(ffn)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    if tokenizer_model:
        writer.add_tokenizer_model(tokenizer_model)
    kv = hidden // HEADS * KV_HEADS
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (VOCAB, hidden), "output_norm.weight": (hidden,)}
    for i in range(LAYERS):
        shapes |= {
            f"blk.{i}.attn_norm.weight": (hidden,),
            f"blk.{i}.attn_q.weight": (hidden, hidden),
            f"blk.{i}.attn_k.weight": (kv, hidden),
            f"blk.{i}.attn_v.weight": (kv, hidden),
            f"blk.{i}.attn_output.weight": (hidden, hidden),
            f"blk.{i}.ffn_norm.weight": (hidden,),
            f"blk.{i}.ffn_gate.weight": (ffn, hidden),
            f"blk.{i}.ffn_up.weight": (ffn, hidden),
            f"blk.{i}.ffn_down.weight": (hidden, ffn),
        }
    if extra_tensor:
        shapes[extra_tensor] = (hidden, hidden)
    for name, shape in shapes.items():
        if name == leave_out:
            continue
        if name == wrong_shape:
            shape = (shape[0] + 32, *shape[1:])
        if len(shape) == 1:
            writer.add_tensor(name, np.ones(shape, dtype=np.float32))
        else:
            weight = rng.normal(0, 0.3, shape).astype(np.float32)
            own = (kinds or {}).get(name.split(".")[-2], kind)
            writer.add_tensor(name, _quantize(weight, own), raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
