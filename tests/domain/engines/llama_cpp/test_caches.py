"""Bytes of a cell by model, type and build, as llama.cpp's own code sizes them."""

from typing import Any

import pytest

from service.domain.catalog import CatalogKind
from tests.domain.agreement import ask
from tests.domain.conftest import entry

CELLS = 65_536


def _cells(pool: float, **changed: Any) -> int:  # noqa: ANN401
    question = {"engine": "llama.cpp", "memory_bytes": 10**13, "context_tokens": 4096, "kv_cache_bytes": int(pool)}
    answer = ask(question | changed)
    assert answer is not None
    return int(answer["kv_capacity_tokens"])


@pytest.mark.parametrize(
    "model,build,types,cell",
    [
        ("deepseek-v3", "b4798", "fp16", 61 * 128 * (192 + 128) * 2),
        ("deepseek-v3", "b6000", "fp16", 61 * (576 + 512) * 2),
        ("deepseek-v3", "b7079", "fp16", 61 * (576 + 512) * 2),
        ("deepseek-v3", "b8101", "fp16", 61 * 576 * 2),
        ("deepseek-v3", "b9538", "q8_0", 61 * 576 * 34 / 32),
        ("deepseek-v3.2", "b9538", "fp16", 61 * (576 + 128) * 2),
        ("deepseek-v3.2", "b9538", "q8_0", 61 * (576 + 128) * 34 / 32),
        ("glm-5.2", "b11549", "fp16", (78 * 576 + 21 * 128) * 2),
        ("minimax-m2", "b11549", "q8_0/q4_0", 62 * 8 * 128 * (34 + 18) / 32),
    ],
)
def test_a_cell_takes_what_the_build_keeps(model: str, build: str, types: str, cell: float) -> None:
    assert _cells(CELLS * cell, model=model, engine_version=build, kv_dtype=types) == CELLS
    assert _cells(CELLS * cell - 1, model=model, engine_version=build, kv_dtype=types) < CELLS


@pytest.mark.parametrize(
    "model,full,windowed,window",
    [
        ("gemma-4-12b-it", 8 * 1 * (512 + 512), 40 * 8 * (256 + 256), 1024),
        ("olmo-3-7b-instruct", 8 * 32 * 256, 24 * 32 * 256, 4096),
    ],
)
def test_a_window_keeps_no_more_than_it_reads(model: str, full: int, windowed: int, window: int) -> None:
    """One slot: the window's cells are its tokens and a pass's, in multiples of 256."""
    kept = -(-(window + 512) // 256) * 256
    pool = 2 * (CELLS * full + kept * windowed)
    assert _cells(pool, model=model, parallel_slots=1) == CELLS
    assert _cells(pool - 2 * 256, model=model, parallel_slots=1) < CELLS


@pytest.mark.parametrize("full", [0, 1])
def test_where_every_layer_has_a_window_no_length_is_the_longest(full: int) -> None:
    kinds = ["sliding_attention"] * (26 - full) + ["full_attention"] * full
    config = {**entry(CatalogKind.MODEL, "gemma-3-1b-it").facts["config"], "layer_types": kinds}

    answer = ask({"engine": "llama.cpp", "config": config, "gpu": "h100-sxm-80gb", "context_tokens": 2048})

    assert answer is not None
    assert (answer["max_context_tokens"] is None) == (full == 0)
