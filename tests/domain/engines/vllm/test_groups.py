"""Groups: which layers share blocks, how many blocks a request holds, and how long a request a pool holds."""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.engines.vllm import Held
from service.domain.engines.vllm.groups import Flight, Group, Plan, plan
from service.domain.engines.vllm.pages import PagedLayers, Paging
from service.domain.errors import NotSupported
from tests.domain.engines.vllm.conftest import GIB, Hold

FLIGHT = Flight(tokens=2048, state_blocks=1)
ALL = [range(64)]


def layers(paging: Paging, at: range, size: int = 64, *, tokens: int = 0, state: int = 0) -> PagedLayers:
    return PagedLayers(paging, tuple(at), size, state, tokens)


def given_pool(quote: Hold, model: str, context: int, pool_gib: float = 10, **asked: object) -> Held:
    return quote(
        model=model,
        kv_dtype="bf16",
        kv_cache_bytes=int(pool_gib * GIB),
        memory_bytes=10**13,
        context_tokens=context,
        max_batched_tokens=8192,
        **asked,
    )


@pytest.mark.parametrize(
    "tensor, block_bytes, figures",
    [
        (1, 5242880, (2048, 32768, 1)),
        (4, 1310720, (8192, 131072, 4)),
        (8, 655360, (16384, 262144, 8)),
        (16, 655360, (16384, 262144, 8)),
    ],
)
def test_layers_of_one_kind_are_one_group(
    quote: Hold, tensor: int, block_bytes: int, figures: tuple[int, int, int]
) -> None:
    held = given_pool(quote, "llama-3.1-70b-instruct", 32768, tensor_parallel=tensor)
    assert (len(held.plan.groups), held.rank.block_bytes) == (1, block_bytes)
    assert (held.blocks, held.capacity_tokens, held.concurrency) == figures


@pytest.mark.parametrize("tensor", [1, 8])
def test_latent_layers_are_divided_by_no_rank(quote: Hold, tensor: int) -> None:
    held = given_pool(quote, "deepseek-v3", 32768, block_tokens=64, tensor_parallel=tensor)
    assert (held.rank.block_bytes, held.blocks, held.limit_blocks, held.capacity_tokens) == (4497408, 2387, 512, 152768)


def test_a_latent_cache_and_its_indexer_are_one_group_of_blocks_of_64(quote: Hold) -> None:
    held = given_pool(quote, "deepseek-v3.2", 32768)
    assert (len(held.plan.groups), held.rank.block_bytes, held.blocks, held.limit_blocks) == (1, 5012736, 2142, 512)


@pytest.mark.parametrize("version, blocks, tokens", [("0.33.0", 3081, 193608), ("0.19.1", 2569, 145632)])
def test_windows_beside_full_layers_are_a_group_of_their_own(
    quote: Hold, version: str, blocks: int, tokens: int
) -> None:
    held = given_pool(quote, "gpt-oss-120b", 32768, engine_version=version)
    assert (len(held.plan.groups), held.rank.block_bytes, held.blocks) == (2, 589824, 18204)
    assert (held.limit_blocks, held.capacity_tokens) == (blocks, tokens)


def test_windows_are_charged_as_full_where_the_groups_are_switched_off(quote: Hold) -> None:
    """Source: gpt-oss-120b in 5.38 GiB logged as 78,384 tokens of 73,728 B."""
    held = given_pool(quote, "gpt-oss-120b", 32768, pool_gib=5.38, engine_version="0.10.2", hybrid_cache=False)
    assert held.rank.block_bytes == 16 * 73728
    assert held.capacity_tokens == pytest.approx(78384, rel=1e-3)


def test_uneven_buckets_are_split_into_groups_with_places_that_stay_empty(quote: Hold) -> None:
    held = given_pool(quote, "gemma-3-27b-it", 131072, pool_gib=20)
    assert (len(held.plan.groups), held.plan.padding_layers, held.rank.block_bytes) == (7, 8, 1310720)
    assert (held.blocks, held.limit_blocks, held.capacity_tokens) == (16384, 14726, 145829)


def test_state_and_attention_share_a_page(quote: Hold) -> None:
    held = given_pool(quote, "qwen3.5-35b-a3b", 4096, pool_gib=16.03, engine_version="0.19.1")
    assert (len(held.plan.groups), held.plan.block_tokens, held.rank.block_bytes) == (4, 1056, 21626880)
    assert (held.blocks, held.limit_blocks, held.capacity_tokens) == (795, 7, 209088)


@pytest.mark.parametrize(
    "model, asked, tokens",
    [
        ("qwen3.5-27b", {}, 784),
        ("qwen3.5-27b", {"kv_dtype": "fp8"}, 1568),
        ("qwen3-next-80b-a3b-instruct", {}, 544),
        ("qwen3-next-80b-a3b-instruct", {"tensor_parallel": 4}, 272),
        ("nvidia-nemotron-3-nano-30b-a3b-bf16", {}, 2096),
        ("jamba-v0.1", {}, 80),
        ("granite-4.0-h-small", {}, 528),
        ("kimi-linear-48b-a3b-instruct", {}, 1920),
        ("nemotron-h-56b-base-8k", {}, 4128),
        ("kimi-k3", {}, 5760),
    ],
)
def test_blocks_of_attention_are_long_enough_for_a_state(
    quote: Hold, model: str, asked: dict[str, Any], tokens: int
) -> None:
    question = {"kv_dtype": "bf16", "kv_cache_bytes": 10 * GIB, "memory_bytes": 10**13, "context_tokens": 4096} | asked
    assert quote(model=model, **question).plan.block_tokens == tokens


def test_a_smaller_page_that_divides_the_largest_holds_more_tokens() -> None:
    found = plan([layers(Paging.FULL, range(2), 128), layers(Paging.WINDOW, range(2, 4), 32, tokens=512)], ALL, 16, 1.5)
    assert [group.block_tokens for group in found.groups] == [16, 64]


def test_a_smaller_page_that_does_not_divide_is_padded() -> None:
    found = plan([layers(Paging.FULL, range(2), 100), layers(Paging.WINDOW, range(2, 4), 64, tokens=512)], ALL, 16, 1.5)
    assert [group.block_tokens for group in found.groups] == [16, 16]
    assert found.stage_bytes == (2 * 16 * 100,)


def test_a_latent_page_that_does_not_divide_is_not_quoted() -> None:
    latent = replace(layers(Paging.WINDOW, range(2, 4), 64, tokens=512), latent=True)
    with pytest.raises(NotSupported, match="do not divide"):
        plan([layers(Paging.FULL, range(2), 100), latent], ALL, 16, 1.5)


def test_layers_that_keep_the_same_tokens_share_a_group_whatever_they_take() -> None:
    found = plan([layers(Paging.FULL, range(3), 64), layers(Paging.FULL, range(3, 4), 100)], ALL, 16, 1.5)
    assert found.stage_bytes == (16 * (3 * 64 + 100),)
    assert len(found.groups) == 1


@pytest.mark.parametrize(
    "ratio, groups, padding", [(None, 3, 2), (1.25, 3, 2), (1.5, 2, 1)], ids=["smallest", "just-below", "largest"]
)
def test_groups_are_as_large_as_the_larger_bucket_where_both_are_near(
    ratio: float | None, groups: int, padding: int
) -> None:
    found = plan([layers(Paging.FULL, range(3)), layers(Paging.WINDOW, range(3, 7), tokens=512)], ALL, 16, ratio)
    assert (len(found.groups), found.padding_layers) == (groups, padding)


def test_each_pipeline_stage_pays_for_its_fullest_group() -> None:
    kinds = [layers(Paging.FULL, range(4)), layers(Paging.WINDOW, range(4, 8), tokens=512)]
    found = plan(kinds, [range(3), range(3, 8)], 16, 1.5)
    assert found.stage_bytes == (3 * 16 * 64, 4 * 16 * 64)


@pytest.mark.parametrize(
    "group, length, blocks",
    [
        (Group(Paging.FULL, 1, 16, 0), 33, 3),
        (Group(Paging.WINDOW, 1, 16, 128), 100000, 137),
        (Group(Paging.WINDOW, 1, 16, 128), 32, 3),
        (Group(Paging.CHUNK, 1, 16, 8192), 100000, 640),
        (Group(Paging.CHUNK, 1, 16, 8192), 160, 10),
        (Group(Paging.STATE, 1, 784, 0), 100000, 1),
        (Group(Paging.CROSS, 1, 16, 1500), 10, 94),
    ],
)
def test_a_request_holds_as_many_blocks_as_its_kind_keeps_tokens(group: Group, length: int, blocks: int) -> None:
    assert group.blocks(length, FLIGHT) == blocks


def test_ranks_that_share_the_tokens_hold_fewer_blocks_of_full_layers_alone() -> None:
    shared = FLIGHT._replace(context_ranks=4)
    assert Group(Paging.FULL, 1, 16, 0).blocks(1024, shared) == 16
    assert Group(Paging.WINDOW, 1, 16, 128).blocks(1024, shared) == Group(Paging.WINDOW, 1, 16, 128).blocks(
        1024, FLIGHT
    )


def test_the_smallest_block_is_that_of_attention_and_not_of_a_state() -> None:
    kinds = [layers(Paging.FULL, range(2)), layers(Paging.STATE, range(2, 4), 0, state=900)]
    assert plan(kinds, ALL, 16, 1.5).smallest_block_tokens == 16


KINDS = st.sampled_from([Paging.FULL, Paging.WINDOW, Paging.CHUNK, Paging.STATE, Paging.CROSS])
GROUPS = st.builds(
    Group, KINDS, st.just(0), st.sampled_from([8, 16, 64, 784]), st.integers(min_value=1, max_value=3000)
)


def planned(groups: list[Group]) -> Plan:
    return Plan(tuple(groups), (1,), 16, 0, tuple((group, 1) for group in groups))


@given(
    st.lists(GROUPS, min_size=1, max_size=4),
    st.integers(min_value=0, max_value=3000),
    st.integers(min_value=1, max_value=4096),
    st.sampled_from([1, 2, 8]),
)
def test_the_longest_request_is_the_last_that_fits(groups: list[Group], blocks: int, tokens: int, ranks: int) -> None:
    found, flight = planned(groups), Flight(tokens, 2, ranks)
    longest = found.longest(blocks, flight)
    if longest is None:
        assert found.blocks(10**9, flight) <= blocks
        return
    assert longest == 0 or found.blocks(longest, flight) <= blocks
    assert found.blocks(longest + 1, flight) > blocks


@given(st.lists(GROUPS, min_size=1, max_size=4), st.integers(min_value=1, max_value=50000), st.integers(1, 50000))
def test_a_longer_request_holds_no_fewer_blocks(groups: list[Group], length: int, more: int) -> None:
    found = planned(groups)
    assert found.blocks(length, FLIGHT) <= found.blocks(length + more, FLIGHT)


def test_a_page_of_a_fraction_is_counted_whole() -> None:
    found = plan([PagedLayers(Paging.FULL, (0, 1), Fraction(9, 16))], ALL, 16, 1.5)
    assert found.stage_bytes == (18,)
