"""What every pool promises: the need of so many sequences is the smallest cache that holds them."""

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.engines.llama_cpp.pools import CellPool, Layout
from service.domain.engines.sglang.pools import NO_DRAFTS, Drafts, StatePool, TokenPool
from service.domain.engines.sglang.rules import StateRule
from service.domain.engines.tensorrt_llm.pools import BlockPool
from service.domain.engines.tensorrt_llm.state_pool import StatePool as BlocksBesideStates

if TYPE_CHECKING:
    from service.domain.engines.ranks.pool import Pool

RATIO = (4, 5)
STATES = StateRule((9, 10), 1, 3, 5, frozenset(), "running", 4)
FULL = TokenPool(100, 0, 0, RATIO, 16, exact=False)
HYBRID = TokenPool(100, 60, 128, RATIO, 16, exact=False)
SLOTS, STREAMS = Layout(4, True, 256, 256, 512), Layout(4, False, 256, 256, 512)
BLOCKS = BlockPool(((128, 60), (8192, 100)), 32, exact=False)

POOLS: dict[str, "Pool"] = {
    "tokens": FULL,
    "tokens and windows": HYBRID,
    "windows alone": TokenPool(0, 60, 128, RATIO, 16, exact=False),
    "states": StatePool(FULL, 50_000, STATES, 3, NO_DRAFTS, None),
    "states with drafts": StatePool(FULL, 50_000, STATES, 3, Drafts(2, 3, 7), None),
    "states with drafts of each slot": StatePool(FULL, 50_000, STATES, 3, Drafts(4), None),
    "states beside drafts of the limit": StatePool(FULL, 50_000, STATES, 3, Drafts(fixed_bytes=900_000), None),
    "states of asked slots": StatePool(HYBRID, 50_000, STATES, 1, NO_DRAFTS, 7),
    "shared cells": CellPool(100, (), 0, SLOTS, exact=False),
    "shared cells, windows and states": CellPool(100, ((128, 60),), 50_000, SLOTS, exact=False),
    "streams": CellPool(100, ((128, 60),), 50_000, STREAMS, exact=False),
    "blocks": BlockPool(((8192, 100),), 32, exact=False),
    "blocks of two widths": BLOCKS,
    "blocks and states of a batch": BlocksBesideStates(BLOCKS, 700_001),
    "blocks and states in the ratio of a batch": BlocksBesideStates(BLOCKS, 700_001, 1_300_003),
}


@pytest.mark.parametrize("name", POOLS)
@settings(max_examples=15)
@given(sequences=st.integers(1, 500), context=st.integers(1, 5000))
def test_the_need_of_sequences_is_the_least_that_holds_them(name: str, sequences: int, context: int) -> None:
    pool = POOLS[name]
    needed = pool.needed(sequences, context)
    assert pool.sequences(needed, context) >= sequences
    assert pool.sequences(needed - 1, context) < sequences


@pytest.mark.parametrize("name", POOLS)
@settings(max_examples=15)
@given(size=st.integers(0, 10**9), more=st.integers(1, 10**7), context=st.integers(1, 5000))
def test_a_larger_cache_never_holds_fewer(name: str, size: int, more: int, context: int) -> None:
    pool = POOLS[name]
    assert pool.sequences(size + more, context) >= pool.sequences(size, context)
    assert pool.allocated(size) + pool.states(size) <= max(size, pool.states(0))


@pytest.mark.parametrize("name", POOLS)
@settings(max_examples=10)
@given(size=st.integers(0, 10**9), context=st.integers(1, 5000))
def test_whole_sequences_are_the_concurrency_rounded_down(name: str, size: int, context: int) -> None:
    pool = POOLS[name]
    held, exact = pool.sequences(size, context), pool.concurrency(size, context)
    # One more slot takes a state's worth of tokens at once, which whole sequences are quoted behind.
    assert int(exact) - (1 if name.startswith("states") else 0) <= held <= exact


@pytest.mark.parametrize("name", POOLS)
def test_the_longest_sequence_fits_and_a_longer_one_does_not(name: str) -> None:
    pool, size = POOLS[name], 3_000_000
    longest = pool.longest(size, 1 << 40)
    if longest is None:
        assert name == "windows alone"
        return
    assert pool.sequences(size, longest) >= 1
    assert pool.sequences(size, longest + 1) == 0


@pytest.mark.parametrize("name", POOLS)
@settings(max_examples=15)
@given(limit=st.integers(1, 5000))
def test_an_engine_that_insists_on_its_longest_sequence_starts_from_the_least_that_holds_one(
    name: str, limit: int
) -> None:
    """In every stream, where slots have streams of their own."""
    pool = POOLS[name]
    needed = pool.limit_needed(limit)
    assert pool.holds_limit(needed, limit)
    assert not pool.holds_limit(needed - 1, limit)
    assert needed == pool.needed(4 if name == "streams" else 1, limit)
