"""Policies of engines, devices, models and formats, as the catalog has them: what is missing is the catalog's fault."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from service.domain import engines, gpu, holding, model, precision
from service.domain.catalog import CatalogKind, Entry
from service.domain.engines.plain import PlainEngine
from service.domain.errors import CatalogFactError, UnknownArchitecture
from service.domain.question import resolve
from tests.domain.conftest import Shelf, entry

ENGINES = ("llama.cpp", "none", "sglang", "tensorrt-llm", "vllm")
Reader = Callable[[Entry], object]


def without(kind: CatalogKind, name: str, *path: str) -> Entry:
    """The entry, but for the member at that path."""
    facts: dict[str, Any] = deepcopy(dict(entry(kind, name).facts))
    inner = facts
    for part in path[:-1]:
        inner = inner[part]
    del inner[path[-1]]
    return Entry(kind, name, facts, 1)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("missing", ["takes", "step"])
def test_an_engine_with_something_missing_says_which_and_what(name: str, missing: str) -> None:
    with pytest.raises(CatalogFactError, match=f"The engine {name} cannot be read: '{missing}'"):
        engines.from_facts(without(CatalogKind.ENGINE, name, missing))


def test_an_engine_that_this_release_has_no_rules_of_is_no_engine() -> None:
    facts = entry(CatalogKind.ENGINE, "vllm").facts
    with pytest.raises(CatalogFactError, match="There is no module for the engine tgi"):
        engines.from_facts(Entry(CatalogKind.ENGINE, "tgi", facts, 1))


@pytest.mark.parametrize(
    "reader, kind, name, path, words",
    [
        (gpu.from_facts, CatalogKind.GPU, "rtx-4090", ("memory",), "The device rtx-4090 cannot be read: 'memory'"),
        (
            *(gpu.from_facts, CatalogKind.GPU, "rtx-4090", ("memory", "advertised_bytes")),
            "The device rtx-4090 cannot be read: 'advertised_bytes'",
        ),
        (
            *(model.from_facts, CatalogKind.MODEL, "llama-2-7b", ("checkpoint", "dtype")),
            "The model llama-2-7b cannot be read: 'dtype'",
        ),
        (
            *(precision.from_facts, CatalogKind.DTYPE, "fp8", ("weight", "element_bits")),
            "The number format fp8 cannot be read: 'element_bits'",
        ),
    ],
)
def test_an_entry_with_something_missing_says_which_and_what(
    reader: Reader, kind: CatalogKind, name: str, path: tuple[str, ...], words: str
) -> None:
    with pytest.raises(CatalogFactError, match=words):
        reader(without(kind, name, *path))


def test_a_model_may_wait_for_what_is_not_published_yet() -> None:
    facts = {**entry(CatalogKind.MODEL, "llama-2-7b").facts, "waits_for": "a config of its own"}

    with pytest.raises(UnknownArchitecture, match="waits for a config of its own"):
        model.from_facts(Entry(CatalogKind.MODEL, "llama-2-7b", facts, 1))


@pytest.mark.parametrize(
    "name, module, limit, releases",
    [
        ("llama.cpp", "llama_cpp", "_KEPT", [f"b{number}" for number in range(7000, 7006)]),
        ("sglang", "sglang", "_KEPT_RELEASES", ["0.5.9", "0.5.10", "0.5.11", "0.5.13", "0.5.15", "0.5.16"]),
        ("tensorrt-llm", "tensorrt_llm", "_KEPT_RELEASES", ["1.0.0", "1.1.0", "1.0.0rc1", "1.0.0rc2", "1.0.0rc3"]),
        ("vllm", "vllm", "_KEPT_RELEASES", ["0.19.0", "0.20.0", "0.26.0", "0.27.0", "0.28.0"]),
    ],
)
def test_rules_of_a_few_releases_are_kept_and_of_all_the_same(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, limit: str, releases: list[str]
) -> None:
    policy = import_module(f"service.domain.engines.{module}.policy")
    monkeypatch.setattr(policy, limit, 2)
    fresh, usual = (engines.from_facts(entry(CatalogKind.ENGINE, name)) for _ in range(2))
    assert not isinstance(fresh, PlainEngine)
    assert not isinstance(usual, PlainEngine)
    sizes = []
    for release in releases * 2:
        assert fresh.release(release).name == usual.release(release).name
        sizes.append(len(fresh.kept))

    assert max(sizes) == 2
    monkeypatch.setattr(policy, limit, 128)
    assert fresh.release(releases[0]) is fresh.release(releases[0])


def test_a_process_that_others_are_forked_from_imports_every_engines_rules(shelf: Shelf) -> None:
    holding._holding.cache_clear()
    holding.import_engines()
    imported = holding._holding.cache_info()
    for name in ENGINES:
        holding.hold(resolve({"model": "llama-2-7b", "gpu": "h100-sxm-80gb", "engine": name}, shelf))

    assert imported.currsize == len(ENGINES)
    assert holding._holding.cache_info().misses == imported.misses


def test_a_checkpoints_own_scheme_is_the_cache_that_every_engine_keeps(shelf: Shelf) -> None:
    found = shelf.model("llama-2-7b")
    scheme = replace(found, cache_format="fp8", memo={})
    for name in ("none", "sglang", "tensorrt-llm", "vllm"):
        engine, card = shelf.engine(name), shelf.gpu("h100-sxm-80gb")
        assert engine.cache_name(None, found, "fp16", card) == "fp16"
        assert engine.cache_name(None, scheme, "fp16", card) == "fp8"
