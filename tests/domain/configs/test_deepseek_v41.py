"""DeepSeek-V4.1: a few layers compress for many, some look n-grams up, and drafts have experts of their own."""

from copy import deepcopy
from typing import Any

import pytest

from service.domain.architecture import Architecture, ModuleKind
from service.domain.cache.base import CacheKind
from service.domain.configs import read_config
from service.domain.errors import ConfigError, NotSupported
from tests.domain.configs.published import named
from tests.domain.conftest import Ask

FLASH = "deepseek-ai/DeepSeek-V4.1-Flash"


def changed(part: str = "text_config", **values: object) -> dict[str, Any]:
    config = deepcopy(named(FLASH))
    config[part].update(values)
    return config


def kept(architecture: Architecture, kind: CacheKind) -> list[tuple[tuple[int, ...], int]]:
    """The layers that keep a cache of the kind, each with how many others read it."""
    return [(group.layers, len(group.shared_with)) for group in architecture.caches if group.spec.kind is kind]


def test_four_layers_keep_what_all_behind_the_first_two_read() -> None:
    architecture = read_config(named(FLASH))

    assert kept(architecture, CacheKind.LATENT) == [((2,), 5), ((8,), 5), ((14,), 5), ((20,), 19)]
    assert kept(architecture, CacheKind.INDEXER) == [((2,), 0), ((8,), 0), ((14,), 0), ((20,), 4)]
    assert kept(architecture, CacheKind.RECURRENT) == [((2,), 0), ((8,), 0), ((14,), 0)]
    assert [(len(layers), others) for layers, others in kept(architecture, CacheKind.SLIDING)] == [(40, 0)]


def test_tables_and_pictures_are_as_large_as_the_files_say() -> None:
    """203,073,076,240 bytes of tables with 33 for 32 elements, of projections with 1,025 for 1,024, and norms."""
    modules = read_config(named(FLASH)).modules
    tables = sum(m.parameters for m in modules if m.kind is ModuleKind.POSITION)
    joined = sum(m.parameters for m in modules if m.name == "engram.kv_proj")
    norms = sum(m.parameters for m in modules if m.name == "engram.norms")
    seeing = sum(m.parameters for m in modules if m.kind is ModuleKind.VISION)

    assert tables * 33 // 32 + joined * 1025 // 1024 + 2 * norms == 203_073_076_240
    assert 2 * seeing == 970_506_240 + 2 * 3 * 5120


def test_a_file_without_a_nested_part_is_read_flat() -> None:
    flat = {**named(FLASH)["text_config"], "model_type": "deepseek_v41"}

    assert read_config(flat).caches == read_config(named(FLASH)).caches


@pytest.mark.parametrize(
    "field, values",
    [
        ("compress_ratios", {"compress_ratios": [0, 0] + [4] * 38}),
        ("kv_source_layer_ids", {"kv_source_layer_ids": [8, 14, 20]}),
        ("kv_source_layer_ids", {"kv_source_layer_ids": [2, 8, 14], "index_source_layer_ids": [2, 8, 14]}),
        ("kv_source_layer_ids", {"kv_source_layer_ids": [2, 8, 14, 40]}),
        ("index_source_layer_ids", {"index_source_layer_ids": [2, 8, 14]}),
        ("index_source_layer_ids", {"index_source_layer_ids": [1, 2, 8, 14, 20]}),
        ("engram_num_embeddings", {"engram_num_embeddings": [384006168]}),
        ("engram_num_embeddings", {"engram_layer_ids": [1, 1]}),
        ("dspark_num_experts_per_tok", {"dspark_num_experts_per_tok": 129}),
        ("o_groups", {"o_groups": 7}),
        ("num_key_value_heads", {"num_key_value_heads": 2}),
    ],
)
def test_what_does_not_fit_together_is_refused_by_its_name(field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(changed(**values))

    assert [fault.pointer for fault in caught.value.faults] == [f"/config/text_config/{field}"]


def test_weights_are_those_of_the_files(ask_fit: Ask) -> None:
    """510,286,023,000 bytes with 7,921,077,504 of the draft; what they hold in 32 bits is in 16 here."""
    answer = ask_fit(model="deepseek-v4.1-flash", gpu="b300-sxm-288gb", context_tokens=4096)
    weights = next(part["bytes"] for part in answer["ledger"]["parts"] if part["name"] == "weights")

    assert weights == pytest.approx(510_286_023_000 - 7_921_077_504, rel=3e-4)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_engines_are_refused_by_name(ask_fit: Ask, engine: str) -> None:
    with pytest.raises(NotSupported, match=r"DeepSeek-V4\.1-Flash"):
        ask_fit(model="deepseek-v4.1-flash", gpu="b300-sxm-288gb", gpu_count=4, engine=engine, context_tokens=4096)
