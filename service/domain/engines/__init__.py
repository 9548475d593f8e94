"""What each engine keeps for itself and how it counts: policy from the catalog, one module for each engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from service.domain.engines import llama_cpp, plain, sglang, tensorrt_llm, vllm
from service.domain.engines.llama_cpp import LlamaCppEngine
from service.domain.engines.plain import PlainEngine
from service.domain.engines.sglang import SglangEngine
from service.domain.engines.tensorrt_llm import TensorrtLlmEngine
from service.domain.engines.vllm import VllmEngine
from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from service.domain.catalog import Entry

ServingEngine: TypeAlias = LlamaCppEngine | SglangEngine | TensorrtLlmEngine | VllmEngine
Engine: TypeAlias = PlainEngine | ServingEngine

_READERS: Mapping[str, Callable[[Entry], Engine]] = {
    "llama.cpp": llama_cpp.from_facts,
    "none": plain.from_facts,
    "sglang": sglang.from_facts,
    "tensorrt-llm": tensorrt_llm.from_facts,
    "vllm": vllm.from_facts,
}


def from_facts(entry: Entry) -> Engine:
    """Read a catalog entry of kind `engine`; raises CatalogFactError for an engine without a module."""
    reader = _READERS.get(entry.id)
    if reader is None:
        raise CatalogFactError.at("/id", f"There is no module for the engine {entry.id}.")
    return reader(entry)
