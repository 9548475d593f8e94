"""The question that a start-up log implies: what it says of the engine's settings, by the names of a question.

Only settings are taken, never what the engine measured: the quote is to be compared with that.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.engines.plain import ENGINES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.logs import LogReading

_HUB_FOLDER = re.compile(r"models--(?P<owner>[\w.-]{1,100}?)--(?P<name>[\w.-]{1,150})", re.ASCII)
_SHARD = re.compile(r"-\d{5}-of-\d{5}\Z", re.ASCII)
_SAME = (
    *("gpu", "tensor_parallel", "pipeline_parallel", "data_parallel", "memory_utilization", "max_batched_tokens"),
    *("max_sequences_limit", "memory_bytes", "block_tokens"),
)
_CONTEXT = ("context_limit_tokens", "concurrency_context_tokens")
_PRINTED = {
    "vllm": {
        "enforce_eager": "enforce_eager",
        "enable_prefix_caching": "prefix_caching",
        "async_scheduling": "async_scheduling",
        "enable_expert_parallel": "expert_parallel",
        "decode_context_parallel_size": "decode_context_parallel",
        "kv_cache_memory_bytes": "kv_cache_bytes",
        "attention_backend": "attention_backend",
        "max_loras": "max_loras",
        "max_lora_rank": "max_lora_rank",
    },
    "sglang": {
        "attention_backend": "attention_backend",
        "speculative_num_draft_tokens": "speculative_tokens",
    },
    "llama.cpp": {},
    "tensorrt-llm": {},
}
_LESS_THAN_A_SETTING = frozenset({"llama.cpp"})
"""Engines whose sizes are not settings but what was made of them."""

_WIDE = {"float32": "fp32", "float": "fp32"}


class Implied(NamedTuple):
    """Names of a question with their values, and what of the printed settings has no name."""

    asked: dict[str, Any]
    warnings: tuple[str, ...]


def implied(reading: LogReading) -> Implied:
    """What the log asks; its model and GPU by the names that the log prints."""
    asked: dict[str, Any] = {"engine": reading.engine}
    if reading.version and reading.engine != "llama.cpp":
        asked["engine_version"] = reading.version
    said = {name: value.value for name, value in reading.said.items()}
    if "model" in said:
        asked["model"] = model_name(str(said["model"]))
    asked |= {name: said[name] for name in _SAME if name in said}
    asked |= _lengths(said)
    asked |= _formats(reading, said)
    asked |= _printed(reading)
    if reading.engine in _LESS_THAN_A_SETTING:
        asked.pop("max_batched_tokens", None)
    return Implied({name: value for name, value in asked.items() if value is not None}, tuple(_unknown(reading)))


def model_name(printed: str) -> str:
    """The name that a catalog knows, of a hub id or of where its files lie."""
    found = _HUB_FOLDER.search(printed)
    if found:
        return f"{found['owner']}/{found['name']}"
    if printed.count("/") <= 1 and not printed.startswith(("/", ".", "~")) and not printed.endswith(".gguf"):
        return printed
    name = printed.rstrip("/").rpartition("/")[2]
    return _SHARD.sub("", name.removesuffix(".gguf"))


def _lengths(said: Mapping[str, Any]) -> dict[str, Any]:
    length = next((said[name] for name in _CONTEXT if isinstance(said.get(name), int)), None)
    return {} if length is None else {"context_tokens": length, "context_limit_tokens": length}


def _formats(reading: LogReading, said: Mapping[str, Any]) -> dict[str, Any]:
    """Number formats that the engine was told; the checkpoint's own are its entry's to say."""
    found: dict[str, Any] = {}
    if said.get("compute_dtype") in _WIDE:
        found["weight_dtype"] = _WIDE[said["compute_dtype"]]
    if said.get("weight_dtype") == "fp8" and "quantization" in reading.settings:
        found["weight_dtype"] = "fp8"
    cache = said.get("kv_dtype")
    if isinstance(cache, str) and cache not in {"auto", "None"}:
        found["kv_dtype"] = cache
    return found


def _printed(reading: LogReading) -> dict[str, Any]:
    found = {
        ours: reading.settings[theirs]
        for theirs, ours in _PRINTED.get(reading.engine or "", {}).items()
        if reading.settings.get(theirs) is not None
    }
    if reading.engine == "sglang" and reading.settings.get("enable_dp_attention") is True:
        found["attention_data_parallel"] = reading.settings.get("dp_size")
        found["data_parallel"] = None
    return found


def _unknown(reading: LogReading) -> list[str]:
    shown = [name for name in ("speculative_config", "kv_transfer_config") if name in reading.nested_settings]
    return [f"{name} is set and was not taken into the question." for name in shown]


QUOTED_ENGINES = frozenset(_PRINTED) & frozenset(ENGINES)
"""Engines whose settings are understood."""
