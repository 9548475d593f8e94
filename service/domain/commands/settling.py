"""What several flags of an engine say together, once all of them are read."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from service.domain.commands.adapting import settle_adapters
from service.domain.commands.connectors import settle_connectors
from service.domain.commands.drafters import settle_drafter
from service.domain.commands.graphs import settle_graphs
from service.domain.commands.media import settle_media
from service.domain.commands.placing import settle_devices

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.commands.programs import Started
    from service.domain.engines import ServingEngine
    from service.domain.engines.llama_cpp import LlamaCppEngine
    from service.domain.engines.vllm import VllmEngine


def settle(
    found: Understood, engine: ServingEngine, version: str | None, beside: Mapping[str, Any] = MappingProxyType({})
) -> None:
    """Settle the engine's own names, all but those that need the model; `beside` are names that are given too."""
    found.beside = beside
    _SETTLERS[engine.name](found, engine, version)
    _prompts(found, beside)
    given = {*found.settings, *beside}
    for name, spelling, detail in found.unless:
        if name in given:
            found.ignore(spelling)
        else:
            found.refuse(detail)


def check_devices(found: Understood, start: Started, asked: Mapping[str, Any]) -> None:
    """Refuse ranks for which the command shows too few devices; several nodes have devices that it does not show."""
    nodes, local = found.take("_nodes", 1), found.take("_local_data")
    executor = found.take("_executor", "")
    for name in ("_nodes", "_local_data", "_executor"):
        if name in found.said_by:
            found.ignore(found.said_by.pop(name))
    listed = found.take("_devices")
    visible, visible_by = start.visible_gpus, start.visible_by
    if listed is not None:
        found.ignore(found.said_by["_devices"])
        visible, visible_by = len(str(listed).split(",")), found.said_by.pop("_devices")
    if visible is None or nodes > 1 or executor == "ray":
        return
    known = {**asked, **found.settings}
    data = local or known.get("data_parallel", 1)
    ranks = known.get("tensor_parallel", 1) * known.get("pipeline_parallel", 1) * data
    if visible < max(1, ranks):
        found.fail(f"{visible_by} shows {visible} GPUs of the {ranks} that tensor x pipeline x data parallel need.")


def _sglang(found: Understood, engine: ServingEngine, version: str | None) -> None:  # noqa: ARG001  # as every settler
    if found.take("_dp_attention"):
        spelling = found.said_by.pop("_dp_attention")
        ranks = found.take("data_parallel")
        if ranks is None:
            found.fail(f"{spelling} needs --dp-size, the ranks that attention is data parallel over.")
        else:
            found.put("attention_data_parallel", ranks, found.said_by.pop("data_parallel"))
            found.ignore(spelling)
    _experts(found)


def _prompts(found: Understood, beside: Mapping[str, Any]) -> None:
    """Prompts in chunks of so many tokens; of less than 1, in one pass however long they are.

    The share of memory follows from the chunk where nobody gives it, and without one from a flag that has no name.
    """
    chunk, spelling = found.take_said("_chunk")
    if chunk is None:
        return
    limit = None if "max_batched_tokens" in beside else found.known("context_limit_tokens")
    if chunk > 0 or (limit and "memory_utilization" in {*found.settings, *beside}):
        found.put("max_batched_tokens", chunk if chunk > 0 else limit, spelling)
    elif "memory_utilization" in {*found.settings, *beside}:
        found.ignore(spelling)
        found.notes.append(f"{spelling} {chunk}: prompts are read in one pass; a prefill is timed in chunks")
    else:
        found.refuse(
            f"{spelling} {chunk} leaves the share of memory to --max-prefill-tokens, which is not modelled: give"
            " --mem-fraction-static too."
        )


def _tensorrt_llm(found: Understood, engine: ServingEngine, version: str | None) -> None:  # noqa: ARG001
    if found.take("_dp_attention"):
        ranks = found.known("tensor_parallel", 1)
        found.put("attention_data_parallel", ranks, found.said_by.pop("_dp_attention"))
    _experts(found)


def _experts(found: Understood) -> None:
    """Expert parallelism as a number of ranks: one, or all that slice a layer."""
    ranks, spelling = found.take_said("_experts")
    if ranks is None:
        return
    tensor = found.known("tensor_parallel", 1)
    if ranks == 1:
        found.ignore(spelling)
    elif ranks == tensor:
        found.put("expert_parallel", value=True, spelling=spelling)
    else:
        found.refuse(f"{spelling} {ranks} beside tensor parallel {tensor} is not modelled: only 1 or all ranks are.")


def _vllm(found: Understood, engine: VllmEngine, version: str | None) -> None:
    settle_adapters(found, engine)
    settle_media(found, engine, version)
    _chunks(found, engine, version)
    _fitted(found, engine, version)
    settle_connectors(found, engine, version)
    settle_graphs(found, engine, version)
    settle_drafter(found, engine, version)


def _fitted(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """A length that the engine chooses by what memory holds, where the release knows how to."""
    since, spelling = found.take_said("_fitted")
    if since is None:
        return
    release = engine.release(version)
    if release.release < engine.timeline.find(since):
        found.fail(f"vLLM {release.name} needs a number for {spelling}; {since} was the first to choose one itself.")
    found.fitted = spelling


def _chunks(found: Understood, engine: VllmEngine, version: str | None) -> None:
    """Prompts in chunks: the newer core always has them, the older one is quoted with whole prompts."""
    chunked, spelling = found.take_said("_chunked")
    if chunked is None:
        return
    core = engine.release(version).engine.core
    if chunked == (core == "v1"):
        found.ignore(spelling)
    else:
        how = "chunks" if chunked else "one pass"
        found.refuse(f"{spelling} is not modelled: prompts in {how} change the batch of a release with core {core}.")


def _llama_cpp(found: Understood, engine: LlamaCppEngine, version: str | None) -> None:
    rules = engine.release(version)
    keys, values = found.take("_keys"), found.take("_values")
    if keys or values:
        default = rules.constants.cache_default
        spelling = found.said_by.pop("_keys", "") or found.said_by.pop("_values", "")
        found.said_by.pop("_values", None)
        keys, values = keys or default, values or default
        found.put("kv_dtype", keys if keys == values else f"{keys}/{values}", spelling)
    _least_batch(found, rules.compute.ubatch_tokens)
    settle_devices(found)
    slots = found.known("parallel_slots", 1)
    cells = found.settings.get("context_limit_tokens")
    if cells and slots > 1:
        own = max(1, cells // slots)
        found.settings["context_limit_tokens"] = own
        found.notes.append(f"{cells:,} tokens of the command are shared by {slots} slots, {own:,} each")


def _least_batch(found: Understood, default: int) -> None:
    """A pass has no more tokens than a batch."""
    batch, spelling = found.take_said("_batch")
    if batch is None:
        return
    if batch < 1:
        found.fail(f"{spelling} must be at least 1, not {batch}.")
    elif batch < found.known("max_batched_tokens", default):
        found.said_by.pop("max_batched_tokens", None)
        found.settings["max_batched_tokens"], found.said_by["max_batched_tokens"] = batch, spelling
    else:
        found.ignore(spelling)


_SETTLERS: Mapping[str, Callable[[Understood, Any, str | None], None]] = {
    "vllm": _vllm,
    "sglang": _sglang,
    "tensorrt-llm": _tensorrt_llm,
    "llama.cpp": _llama_cpp,
}
