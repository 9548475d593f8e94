"""What each kind of cache holds, reads and costs."""

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
FP8 = CacheFormat("fp8", Fraction(8), 1, Fraction(0))
FULL = FullCache(8, 128, 128)
SLIDING = SlidingCache(8, 128, 128, 1024)
CHUNKED = ChunkedCache(8, 128, 128, 8192)
LATENT = LatentCache(576, 512)
COMPRESSED = LatentCache(512, 512, tokens_per_row=4)
INDEXER = IndexerCache(128)
CROSS = CrossCache(20, 64, 64, 1500)
STATE = RecurrentCache(Mixer.MAMBA2, 128, 128, 64, 3, 64, 8, 256, state_element_bytes=4)
KINDS = (FULL, SLIDING, CHUNKED, LATENT, COMPRESSED, INDEXER, CROSS, STATE)
EACH = pytest.mark.parametrize("spec", KINDS, ids=lambda spec: f"{spec.kind}-{getattr(spec, 'tokens_per_row', 1)}")


def test_full_attention_keeps_every_token() -> None:
    assert FULL.sequence_bytes(BF16, 4096) == 4096 * 8 * 256 * 2


def test_sparse_attention_keeps_every_token_and_reads_those_it_picks() -> None:
    sparse = FullCache(4, 128, 128, read_limit_tokens=2048)

    assert (sparse.tokens_held(32768), sparse.tokens_read(32768)) == (32768, 2048)
    assert sparse.tokens_read(100) == 100


def test_a_window_keeps_no_more_than_its_tokens() -> None:
    assert [SLIDING.tokens_held(tokens) for tokens in (1, 1024, 1025, 10**6)] == [1, 1024, 1024, 1024]


def test_a_chunk_has_room_for_itself_and_is_read_from_its_start() -> None:
    assert [CHUNKED.tokens_held(tokens) for tokens in (100, 8192, 8193)] == [100, 8192, 8192]
    assert [CHUNKED.tokens_read(tokens) for tokens in (0, 1, 8192, 8193, 16384)] == [0, 1, 8192, 1, 8192]


def test_latent_attention_keeps_one_vector_a_token() -> None:
    assert LATENT.row_bytes(BF16) == 1152
    assert LATENT.row_bytes(FP8) == 576


def test_absorbed_latent_attention_scores_the_whole_vector_and_reads_values_from_a_part() -> None:
    assert LATENT.score_flops(128) == 2 * 128 * (576 + 512)


def test_keys_that_are_values_too_are_multiplied_twice() -> None:
    shared = SlidingCache(1, 512, 0, 128)

    assert shared.row_bytes(BF16) == 1024
    assert shared.score_flops(64) == 2 * 64 * (512 + 512)


def test_a_compressed_vector_stands_for_a_few_tokens_once_they_are_all_there() -> None:
    assert [COMPRESSED.tokens_held(tokens) for tokens in (3, 4, 7, 8)] == [0, 4, 4, 8]
    assert COMPRESSED.sequence_bytes(BF16, 8) == 2 * 512 * 2


def test_a_picked_few_of_the_vectors_are_read() -> None:
    assert LatentCache(576, 512, read_limit_tokens=2048).tokens_read(163840) == 2048


@pytest.mark.parametrize("number", [BF16, FP8])
def test_an_index_key_takes_132_bytes_in_any_cache_format(number: CacheFormat) -> None:
    assert INDEXER.row_bytes(number) == 132
    assert IndexerCache(128, tokens_per_row=4).row_bytes(number) == 33


def test_an_index_scores_keys_alone() -> None:
    assert INDEXER.score_flops(64) == 2 * 64 * 128


def test_the_encoders_output_is_kept_whole_from_the_first_token_on() -> None:
    assert {CROSS.sequence_bytes(BF16, tokens) for tokens in (0, 1, 448)} == {1500 * 20 * 128 * 2}


def test_a_state_is_as_large_for_one_token_as_for_a_million() -> None:
    assert STATE.fixed_bytes == 128 * 128 * 64 * 4 + (128 * 64 + 8 * 256) * 3 * 2
    assert {STATE.sequence_bytes(BF16, tokens) for tokens in (1, 10**6)} == {STATE.fixed_bytes}


def test_a_state_costs_nothing_for_each_earlier_token() -> None:
    assert STATE.row_bytes(BF16) == 0
    assert STATE.score_flops(32) == 0


@pytest.mark.parametrize("spec", [CROSS, STATE], ids=["encoder's output", "state"])
def test_sequences_with_one_beginning_share_neither_a_state_nor_an_encoders_output(spec: CacheSpec) -> None:
    assert (spec.tokens_shared(8192, 1024), spec.tokens_shared_read(8192, 1024)) == (0, 0)
    assert FULL.tokens_shared(8192, 1024) == 1024


@EACH
def test_a_longer_sequence_never_takes_less(spec: CacheSpec) -> None:
    sizes = [spec.sequence_bytes(BF16, tokens) for tokens in range(0, 20000, 37)]

    assert sizes == sorted(sizes)


@EACH
def test_a_step_reads_no_more_than_is_held(spec: CacheSpec) -> None:
    assert all(spec.tokens_read(tokens) <= spec.tokens_held(tokens) for tokens in range(0, 20000, 37))
