"""A small, complete LLM inference library.

    from infer_lab import LLM, AsyncEngine, SamplingParams, EngineConfig

Names are looked up when they are used, so `infer_lab.calculator` and `infer_lab.core` need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infer_lab.engine.async_engine import AsyncEngine
    from infer_lab.engine_config import EngineConfig
    from infer_lab.llm import LLM
    from infer_lab.outputs import RequestOutput
    from infer_lab.sampling_params import SamplingParams

__all__ = ["LLM", "AsyncEngine", "EngineConfig", "RequestOutput", "SamplingParams", "__version__"]
__version__ = "0.1.0"

_HOMES = {
    "LLM": "llm",
    "AsyncEngine": "engine.async_engine",
    "EngineConfig": "engine_config",
    "RequestOutput": "outputs",
    "SamplingParams": "sampling_params",
}
_ENGINE_PACKAGES = {"torch", "numpy", "tokenizers", "safetensors", "jinja2", "prometheus_client"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'infer_lab' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"infer_lab.{home}"), name)
    except ModuleNotFoundError as error:
        if error.name not in _ENGINE_PACKAGES:
            raise
        raise ModuleNotFoundError(
            f"running a model needs {error.name}, which is not installed: pip install 'infer-lab[engine]'"
            " (for a GPU or a CPU-only build of torch, install torch first, as its site says)",
            name=error.name,
        ) from error
