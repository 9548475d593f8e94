"""Which engine answers at an address, and its capacity.

/v1/models names its owner on all of them but Triton and old TGI. What is left is told by pages that only one engine
has; /metrics comes last, because trtllm-serve forgets what was read there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvquote_probe.engine import llama_cpp, sglang, tensorrt_llm, tgi, vllm
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told
from kvquote_probe.readings import Reading

Reader = Callable[[Site, Told], list[Reading]]

READERS: Mapping[str, Reader] = {
    vllm.NAME: vllm.read,
    sglang.NAME: sglang.read,
    tensorrt_llm.NAME: tensorrt_llm.read,
    llama_cpp.NAME: llama_cpp.read,
    tgi.NAME: tgi.read,
}
"""The engines whose servers are read, by the service's name of each."""

_OWNERS = {"vllm": vllm.NAME, "sglang": sglang.NAME, "tensorrt_llm": tensorrt_llm.NAME, "llamacpp": llama_cpp.NAME}
_METRICS = {
    "vllm:": vllm.NAME,
    "sglang:": sglang.NAME,
    "nv_trt_llm_": tensorrt_llm.NAME,
    "trtllm_": tensorrt_llm.NAME,
    "tgi_": tgi.NAME,
    "llamacpp:": llama_cpp.NAME,
}


def read_engine(site: Site, given: Told, engine: str | None = None) -> list[Reading]:
    """The capacity of the engine at `site`, found out unless it is named. Raises EngineError."""
    return READERS[engine or detected(site)](site, given)


def detected(site: Site) -> str:
    """The name of the engine that answers. Raises EngineError with the first thing that went wrong, if any did."""
    for look in (_by_owner, _by_page, _by_metrics):
        try:
            found = look(site)
        except EngineError:
            # Kept by the site; another page may still answer.
            continue
        if found is not None:
            return found
    if site.failures:
        raise site.failures[0]
    raise EngineError(
        f"What answers at {site.url} is none of {', '.join(READERS)}: give the address of the engine itself, for "
        "Triton that of its metrics (port 8002), or say --engine."
    )


def _by_owner(site: Site) -> str | None:
    models = site.named("/v1/models").get("data")
    owners = [one.get("owned_by") for one in models if isinstance(one, dict)] if isinstance(models, list) else []
    return next((_OWNERS[owner] for owner in owners if isinstance(owner, str) and owner in _OWNERS), None)


def _by_page(site: Site) -> str | None:
    if sglang.server_info(site):
        return sglang.NAME
    info = site.named("/info")
    if "model_id" in info and "max_concurrent_requests" in info:
        return tgi.NAME
    if "default_generation_settings" in site.named("/props"):
        return llama_cpp.NAME
    return None


def _by_metrics(site: Site) -> str | None:
    statistics = site.document("/metrics")
    if isinstance(statistics, list) and any(isinstance(one, dict) and "kvCacheStats" in one for one in statistics):
        return tensorrt_llm.NAME
    lines = ("\n" + site.text("/metrics")) if not isinstance(statistics, list) else ""
    return next((name for prefix, name in _METRICS.items() if f"\n{prefix}" in lines), None)
