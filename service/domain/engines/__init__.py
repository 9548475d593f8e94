"""What each engine keeps for itself and how it counts: policy from the catalog, one module for each engine."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias, cast

from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from service.domain.catalog import Entry
    from service.domain.engines.llama_cpp import LlamaCppEngine
    from service.domain.engines.plain import PlainEngine
    from service.domain.engines.sglang import SglangEngine
    from service.domain.engines.tensorrt_llm import TensorrtLlmEngine
    from service.domain.engines.vllm import VllmEngine

    ServingEngine: TypeAlias = LlamaCppEngine | SglangEngine | TensorrtLlmEngine | VllmEngine
    Engine: TypeAlias = PlainEngine | ServingEngine

_MODULES: Mapping[str, str] = {
    "llama.cpp": "llama_cpp",
    "none": "plain",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "vllm": "vllm",
}
"""Each engine's module, imported when a question first names the engine: together they take half of Flask's time."""


def from_facts(entry: Entry) -> Engine:
    """Read a catalog entry of kind `engine`; raises CatalogFactError for an engine without a module."""
    module = _MODULES.get(entry.id)
    if module is None:
        raise CatalogFactError.at("/id", f"There is no module for the engine {entry.id}.")
    return cast("Engine", import_module(f"{__name__}.{module}").from_facts(entry))
