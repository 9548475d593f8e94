"""Tables of n-grams have as many rows as the primes that their heads count by."""

from math import isqrt

import pytest

from service.domain.cache.base import CacheKind
from service.domain.cache.indexer import IndexerCache
from service.domain.configs import ngram_tables, read_config
from service.domain.errors import ConfigError
from tests.domain.configs.published import named

NEXT = "Qwen/Qwen3.8-Flash-Next"


def primes_from(least: int, count: int) -> list[int]:
    found: list[int] = []
    number = least
    while len(found) < count:
        if number > 1 and all(number % divisor for divisor in range(2, isqrt(number) + 1)):
            found.append(number)
        number += 1
    return found


@pytest.mark.parametrize("least", [1, 2, 8, 121, 2_047, 19_999_990, 2**31 - 1])
def test_rows_are_the_sum_of_the_primes_from_there_on(least: int) -> None:
    primes = primes_from(least, 8)

    assert ngram_tables.rows(least, 8, 0, 1) == sum(primes)
    assert ngram_tables.rows(least, 3, 5, 1) == sum(primes[5:])


def test_rows_are_padded_to_the_next_multiple() -> None:
    assert ngram_tables.rows(20_000_000, 16, 0, 128) == 320_001_536


def test_a_table_looks_like_its_layers_other_modules() -> None:
    config = named(NEXT)
    tables = [m for m in read_config(config).modules if m.name == "ple.ngrams"]

    assert [(m.rows, m.columns, m.layers) for m in tables] == [(320_001_536, 160, (1,))]


def test_a_second_table_counts_by_the_primes_behind_those_of_the_first() -> None:
    config = named(NEXT)
    two = {**config, "text_config": {**config["text_config"], "ple_layer_ids": [6, 2]}}
    first, second = (m for m in read_config(two).modules if m.name == "ple.ngrams")

    assert (first.layers, second.layers) == ((1,), (5,))
    assert second.rows > first.rows


@pytest.mark.parametrize("layers", [[4], [0], [49], list(range(1, 48, 4))])
def test_tables_stand_in_a_few_layers_with_linear_attention(layers: list[int]) -> None:
    config = named(NEXT)

    with pytest.raises(ConfigError) as caught:
        read_config({**config, "text_config": {**config["text_config"], "ple_layer_ids": layers}})

    assert caught.value.faults[0].pointer == "/config/text_config/ple_layer_ids"


def test_keys_without_scales_have_their_own_bytes() -> None:
    (group,) = (g for g in read_config(named(NEXT)).caches if g.spec.kind is CacheKind.INDEXER)

    assert group.spec == IndexerCache(128, tokens_per_row=4, element_bytes=2)


def test_without_an_indexer_all_tokens_are_read_and_no_keys_kept() -> None:
    config = named(NEXT)
    text = {k: v for k, v in config["text_config"].items() if not k.startswith("indexer_")}

    caches = read_config({**config, "text_config": text}).caches

    assert {group.spec.kind for group in caches} == {CacheKind.FULL, CacheKind.RECURRENT}
    assert caches[0].spec.tokens_read(100_000) == 100_000
