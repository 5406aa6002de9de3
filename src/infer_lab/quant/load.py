"""From a checkpoint to a quantized model: out of the cache if it is there, else tensor by tensor, with a progress bar in a terminal."""

from __future__ import annotations

import sys
from functools import partial

import torch
from rich.console import Console
from rich.progress import Progress

from infer_lab.errors import QuantizationError
from infer_lab.models.checkpoint import Checkpoint
from infer_lab.models.llama import LlamaModel
from infer_lab.quant import cache
from infer_lab.quant.linear import QuantizedLinear
from infer_lab.quant.row_scaled import FP8Linear, INT8Linear
from infer_lab.quant.scheme import AS_STORED, SCHEMES, Scheme
from infer_lab.quant.stored import StoredLinear
from infer_lab.quant.weight_only import WeightOnlyLinear

LINEARS: dict[str, type[QuantizedLinear]] = {
    "w8a16": WeightOnlyLinear, "w4a16": WeightOnlyLinear, "fp8": FP8Linear, "int8": INT8Linear, AS_STORED: StoredLinear
}  # fmt: skip


def require_supported(scheme: Scheme, device: torch.device) -> None:
    """UnsupportedHardwareError for a GPU that has no such arithmetic. A CPU computes every scheme, in float32."""
    if scheme.name == "fp8" and device.type == "cuda":
        require_fp8(device)


def require_fp8(device: torch.device) -> None:
    """UnsupportedHardwareError for a GPU without it."""
    from infer_lab.kernels import _common

    _common.require_fp8(_common.target_of(device))


def require_stored(scheme: Scheme, checkpoint: Checkpoint) -> None:
    """QuantizationError if the scheme wants what the checkpoint does not hold."""
    if scheme.name == AS_STORED and not checkpoint.stored_bits:
        raise QuantizationError(
            f"quantization {AS_STORED} runs a GGUF file as it is, and {checkpoint.config.name} is none: take {', '.join(SCHEMES)}, or None"
        )


def load_quantized(
    checkpoint: Checkpoint, scheme: Scheme, *, dtype: torch.dtype, device: torch.device, seed: int = 0, use_cache: bool = True
) -> LlamaModel:
    """A model with packed weights. dtype: of everything that is not quantized. seed: for random weights, which are never cached.

    QuantizationError for shapes that the scheme cannot pack, UnsupportedHardwareError as above, CheckpointError as `LlamaModel.load`.
    """
    require_supported(scheme, device)
    terminal = sys.stderr is not None and sys.stderr.isatty()
    progress = Progress(console=Console(stderr=True), transient=True, disable=not terminal)
    task = progress.add_task("Packing" if scheme.name == AS_STORED else f"Quantizing to {scheme}")
    linear = partial(LINEARS[scheme.name], scheme=scheme, on_quantized=lambda: progress.advance(task))
    model = LlamaModel(checkpoint.config, dtype=dtype, device=device, rope_factors=checkpoint.rope_frequency_factors, linear=linear)
    path = cache.cache_path(checkpoint, scheme, dtype) if use_cache and checkpoint.files and scheme.name != AS_STORED else None
    if path is not None and cache.read(path, model):
        return model
    progress.update(task, total=sum(len(layer.parts) for layer in model.modules() if isinstance(layer, QuantizedLinear)))
    with progress:
        if checkpoint.tensors is None:
            model.randomize(seed)
        elif scheme.name == AS_STORED and checkpoint.stored is not None:
            model.fill(checkpoint.stored(device))
        else:
            model.load(checkpoint)
    if path is not None:
        cache.write(path, model)
    return model
