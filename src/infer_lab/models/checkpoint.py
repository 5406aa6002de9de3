"""A checkpoint: where a model's shape, weights, tokenizer and end tokens come from, whatever the format on disk.

Why one type: the engine asks for these four things and never for a file format. `open_checkpoint` resolves what a user may write:
`smollm2` (fetched once), `dummy:<preset>` (random weights of a public shape), a `.gguf` file, or a Hugging Face folder.
Tensors always come under their Hugging Face names (`model.layers.0.self_attn.q_proj.weight`), shape (out, in).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from infer_lab.config import ModelConfig
from infer_lab.errors import CheckpointError, UnknownModelError
from infer_lab.kernels.pack import QuantizedWeight
from infer_lab.presets import PRESETS, preset
from infer_lab.tokenizer import Tokenizer

DEFAULT_MODEL = "smollm2"
_DEFAULT_NAMES = (DEFAULT_MODEL, "smollm2-135m", "smollm2-135m-instruct")
ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """tensors(device) yields (name, tensor) once through; None means random weights.

    shapes: of the same tensors by name, known without reading them, so that a model is checked before memory is taken for it.
    eos_token_ids: without those that the vocabulary does not have, which can never come (some files write -1 for none).
    stored: like tensors, but with the layers' matrices as the file has them quantized; None where it has no such thing.
    stored_bits: of one weight of those matrices, on average.
    files: what it was read from; none for random weights.
    rope_frequency_factors: what a GGUF file states instead of RoPE-scaling parameters: a divisor for each frequency.
    """

    config: ModelConfig
    tensors: Callable[[torch.device], Iterator[tuple[str, torch.Tensor]]] | None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    stored: Callable[[torch.device], Iterator[tuple[str, torch.Tensor | QuantizedWeight]]] | None = None
    stored_bits: float = 0.0
    tokenizer: Tokenizer | None = None
    eos_token_ids: tuple[int, ...] = ()
    rope_frequency_factors: tuple[float, ...] = field(default=())
    files: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        known = tuple(token for token in self.eos_token_ids if 0 <= token < self.config.vocab_size)
        object.__setattr__(self, "eos_token_ids", known)


def open_checkpoint(model: str) -> Checkpoint:
    """Reads everything but the weights. UnknownModelError or CheckpointError say what is wrong with `model`."""
    from infer_lab.models.gguf_checkpoint import open_gguf
    from infer_lab.models.hf_checkpoint import open_folder
    from infer_lab.models.smollm2_file import smollm2_file

    if model.lower() in _DEFAULT_NAMES:
        return open_gguf(smollm2_file())
    if model.startswith("dummy:"):
        config = preset(model.removeprefix("dummy:"))
        if not config.runnable or config.architecture not in ARCHITECTURES:
            raise UnknownModelError(f"{config.name} is here for calculation only; shapes that run: {', '.join(runnable_presets())}")
        return Checkpoint(config, tensors=None)
    try:
        path = Path(model).expanduser()
        is_folder, is_file = path.is_dir(), path.is_file()
    except (OSError, RuntimeError) as error:  # a name too long, a folder that may not be read, a home that is not there
        raise UnknownModelError(f"{model[:100]!r} is no known model, and cannot be looked up as a path: {error}") from error
    if is_folder:
        return open_folder(path)
    if is_file:
        return open_gguf(path)
    if path.suffix == ".gguf" or path.is_absolute():
        raise CheckpointError(f"{path}: there is no such file or folder")
    raise UnknownModelError(
        f"no model is called {model!r}. Known: {DEFAULT_MODEL} (fetched once), dummy:<preset> with a preset of"
        f" {', '.join(runnable_presets())}, the path of a .gguf file, or the path of a Hugging Face folder"
        " (config.json and *.safetensors). Models are not fetched from a hub: download one first and give its folder"
    )


def runnable_presets() -> list[str]:
    return [name for name, config in PRESETS.items() if config.runnable and config.architecture in ARCHITECTURES]
