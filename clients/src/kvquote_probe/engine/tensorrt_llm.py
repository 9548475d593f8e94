"""TensorRT-LLM: Triton's metrics, or those of trtllm-serve.

Triton serves `nv_trt_llm_kv_cache_block_metrics` on its metrics port (8002 unless chosen otherwise). trtllm-serve has
`trtllm_kv_cache_max_blocks` on /prometheus/metrics where it is on, and statistics of its iterations as JSON on
/metrics. The latter are drained by reading them, so they are read last, once, and only if this is trtllm-serve. Blocks
are those of the primary pool.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kvquote_probe.engine.figures import MOST_BLOCKS, whole
from kvquote_probe.engine.metrics import Sample, samples
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told, nothing_told, reading, tokens_of_blocks
from kvquote_probe.names import model_name
from kvquote_probe.readings import Reading

NAME = "tensorrt-llm"
TRITON = "nv_trt_llm_kv_cache_block_metrics"
SERVE = ("trtllm_kv_cache_max_blocks", "trtllm_kv_cache_tokens_per_block")
SERVE_PATH = "/prometheus/metrics"
_MOST_BLOCK = 2**20


class Pool(NamedTuple):
    """Blocks of the primary pool and the tokens of one."""

    blocks: int | None
    block_tokens: int | None


def read(site: Site, given: Told) -> list[Reading]:
    """One reading. Raises EngineError."""
    model = _model(site)
    pool = _of_serve(site) or _of_metrics(site)
    if pool is None or pool.blocks is None or pool.block_tokens is None:
        raise nothing_told(
            "TensorRT-LLM",
            "it has served nothing since its statistics were last read (enable_iter_perf_stats has to be on), or this "
            "is not Triton's metrics port, 8002 as a rule; send it a request and read it again",
        )
    values = {
        "kv_capacity_tokens": tokens_of_blocks(*pool, model, given),
        "blocks": pool.blocks,
        "block_tokens": pool.block_tokens,
    }
    return [reading(NAME, site.optional("/version").get("version"), values, {"model": model}, given)]


def _of_serve(site: Site) -> Pool | None:
    found = samples(site.text(SERVE_PATH), SERVE)
    return _pool([one for one in found if one.name == SERVE[0]], [one for one in found if one.name == SERVE[1]])


def _of_metrics(site: Site) -> Pool | None:
    statistics = site.document("/metrics")
    if isinstance(statistics, list):
        return _of_iterations(statistics)
    found = samples(site.text("/metrics"), (TRITON, *SERVE))
    triton = [one for one in found if one.name == TRITON]
    if not triton:
        return _pool([one for one in found if one.name == SERVE[0]], [one for one in found if one.name == SERVE[1]])
    kind = "kv_cache_block_type"
    return _pool(
        [one for one in triton if one.labels.get(kind) == "max"],
        [one for one in triton if one.labels.get(kind) == "tokens_per"],
    )


def _pool(blocks: list[Sample], block_tokens: list[Sample]) -> Pool | None:
    if not blocks and not block_tokens:
        return None
    if len(blocks) > 1:
        raise EngineError(f"It tells the blocks of {len(blocks)} models: ask a server with one.")
    return Pool(
        whole(blocks[0].value, MOST_BLOCKS) if blocks else None,
        whole(block_tokens[0].value, _MOST_BLOCK) if len(block_tokens) == 1 else None,
    )


def _of_iterations(statistics: list[Any]) -> Pool | None:
    for one in reversed(statistics):
        cache = one.get("kvCacheStats") if isinstance(one, dict) else None
        if isinstance(cache, dict) and "maxNumBlocks" in cache:
            return Pool(whole(cache["maxNumBlocks"], MOST_BLOCKS), whole(cache.get("tokensPerBlock"), _MOST_BLOCK))
    return None


def _model(site: Site) -> str | None:
    models = site.optional("/v1/models").get("data")
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    return model_name(first.get("id")).model
