"""SGLang: /get_server_info, which later releases call /server_info.

It mixes the arguments of the server, keys and paths among them, with what the scheduler found: only what is named here
is looked at. `internal_states` has one entry for each data-parallel rank, each with a pool of its own; all
tensor-parallel ranks describe the same one. Sizes are GiB as printed, of one GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvquote_probe.engine.figures import MOST_GPUS, gibibytes, number_format, share, whole
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told, nothing_told, reading
from kvquote_probe.names import model_name, plain_text
from kvquote_probe.readings import Reading

NAME = "sglang"
PATHS = ("/get_server_info", "/server_info")


def server_info(site: Site) -> dict[str, Any]:
    """What the server says of itself, {} where it has no such page. Raises EngineError."""
    for path in PATHS:
        found = site.named(path)
        if "max_total_num_tokens" in found or "internal_states" in found:
            return found
    return {}


def read(site: Site, given: Told) -> list[Reading]:
    """A reading for each rank that has another capacity. Raises EngineError."""
    info = server_info(site)
    if not info:
        raise nothing_told("SGLang", "it has no /get_server_info")
    pools = _pools(info)
    setup, version = _setup(info), info.get("version")
    found = [reading(NAME, version, values, setup, given) for values in pools]
    return [one for place, one in enumerate(found) if one.values not in [other.values for other in found[:place]]]


def _pools(info: Mapping[str, Any]) -> list[dict[str, Any]]:
    total, cap = whole(info.get("max_total_num_tokens")), whole(info.get("max_total_tokens"))
    page = whole(info.get("page_size"), 2**20)
    usages = [usage for state in _listed(info.get("internal_states")) if (usage := _object(state.get("memory_usage")))]
    pools = [_pool(whole(usage.get("token_capacity")), page, usage) for usage in usages]
    told = [pool["kv_capacity_tokens"] for pool in pools if pool["kv_capacity_tokens"] is not None]
    if total is not None and told and total not in told:
        raise EngineError(f"It tells two capacities, {total:,} and {told[0]:,} tokens, and not which one holds.")
    if not told:
        pools = [_pool(total, page, usages[0] if usages else {})]
    if all(pool["kv_capacity_tokens"] is None for pool in pools):
        raise nothing_told("SGLang", "its server info has no max_total_num_tokens; is the model loaded yet?")
    if cap is not None and any(_is_capped(pool["kv_capacity_tokens"], cap, page or 1) for pool in pools):
        raise EngineError(f"Its {cap:,} tokens were set by hand (--max-total-tokens), so they say nothing.")
    return pools


def _is_capped(tokens: int | None, cap: int, page: int) -> bool:
    """Whether a pool holds what somebody asked for, in whole pages."""
    return tokens is not None and 0 <= cap - tokens < page


def _pool(tokens: int | None, page: int | None, usage: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "kv_capacity_tokens": tokens,
        "kv_cache_bytes": gibibytes(usage.get("kvcache")),
        "weight_bytes": gibibytes(usage.get("weight")),
        "graph_bytes": gibibytes(usage.get("graph", usage.get("cuda_graph"))),
        "block_tokens": page,
    }


def _setup(info: Mapping[str, Any]) -> dict[str, Any]:
    name = model_name(info.get("model_path"))
    replicas = whole(info.get("dp_size"), MOST_GPUS)
    attention = info.get("enable_dp_attention") is True
    speculative = plain_text(info.get("speculative_algorithm"))
    return {
        "model": name.model,
        "weight_dtype": name.weight_dtype or number_format(info.get("quantization")),
        "kv_dtype": number_format(info.get("kv_cache_dtype")),
        "context_limit_tokens": whole(info.get("context_length")),
        "tensor_parallel": whole(info.get("tp_size"), MOST_GPUS),
        "pipeline_parallel": whole(info.get("pp_size"), MOST_GPUS),
        "attention_data_parallel" if attention else "data_parallel": replicas,
        "memory_utilization": share(info.get("mem_fraction_static")),
        "attention_backend": plain_text(info.get("attention_backend")),
        "speculative_method": speculative.lower() if speculative else None,
        "draft_model": model_name(info.get("speculative_draft_model_path")).model,
    }


def _listed(given: object) -> list[Mapping[str, Any]]:
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _object(given: object) -> Mapping[str, Any]:
    return given if isinstance(given, dict) else {}
