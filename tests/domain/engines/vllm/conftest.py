"""Questions to vLLM by name, answered by the domain alone with the catalog's own files."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from service.domain.catalog import CatalogKind
from service.domain.engines.vllm import (
    UNKNOWN_DEVICE,
    Asked,
    Device,
    Held,
    Memory,
    Setting,
    VllmEngine,
    from_facts,
    hold,
)
from service.domain.model import Model
from service.domain.parallel import Layout
from service.domain.stored import weights_for
from service.storage.catalog_yaml import read_yaml
from tests.domain.conftest import CATALOG, Shelf, entry

DATA = Path(__file__).parents[3] / "data"
GIB = 1 << 30
PLAIN = {"bf16", "fp16", "fp32"}
Hold = Callable[..., Held]
SettingOf = Callable[..., Setting]


def gib(held: Held, *names: str) -> float:
    """GiB of the named parts of a reserve together."""
    return sum(part.span.middle for part in held.parts if part.name in names) / GIB


def cases(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((DATA / f"vllm_{name}.yaml").read_text())
    return found


def device(name: str) -> Device:
    facts = read_yaml(CATALOG / "gpus" / f"{name}.yaml")
    links, peaks = facts.get("interconnect") or {}, facts["peak_flops_per_second"]
    try:
        capability = float(facts["compute_capability"])
    except (KeyError, TypeError, ValueError):
        capability = None
    return Device(
        id=facts["id"],
        name=facts["name"],
        vendor=facts["vendor"],
        capability=capability,
        link_bytes_per_second=links.get("nvlink_bytes_per_second") or 0.0,
        unified=bool(facts["memory"].get("unified")),
        types=frozenset(name for name, rate in peaks.items() if rate),
    )


def setting(shelf: Shelf, utilization: float, question: dict[str, Any]) -> Setting:
    """A setting from the names of a question, each with its default where it is left out."""
    asked = dict(question)
    model: Model = shelf.model(asked["model"])
    stored = model.checkpoint_format
    weights = asked.get("weight_dtype") or stored
    weights = stored if weights == "fp8" and stored.startswith("fp8") else weights
    kept = asked.get("kv_dtype") or model.cache_format or (weights if weights in PLAIN else model.compute_type)
    gpu = shelf.gpu(asked["gpu"]) if "gpu" in asked else None
    memory = asked.get("memory_bytes") or (gpu.visible_bytes if gpu else None)
    context = asked.get("context_tokens") or model.context_tokens
    weight_format, cache_format = weights_for(shelf.format(weights), model, shelf), shelf.format(kept).cache
    assert memory
    assert context
    assert cache_format
    return Setting(
        model=model,
        weights=weight_format,
        cache=cache_format,
        layout=Layout(
            asked.get("tensor_parallel", 1),
            asked.get("pipeline_parallel", 1),
            asked.get("data_parallel", 1),
            asked.get("expert_parallel", False),
        ),
        device=device(asked["gpu"]) if "gpu" in asked else UNKNOWN_DEVICE,
        memory=Memory(
            memory,
            asked.get("memory_utilization", utilization),
            asked.get("memory_used_by_others_bytes", 0),
            asked.get("reserve_bytes"),
            asked.get("kv_cache_bytes"),
        ),
        context_tokens=context,
        limit_tokens=asked.get("context_limit_tokens", context),
        asked=Asked(**{name: asked[name] for name in Asked._fields if name in asked}),
        weight_bytes=asked.get("weight_bytes"),
        parameters=asked.get("parameters"),
    )


@pytest.fixture(scope="session")
def engine() -> VllmEngine:
    return from_facts(entry(CatalogKind.ENGINE, "vllm"))


@pytest.fixture(scope="session")
def setting_of(shelf: Shelf, engine: VllmEngine) -> SettingOf:
    """A question as a setting, without asking it."""

    def make(**question: Any) -> Setting:  # noqa: ANN401  # as questions are
        release = engine.release(question.get("engine_version"))
        return setting(shelf, release.cores["v1"].utilization, question)

    return make


@pytest.fixture(scope="session")
def quote(setting_of: SettingOf, engine: VllmEngine) -> Hold:
    """What a release of vLLM holds for a question."""
    return lambda **question: hold(setting_of(**question), engine.release(question.get("engine_version")))
