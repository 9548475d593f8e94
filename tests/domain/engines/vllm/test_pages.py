"""Pages: what a block of one layer takes, by kind of cache, release and cache type."""

from fractions import Fraction

import pytest

from service.domain.architecture import CacheLayers
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.engines.vllm.pages import PagedLayers, PageRules, Paging, paged_layers, state_bytes, token_bytes
from service.domain.precision import CacheFormat
from tests.domain.conftest import Shelf
from tests.domain.engines.vllm.conftest import GIB, Hold

LATENT = LatentCache(512 + 64, 512)
RULES = PageRules(windows=True, chunks=True, states=True)
MODEL = "llama-3.1-8b-instruct"


def recurrent(mixer: Mixer, columns: int = 3) -> RecurrentCache:
    return RecurrentCache(mixer, 4, 128, 64, columns, 64, groups=1, group_channels=256)


def cache(shelf: Shelf, name: str) -> CacheFormat:
    found = shelf.format(name).cache
    assert found
    return found


def page(quote: Hold, model: str, **asked: object) -> int:
    """Bytes that a token takes in all layers of the first rank."""
    held = quote(model=model, kv_cache_bytes=10 * GIB, memory_bytes=10**13, context_tokens=4096, **asked)
    return held.rank.block_bytes // held.plan.block_tokens


@pytest.mark.parametrize(
    "kv_dtype, size",
    [("bf16", 131072), ("fp8", 65536), ("int8", 65536 + 4 * 2 * 8 * 32), ("int4", 32768 + 2048), ("nvfp4", 36864)],
)
def test_a_token_takes_its_elements_and_what_its_type_scales(quote: Hold, kv_dtype: str, size: int) -> None:
    assert page(quote, MODEL, kv_dtype=kv_dtype) == size


@pytest.mark.parametrize("tensor, size", [(1, 36864), (2, 18432), (4, 18432), (8, 18432)])
def test_heads_below_the_ranks_are_repeated_on_each(quote: Hold, tensor: int, size: int) -> None:
    """Source: 18,432 B a token and rank of Qwen2.5-3B over eight ranks, where two tools divide further."""
    assert page(quote, "qwen2.5-3b-instruct", kv_dtype="bf16", tensor_parallel=tensor) == size


@pytest.mark.parametrize("tensor", [1, 8])
def test_a_latent_vector_is_kept_whole_on_every_rank(quote: Hold, tensor: int) -> None:
    assert page(quote, "deepseek-v3", kv_dtype="bf16", tensor_parallel=tensor) == 61 * 576 * 2


@pytest.mark.parametrize("version, elements", [("0.7.1", 576), ("0.7.2", 640), ("0.7.3", 640), ("0.8.5", 576)])
def test_two_releases_round_the_latent_vector_up(quote: Hold, version: str, elements: int) -> None:
    assert page(quote, "deepseek-r1", kv_dtype="bf16", engine_version=version) == 61 * elements * 2


def test_releases_without_a_latent_kernel_keep_every_head(shelf: Shelf) -> None:
    rules = PageRules(windows=False, chunks=False, states=False, latent_expanded=True)
    assert token_bytes(LATENT, cache(shelf, "bf16"), rules, heads=16) == 2 * 16 * 256 * 2


def test_sparse_latent_attention_keeps_scales_and_a_wide_rotated_part_beside_eight_bits(shelf: Shelf) -> None:
    rules = PageRules(windows=True, chunks=True, states=True, sparse_narrow=True)
    assert token_bytes(LATENT, cache(shelf, "fp8"), rules, heads=128) == 512 + 4 * 4 + 64 * 2 == 656


def test_dense_latent_attention_keeps_eight_bits_alone(shelf: Shelf) -> None:
    assert token_bytes(LATENT, cache(shelf, "fp8"), RULES, heads=128) == 576


def test_an_indexer_takes_the_same_whatever_the_cache_type(shelf: Shelf) -> None:
    scaled = PageRules(windows=True, chunks=True, states=True, scale_bytes=4)
    sizes = {token_bytes(IndexerCache(128), cache(shelf, n), scaled, heads=64) for n in ("bf16", "fp8", "int8")}
    assert sizes == {132}


def test_a_page_of_fractions_of_a_byte_is_whole() -> None:
    layers = PagedLayers(Paging.FULL, (0,), Fraction(9, 16))
    assert layers.page_bytes(16) == 9


def test_a_state_has_one_size_whatever_the_block() -> None:
    layers = PagedLayers(Paging.STATE, (0,), 0, state_bytes=4096)
    assert layers.page_bytes(16) == layers.page_bytes(784) == 4096


@pytest.mark.parametrize("mixer, more", [(Mixer.GATED_DELTA, 2), (Mixer.MAMBA2, 2), (Mixer.MAMBA1, 0)])
def test_speculation_widens_the_convolution_of_some_mixers(mixer: Mixer, more: int) -> None:
    column_bytes = 2 * (4 * 64 + 256)
    assert state_bytes(recurrent(mixer), 2) - state_bytes(recurrent(mixer), 0) == more * column_bytes


def test_layers_of_equal_pages_stand_together_in_layer_order(shelf: Shelf) -> None:
    spread = (
        CacheLayers(LATENT, (4, 0), 16),
        CacheLayers(IndexerCache(128), (1, 3), 16),
        CacheLayers(LATENT, (2,), 16),
    )
    kinds = paged_layers(spread, cache(shelf, "bf16"), 1, RULES)
    assert [kind.layers for kind in kinds] == [(0, 2, 4), (1, 3)]


def test_states_have_no_pages_where_a_release_keeps_them_apart(shelf: Shelf) -> None:
    owners = (CacheLayers(recurrent(Mixer.MAMBA2), (0,), 16), CacheLayers(LATENT, (1,), 16))
    apart = PageRules(windows=True, chunks=True, states=False)
    assert len(paged_layers(owners, cache(shelf, "bf16"), 1, RULES)) == 2
    assert len(paged_layers(owners, cache(shelf, "bf16"), 1, apart)) == 1
