"""What an answer says of the engine: ledger rows, constraint, interval, assumptions, warnings, derivation."""

from typing import Any

import pytest

from service.domain.engines.vllm import Held, explain
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf

MODEL = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 8192}


@pytest.mark.parametrize(
    "asked", [{}, {"kv_cache_bytes": 9 * GIB}, {"reserve_bytes": GIB}, {"memory_utilization": 0.1}]
)
def test_ledger_rows_add_up_to_the_memory_and_what_it_is_over(quote: Hold, asked: dict[str, Any]) -> None:
    held = quote(**MODEL | asked)
    rows = explain.ledger_rows(held, "bf16")
    assert sum(row.bytes for row in rows) == held.memory.memory_bytes + held.rank.over_bytes


def test_parts_of_the_reserve_have_rows_of_their_own(quote: Hold) -> None:
    names = [row.name for row in explain.ledger_rows(quote(**MODEL, tensor_parallel=2), "bf16")]
    assert names == [
        "weights",
        "reserve.runtime",
        "reserve.activations",
        "reserve.sampler",
        "reserve.state",
        "reserve.graphs",
        "reserve.communication",
        "kv_cache",
        "outside_budget",
        "unused",
    ]


@pytest.mark.parametrize(
    "asked, constraint",
    [
        ({}, "kv_cache"),
        ({"context_tokens": 64}, "sequence_limit"),
        ({"memory_utilization": 0.15}, "weights"),
        ({"memory_utilization": 0.2}, "reserve"),
        ({"memory_used_by_others_bytes": 30 * GIB}, "free_memory"),
        ({"context_tokens": 8, "context_limit_tokens": 131072, "memory_utilization": 0.3}, "context_limit"),
        ({"memory_utilization": 0.2, "memory_used_by_others_bytes": 3 * GIB, "engine_version": "0.8.5"}, "free_memory"),
        ({"kv_cache_bytes": 100 * GIB}, "kv_cache"),
        ({"kv_cache_bytes": GIB, "memory_used_by_others_bytes": 70 * GIB}, "free_memory"),
        ({"gpu": "t4", "weight_dtype": "bf16"}, "dtype"),
    ],
)
def test_the_constraint_is_what_stops_one_more_sequence(quote: Hold, asked: dict[str, Any], constraint: str) -> None:
    assert explain.constraint(quote(**MODEL | asked)) == constraint


@pytest.mark.parametrize("asked", [{}, {"kv_cache_bytes": 9 * GIB}])
def test_what_fits_is_available_and_one_more_is_not(quote: Hold, asked: dict[str, Any]) -> None:
    held = quote(**MODEL | asked)
    available = explain.available_bytes(held)
    assert explain.needed_bytes(held, held.sequences) <= available < explain.needed_bytes(held, held.sequences + 1)


def test_an_interval_counts_the_sequences_of_every_replica(quote: Hold) -> None:
    held = quote(**MODEL)
    one, two = explain.interval(held, 1), explain.interval(held, 2)
    assert one["max_sequences"][0] <= held.sequences <= one["max_sequences"][1]
    assert two["max_sequences"] == [2 * n for n in one["max_sequences"]]
    assert two["max_concurrency"] == one["max_concurrency"]


def test_an_interval_of_a_given_cache_is_that_cache(quote: Hold) -> None:
    found = explain.interval(quote(**MODEL, kv_cache_bytes=9 * GIB), 1)
    assert found["kv_cache_bytes"] == [9 * GIB, 9 * GIB]
    assert "nothing modelled" in found["basis"]


def assumed(quote: Hold, setting_of: SettingOf, **question: object) -> str:
    return "\n".join(explain.assumptions(quote(**question), setting_of(**question)))


@pytest.mark.parametrize(
    "question, words",
    [
        (MODEL, "vLLM 0.33.0, V1 core, batches of 8,192 tokens and 1,024 sequences, blocks of 16 tokens"),
        ({**MODEL, "engine_version": "0.19.1"}, "lies between 0.19.0 and 0.20.0"),
        ({**MODEL, "engine_version": "0.8.5", "weight_dtype": "fp32"}, "falls back to its older core"),
        ({**MODEL, "engine_version": "0.8.5", "weight_dtype": "q8_0"}, "falls back to its older core"),
        ({"model": MODEL["model"], "memory_bytes": 80 * GIB}, "quoted as an older device without NVLink"),
        ({"model": "gemma-3-27b-it", "gpu": "h100-sxm-80gb"}, "8 places that no layer fills"),
    ],
)
def test_assumptions_name_release_batch_and_what_is_not_known(
    quote: Hold, setting_of: SettingOf, question: dict[str, Any], words: str
) -> None:
    assert words in assumed(quote, setting_of, **question)


def test_a_small_cache_is_warned_of(quote: Hold) -> None:
    (warning,) = explain.warnings(
        quote(model=MODEL["model"], gpu="rtx-4090", context_tokens=2048, memory_utilization=0.72)
    )
    assert "small difference of large sizes" in warning


def test_a_large_cache_is_not_warned_of(quote: Hold) -> None:
    assert explain.warnings(quote(**MODEL)) == []


def test_a_refusal_is_a_warning_in_its_own_words(quote: Hold) -> None:
    (first, *_) = explain.warnings(quote(**MODEL, memory_used_by_others_bytes=30 * GIB))
    assert "asks for more than" in first


def lines(quote: Hold, setting_of: SettingOf, **question: object) -> tuple[Held, str]:
    held = quote(**question)
    return held, "\n".join(explain.derivation(held, setting_of(**question), "bf16"))


def test_a_derivation_has_every_number_of_the_pool(quote: Hold, setting_of: SettingOf) -> None:
    held, text = lines(quote, setting_of, **MODEL)
    numbers = [held.rank.weight_bytes, held.rank.pool_bytes, held.rank.block_bytes, held.blocks, held.sequences]
    assert all(f"{number:,}" in text for number in [*numbers, *(part.span.middle for part in held.parts)])


@pytest.mark.parametrize(
    "question, words",
    [
        (MODEL | {"tensor_parallel": 2}, "rank 0 of a replica, on pipeline stage 0, fills first"),
        (MODEL | {"kv_cache_bytes": 9 * GIB}, "9,663,676,416 B for the KV cache, as asked"),
        (MODEL | {"reserve_bytes": GIB}, "- 1,073,741,824 B reserve, as asked"),
        (MODEL | {"memory_utilization": 0.15}, "B too much"),
        (MODEL | {"engine_version": "0.8.5", "memory_used_by_others_bytes": GIB}, "- 1,073,741,824 B held by others"),
        (MODEL | {"model": "gpt-oss-20b"}, "1 group, window of 128 tokens, 16,384 in flight: 513 blocks of 16 tokens"),
        (MODEL | {"model": "qwen3.5-9b"}, "3 groups, recurrent state: 2 blocks for 8,192 tokens"),
        (MODEL | {"model": "llama-4-scout-17b-16e-instruct", "gpu": "b300-sxm-288gb"}, "chunk of 8,192 tokens"),
        (MODEL | {"model": "llama-3.2-11b-vision-instruct"}, "encoder output of"),
    ],
)
def test_a_derivation_says_how_each_case_comes_about(
    quote: Hold, setting_of: SettingOf, question: dict[str, Any], words: str
) -> None:
    assert words in lines(quote, setting_of, **question)[1]
