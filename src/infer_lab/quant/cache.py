"""Quantized models on disk: the packed tensors and those that were kept, in one safetensors file in the user's cache.

A file is found by what it was made of (checkpoint, scheme, dtype, version of this format), so a changed checkpoint simply finds none. It
is written beside and renamed, so it is whole or not there; and its tensors' SHA-256 stands in its header, so damage is noticed.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from rich.console import Console
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from infer_lab.models.checkpoint import Checkpoint
from infer_lab.models.llama import LlamaModel
from infer_lab.models.smollm2_file import cache_dir
from infer_lab.quant.scheme import Scheme

VERSION = 1  # of the packed layout and of the rounding; raise it when either changes
_SAMPLE = 2**20


class DamagedCacheError(Exception):
    """The file is not what was written."""


def fingerprint(files: Sequence[Path]) -> str:
    """Of a checkpoint: names, sizes, times of change, and a MiB each from start, middle and end of every file.

    Reading it all would take longer than loading the cache, and a file that is edited in place gets a new time.
    """
    digest = hashlib.sha256()
    for path in files:
        status = path.stat()
        digest.update(f"{path.name}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
        with path.open("rb") as file:
            for start in (0, status.st_size // 2, max(status.st_size - _SAMPLE, 0)):
                file.seek(start)
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()


def cache_path(checkpoint: Checkpoint, scheme: Scheme, dtype: torch.dtype) -> Path:
    kind = str(dtype).removeprefix("torch.")
    made_of = f"{VERSION}\0{scheme!r}\0{kind}\0{fingerprint(checkpoint.files)}"
    key = hashlib.sha256(made_of.encode()).hexdigest()[:16]
    name = re.sub(r"[^A-Za-z0-9.]+", "-", checkpoint.config.name).strip(".-")[:60]
    return cache_dir() / "quantized" / f"{name}-{scheme}-{kind}-{key}.safetensors"


def _tensors(model: LlamaModel) -> dict[str, torch.Tensor]:
    """By name, a tied head left out: it is the embedding."""
    tied = model.head is model.embedding
    return {name: tensor for name, tensor in sorted(model.state_dict().items()) if not (tied and name == "head")}


def _octets(tensor: torch.Tensor) -> memoryview:
    return memoryview(tensor.view(torch.uint8).numpy().data)


def _sha256(tensors: Iterable[tuple[str, torch.Tensor]]) -> str:
    digest = hashlib.sha256()
    for name, tensor in tensors:
        digest.update(name.encode())
        digest.update(_octets(tensor))
    return digest.hexdigest()


def write(path: Path, model: LlamaModel) -> None:
    """A cache that cannot be written is a message, no error: the model is there already."""
    temporary = None
    try:
        tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(model).items()}
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".writing-")
        os.close(handle)
        save_file(tensors, temporary, metadata={"sha256": _sha256(tensors.items())})
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        _say(f"the quantized model could not be kept in {path.parent}, it will be quantized again next time: {error}")


@torch.no_grad()
def read(path: Path, model: LlamaModel) -> bool:
    """Fill the model; False if there is no file, or a damaged one (which is said): the model must be filled otherwise then."""
    if not path.is_file():
        return False
    try:
        _fill(path, model)
    except (DamagedCacheError, SafetensorError, OSError, ValueError) as error:
        _say(f"{path} is damaged ({error}); the model is quantized again")
        return False
    return True


def _fill(path: Path, model: LlamaModel) -> None:
    wanted = _tensors(model)
    digest = hashlib.sha256()
    with safe_open(path, framework="pt", device="cpu") as file:
        if sorted(file.keys()) != list(wanted):
            raise DamagedCacheError("it holds other tensors than the model has")
        for name, ours in wanted.items():
            tensor = file.get_tensor(name)
            if tensor.shape != ours.shape or tensor.dtype != ours.dtype:
                raise DamagedCacheError(f"{name} is {tensor.dtype} {list(tensor.shape)}, the model has {ours.dtype} {list(ours.shape)}")
            digest.update(name.encode())
            digest.update(_octets(tensor))
            ours.copy_(tensor)
        if (file.metadata() or {}).get("sha256") != digest.hexdigest():
            raise DamagedCacheError("its SHA-256 is another one")


def _say(text: str) -> None:
    Console(stderr=True, soft_wrap=True).print(text, style="dim", highlight=False, markup=False)
