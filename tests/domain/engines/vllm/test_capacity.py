"""The pool and its blocks: what starts, and a ledger that closes."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.domain.engines.vllm import Held, Memory, requested_bytes
from tests.domain.engines.vllm.conftest import GIB, Hold

MODEL = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 8192}
MODELS = st.sampled_from(["llama-3.1-8b-instruct", "gpt-oss-20b", "qwen3.5-9b", "deepseek-v2-lite", "gemma-3-27b-it"])
VERSIONS = st.sampled_from(["0.6.4.post1", "0.7.3", "0.8.5", "0.11.0", "0.19.1", "0.25.1", "0.33.0"])
ONCE = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def total(held: Held) -> int:
    """Bytes of all parts of the limiting rank."""
    reserve, others = held.rank.reserve.total, held.memory.others_bytes
    return held.rank.weight_bytes + reserve + held.cache_bytes + others + held.outside_bytes + held.unused_bytes


QUESTIONS = st.fixed_dictionaries(
    {
        "model": MODELS,
        "engine_version": VERSIONS,
        "memory_bytes": st.integers(min_value=GIB, max_value=200 * GIB),
        "memory_utilization": st.floats(min_value=0.1, max_value=1.0),
        "memory_used_by_others_bytes": st.integers(min_value=0, max_value=20 * GIB),
        "context_tokens": st.just(4096),
    },
    optional={
        "tensor_parallel": st.just(2),
        "pipeline_parallel": st.just(2),
        "reserve_bytes": st.just(3 * GIB),
        "kv_cache_bytes": st.just(5 * GIB),
    },
)


@given(question=QUESTIONS)
@ONCE
def test_the_parts_of_the_limiting_rank_add_up_to_its_memory_and_what_it_is_over(
    quote: Hold, question: dict[str, Any]
) -> None:
    held = quote(**question)
    assert total(held) == held.memory.memory_bytes + held.rank.over_bytes


@pytest.mark.parametrize(
    "asked",
    [{}, {"kv_cache_bytes": 20 * GIB}, {"reserve_bytes": 2 * GIB}, {"memory_utilization": 0.1}, {"tensor_parallel": 4}],
)
def test_the_ledger_closes_on_a_known_device(quote: Hold, asked: dict[str, Any]) -> None:
    held = quote(**MODEL | asked)
    assert total(held) == held.memory.memory_bytes + held.rank.over_bytes


@pytest.mark.parametrize(
    "utilization, requested", [(0.9, 90), (0.92, 92), (0.901, 91), (1.0, 100)], ids=["whole", "more", "up", "all"]
)
def test_utilization_asks_for_whole_bytes_rounded_up(utilization: float, requested: int) -> None:
    assert requested_bytes(Memory(100, utilization)) == requested


@given(model=MODELS, version=VERSIONS, memory=st.integers(8 * GIB, 200 * GIB), more=st.integers(1, 40 * GIB))
@ONCE
def test_more_memory_never_holds_fewer_sequences(quote: Hold, model: str, version: str, memory: int, more: int) -> None:
    batch = {"max_batched_tokens": 2048, "max_sequences_limit": 128}
    asked = {"model": model, "engine_version": version, "context_tokens": 4096, **batch}
    assert quote(memory_bytes=memory + more, **asked).sequences >= quote(memory_bytes=memory, **asked).sequences


@given(model=MODELS, version=VERSIONS, context=st.integers(1, 60000), more=st.integers(1, 60000))
@ONCE
def test_a_longer_context_never_holds_more_sequences(
    quote: Hold, model: str, version: str, context: int, more: int
) -> None:
    asked = {"model": model, "engine_version": version, "memory_bytes": 80 * GIB, "context_limit_tokens": 120000}
    assert quote(context_tokens=context + more, **asked).sequences <= quote(context_tokens=context, **asked).sequences


def test_blocks_tokens_and_concurrency_agree(quote: Hold) -> None:
    """Source: two GPUs of 80 GiB, where a tool printed 122 at once beside twice the blocks of it."""
    held = quote(model="llama-3.1-8b-instruct", memory_bytes=80 * GIB, tensor_parallel=2, context_tokens=8192)
    assert held.blocks * 16 / 8192 == pytest.approx(held.concurrency)
    assert held.capacity_tokens == held.blocks * 16


def test_the_rank_with_the_fewest_blocks_decides(quote: Hold) -> None:
    held = quote(**MODEL, pipeline_parallel=2)
    assert held.blocks == min(rank.blocks for rank in held.ranks)
    assert held.rank.first == held.rank.stage


def test_a_rank_is_counted_over_the_ranks_of_earlier_stages(quote: Hold) -> None:
    ranks = quote(**MODEL, tensor_parallel=2, pipeline_parallel=2).ranks
    assert [(rank.stage, rank.first) for rank in ranks] == [(0, 0), (1, 2)]


def test_weights_beyond_the_memory_are_over_and_nothing_fits(quote: Hold) -> None:
    held = quote(model="llama-3.3-70b-instruct", gpu="h100-sxm-80gb", context_tokens=8192)
    assert held.rank.over_bytes > 50 * GIB
    assert (held.starts, held.sequences, held.longest_limit) == (False, 0, 0)


def test_the_longest_sequence_that_starts_is_the_last_that_does(quote: Hold) -> None:
    asked = {"model": "llama-3.1-8b-instruct", "gpu": "rtx-4090"}
    refused = quote(**asked)
    longest = refused.longest_limit
    assert not refused.starts
    assert longest
    assert quote(**asked, context_tokens=longest).starts
    assert not quote(**asked, context_tokens=longest + 1).starts


@pytest.mark.parametrize("version, usable", [("0.28.0", 0), ("0.29.0", 1)])
def test_newer_releases_leave_a_block_out_when_they_check_the_longest_request(
    quote: Hold, version: str, usable: int
) -> None:
    held = quote(**MODEL, engine_version=version)
    assert held.blocks - held.usable_blocks == usable


def test_a_length_that_takes_no_more_has_no_longest(quote: Hold) -> None:
    assert quote(model="mistral-7b-v0.1", gpu="h100-sxm-80gb", context_tokens=4096).longest_limit is None


def test_a_fixed_pool_replaces_utilization_and_reserve(quote: Hold) -> None:
    held = quote(**MODEL, kv_cache_bytes=10 * GIB)
    assert (held.cache_bytes, held.outside_bytes, held.parts) == (10 * GIB, 0, ())


def test_a_given_reserve_replaces_the_modelled_one(quote: Hold) -> None:
    held = quote(**MODEL, reserve_bytes=GIB)
    requested = requested_bytes(held.memory)
    assert held.rank.pool_bytes == requested - GIB - held.rank.weight_bytes


@pytest.mark.parametrize("version, kept", [("0.6.4.post1", True), ("0.6.6", False), ("0.8.5", True), ("0.19.1", False)])
def test_some_releases_take_other_processes_memory_for_their_own(quote: Hold, version: str, kept: bool) -> None:
    asked = {**MODEL, "engine_version": version, "memory_utilization": 0.8}
    alone, beside = quote(**asked), quote(**asked, memory_used_by_others_bytes=4 * GIB)
    assert (beside.blocks < alone.blocks) == kept


def test_the_interval_holds_the_figure_itself(quote: Hold) -> None:
    held = quote(**MODEL)
    assert held.low_blocks < held.blocks < held.high_blocks


def test_given_weights_leave_the_reserve_alone_uncertain(quote: Hold) -> None:
    def width(held: Held) -> int:
        return held.high_blocks - held.low_blocks

    asked = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "weight_dtype": "int4", "context_tokens": 8192}
    assert width(quote(**asked, weight_bytes=6 * GIB)) < width(quote(**asked))


@pytest.mark.parametrize(
    "model, number, wide",
    [("qwen3-30b-a3b", "nvfp4", True), ("qwen3-30b-a3b", "w4a16", False), ("qwen3.6-27b", "w4a16", True)],
)
def test_checkpoints_that_differ_by_maker_are_less_certain(quote: Hold, model: str, number: str, wide: bool) -> None:
    asked = {"model": model, "gpu": "h100-sxm-80gb", "weight_dtype": number, "context_tokens": 8192}
    held = quote(**asked)
    given = quote(**asked, weight_bytes=held.rank.weight_bytes)
    more = (given.low_blocks - held.low_blocks) * held.rank.block_bytes / held.rank.weight_bytes
    assert (more > 0.005) is wide


def test_a_fixed_pool_is_certain(quote: Hold) -> None:
    held = quote(**MODEL, kv_cache_bytes=10 * GIB)
    assert held.low_blocks == held.blocks == held.high_blocks


def test_what_is_needed_is_at_least_one_of_the_longest(quote: Hold) -> None:
    asked = {
        "model": "llama-3.1-8b-instruct",
        "gpu": "h100-sxm-80gb",
        "context_tokens": 16,
        "context_limit_tokens": 8192,
    }
    held = quote(**asked)
    assert held.needed_bytes(1) == (512 + 1) * held.rank.block_bytes
    assert held.needed_bytes(2000) == 2000 * held.rank.block_bytes
