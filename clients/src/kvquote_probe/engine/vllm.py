"""vLLM: the labels of `vllm:cache_config_info` on /metrics.

Builds of 2026 say `kv_cache_size_tokens`. Older ones say blocks and the tokens of a block, whose product is the
capacity where all layers cache alike; up to 0.7, whose cache manager knew but one kind, always. `num_gpu_blocks` is the
whole replica's and the same on all its ranks; each data-parallel replica has a metric of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from kvquote_probe.engine.figures import MOST_BLOCKS, MOST_BYTES, flag, number, number_format, share, told, whole
from kvquote_probe.engine.metrics import samples
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told, nothing_told, reading, tokens_of_blocks
from kvquote_probe.names import model_name
from kvquote_probe.readings import Reading

NAME = "vllm"
_INFO = ("vllm:cache_config_info", "vllm:cache_config")
_MOST_BLOCK = 2**20


def read(site: Site, given: Told) -> list[Reading]:
    """A reading for each replica that has another capacity. Raises EngineError."""
    replicas = _replicas(site)
    if not replicas:
        raise nothing_told("vLLM", "start it without --disable-log-stats, so that /metrics has vllm:cache_config_info")
    model = _model(site)
    version = site.optional("/version").get("version")
    found = [_reading(labels, model, version, len(replicas), given) for labels in replicas]
    return [one for place, one in enumerate(found) if one.values not in [other.values for other in found[:place]]]


def _replicas(site: Site) -> list[Mapping[str, str]]:
    """The labels of each replica, by its number; a page that says two things of one is refused."""
    found: dict[str | None, Mapping[str, str]] = {}
    for sample in samples(site.text("/metrics"), _INFO):
        engine = sample.labels.get("engine")
        if found.setdefault(engine, sample.labels) != sample.labels:
            raise EngineError(f"Its /metrics says two things of engine {engine or 'without a number'}: ask it again.")
    return list(found.values())


def _reading(
    labels: Mapping[str, str], model: Mapping[str, Any], version: object, replicas: int, given: Told
) -> Reading:
    override = whole(labels.get("num_gpu_blocks_override"), MOST_BLOCKS)
    if override is not None:
        raise EngineError(f"Its {override:,} blocks were set by hand (num_gpu_blocks_override), so they say nothing.")
    setup = {
        **model,
        "kv_dtype": number_format(labels.get("cache_dtype")),
        "memory_utilization": share(labels.get("gpu_memory_utilization")),
        "kv_cache_bytes": whole(labels.get("kv_cache_memory_bytes"), MOST_BYTES),
        "prefix_caching": flag(labels.get("enable_prefix_caching")),
        "data_parallel": replicas if replicas > 1 else None,
    }
    name = model.get("model")
    values = _values(labels, lambda blocks, tokens: tokens_of_blocks(blocks, tokens, name, as_of(version, given)))
    return reading(NAME, version, values, setup, given)


def _values(labels: Mapping[str, str], tokens_of: Callable[[int | None, int | None], int | None]) -> dict[str, Any]:
    blocks = whole(labels.get("num_gpu_blocks"), MOST_BLOCKS)
    block_tokens = whole(labels.get("block_size"), _MOST_BLOCK)
    tokens = whole(labels.get("kv_cache_size_tokens")) or tokens_of(blocks, block_tokens)
    if tokens is None:
        raise nothing_told("vLLM", "its vllm:cache_config_info has no blocks; does it serve a model without a cache?")
    return {
        "kv_capacity_tokens": tokens,
        "blocks": blocks,
        "block_tokens": whole(labels.get("effective_attention_block_size"), _MOST_BLOCK) or block_tokens,
        "max_concurrency": number(labels.get("kv_cache_max_concurrency")),
    }


def as_of(version: object, given: Told) -> Told:
    """What is told, by a release of vLLM: before 0.8 there was one kind of block for all layers."""
    found = re.match(r"v?0\.([0-7])(?:\.|$)", version) if isinstance(version, str) else None
    return Told(uniform=True) if found and given.uniform is None else given


def _model(site: Site) -> dict[str, Any]:
    models = site.optional("/v1/models").get("data")
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    # `root` is what was loaded, `id` the name that it is served under, which may be anybody's.
    name = model_name(first.get("root") or first.get("id"))
    return told(
        {
            "model": name.model,
            "weight_dtype": name.weight_dtype,
            "context_limit_tokens": whole(first.get("max_model_len")),
        }
    )
