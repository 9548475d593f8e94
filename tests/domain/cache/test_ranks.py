"""How tensor parallelism divides each kind of cache."""

from fractions import Fraction

import pytest

from service.domain.cache.base import CacheSpec
from service.domain.cache.chunked import ChunkedCache
from service.domain.cache.cross import CrossCache
from service.domain.cache.full import FullCache
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.precision import CacheFormat

BF16 = CacheFormat("bf16", Fraction(16), 1, Fraction(0))
BY_HEADS = (
    FullCache(8, 128, 128),
    SlidingCache(8, 128, 128, 1024),
    ChunkedCache(8, 128, 128, 8192),
    CrossCache(8, 64, 64, 1500),
)


@pytest.mark.parametrize("spec", BY_HEADS, ids=lambda spec: str(spec.kind))
def test_kv_heads_are_divided_and_then_replicated(spec: CacheSpec) -> None:
    assert [spec.on_rank(ranks).kv_heads for ranks in (1, 2, 8, 16)] == [8, 4, 1, 1]


@pytest.mark.parametrize("spec", BY_HEADS, ids=lambda spec: str(spec.kind))
@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
def test_shares_add_up_to_the_whole_and_its_replicas(spec: CacheSpec, ranks: int) -> None:
    shares = ranks * spec.on_rank(ranks).sequence_bytes(BF16, 4096)

    assert shares == max(1, ranks // 8) * spec.sequence_bytes(BF16, 4096)


@pytest.mark.parametrize("spec", [LatentCache(576, 512), IndexerCache(128)], ids=lambda spec: str(spec.kind))
def test_a_vector_for_all_heads_stands_whole_on_every_rank(spec: CacheSpec) -> None:
    assert {spec.on_rank(ranks) for ranks in (1, 2, 16)} == {spec}


def test_a_state_is_divided_with_its_heads() -> None:
    delta = RecurrentCache(Mixer.GATED_DELTA, 48, 128, 128, 3, 128, 16, 256, state_element_bytes=4)

    assert 4 * delta.on_rank(4).fixed_bytes == delta.fixed_bytes


def test_groups_are_replicated_once_there_are_more_ranks_than_groups() -> None:
    mixer = RecurrentCache(Mixer.MAMBA2, 128, 128, 64, 3, 64, groups=2, group_channels=256)

    assert [mixer.on_rank(ranks).groups for ranks in (1, 2, 8)] == [2, 1, 1]
    assert 8 * mixer.on_rank(8).conv_elements == mixer.conv_elements + 6 * 256 * 3


def test_a_convolution_without_a_state_is_divided_by_its_channels() -> None:
    convolution = RecurrentCache(Mixer.SHORT_CONVOLUTION, 2048, 0, 0, 2, 1)

    assert convolution.on_rank(4).fixed_bytes == 512 * 2 * 2
