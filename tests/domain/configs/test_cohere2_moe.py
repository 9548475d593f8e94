"""North Mini Code: a null ties its head, and dense layers in front have a pattern of windows of their own."""

from typing import Any

import pytest

from service.domain.cache.base import CacheKind
from service.domain.configs import read_config
from tests.domain.configs.published import named

NORTH, MADE = "CohereLabs/North-Mini-Code-1.0", "transformers/cohere2_moe"


@pytest.mark.parametrize("said", [{}, {"tie_word_embeddings": None}, {"tie_word_embeddings": True}])
def test_the_head_is_the_table_unless_the_file_says_otherwise(said: dict[str, Any]) -> None:
    assert read_config({**named(NORTH), **said}).parameters == 30_484_303_872


def test_a_head_of_its_own_is_counted() -> None:
    apart = read_config({**named(NORTH), "tie_word_embeddings": False})

    assert apart.parameters == 30_484_303_872 + 262144 * 2048


def test_windows_by_pattern_start_anew_behind_the_dense_layers() -> None:
    """Three dense layers of which every second sees all, then every fourth."""
    full = [group.layers for group in read_config(named(MADE)).caches if group.spec.kind is CacheKind.FULL]

    assert full == [(1, 6)]


def test_the_published_list_is_the_pattern() -> None:
    silent = {key: value for key, value in named(NORTH).items() if key != "layer_types"}

    assert read_config(silent).caches == read_config(named(NORTH)).caches
