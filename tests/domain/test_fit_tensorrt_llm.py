"""`/fit` and `/traffic` with `engine: tensorrt-llm`: the whole answer, not the engine's arithmetic alone."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.errors import NotSupported, ValidationError
from service.domain.holding import hold
from service.domain.naming import NamedModel
from service.domain.question import resolve
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask, Shelf

H100 = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "tensorrt-llm", "context_tokens": 8192}
WINDOWED = {"model": "gpt-oss-20b", "gpu": "h100-sxm-80gb", "engine": "tensorrt-llm", "context_tokens": 8192}
LATENT = {"model": "deepseek-v3", "gpu": "h200-sxm-141gb", "engine": "tensorrt-llm", "tensor_parallel": 8}


def test_it_works(ask_fit: Ask) -> None:
    answer = ask_fit(**H100)
    assert answer["fits"] is True
    assert answer["engine"] == {"name": "tensorrt-llm", "version": answer["question"]["engine_version"]}
    assert answer["kv_capacity_tokens"] == 32 * answer["blocks"]
    assert answer["max_sequences"] == answer["blocks"] // 256
    assert {"reserve.runtime", "reserve.activations", "reserve.sampler", "outside_budget"} <= parts(answer).keys()


def test_the_cache_is_a_share_of_what_is_free_after_loading(ask_fit: Ask) -> None:
    found = parts(ask_fit(**H100))
    pool, back = found["kv_cache"] + found["unused"], found["outside_budget"]
    assert pool / (pool + back) == pytest.approx(0.9, abs=1e-6)


def test_a_logged_cache_gives_its_logged_tokens(ask_fit: Ask) -> None:
    """Llama-2-7B in 16 bits, a public log: 69,524,783,104 bytes are 132,608 tokens."""
    question = {"model": "llama-2-7b-chat", "engine": "tensorrt-llm", "memory_bytes": 10**11, "context_tokens": 4096}
    assert ask_fit(**question, kv_cache_bytes=69_524_783_104)["kv_capacity_tokens"] == 132_608


@pytest.mark.parametrize("free,tokens", [(75_677_323_755, 259_840), (1_524_713_390, 5_248)])
def test_the_last_block_is_printed_whole(ask_fit: Ask, free: int, tokens: int) -> None:
    """Llama-2-7B with a cache in 8 bits, blocks of 64: what logs print beside what was free when they sized it."""
    question = {"model": "llama-2-7b", "engine": "tensorrt-llm", "engine_version": "0.12.0", "kv_dtype": "fp8"}
    nothing = {"weight_bytes": 1, "reserve_bytes": 0, "block_tokens": 64, "context_tokens": 2048}
    answer = ask_fit(**question, **nothing, memory_bytes=free)
    assert answer["kv_capacity_tokens"] == tokens == -(-(int(free * 0.9) // 262_144) // 64) * 64
    assert parts(answer)["kv_cache"] <= free * 0.9


@pytest.mark.parametrize("version,sequences,each", [("0.11.0", 256, 17), ("0.12.0", 2048, 27), ("1.2.0", 2048, 4)])
def test_sampling_keeps_room_for_the_batch_of_the_release(
    ask_fit: Ask, version: str, sequences: int, each: int
) -> None:
    answer = ask_fit(**H100, engine_version=version)
    assert parts(answer)["reserve.sampler"] == each * sequences * 128_256


def test_states_of_a_full_batch_are_there_before_the_cache(ask_fit: Ask) -> None:
    """24 layers of 128 heads x 64 x 128 and 3 inputs of 8,192 + 2 x 8 x 128 channels, in 16 bits; 4 layers attend."""
    question = H100 | {"model": "nemotron-h-8b-base-8k", "engine_version": "1.0.0", "max_sequences_limit": 64}
    answer, twice = ask_fit(**question), ask_fit(**question | {"max_sequences_limit": 128})
    state = 24 * (128 * 64 * 128 + 3 * (8192 + 2048)) * 2
    assert parts(answer)["reserve.state"] == 64 * state
    assert parts(twice)["reserve.state"] == 128 * state
    assert answer["rank"]["kv_bytes_per_token"] == 4 * 4096
    assert answer["max_running_sequences"] == 64
    assert any("max_sequences_limit" in line for line in answer["warnings"])
    assert ask_fit(**question, kv_cache_bytes=16_384 * 10_000)["kv_capacity_tokens"] == 10_000
    assert ask_fit(**H100 | {"model": "nemotron-h-8b-base-8k"})["fits"] is False


def test_heads_are_replicated_and_latent_vectors_are_not_divided(ask_fit: Ask) -> None:
    assert ask_fit(**LATENT, context_tokens=4096)["rank"]["kv_bytes_per_token"] == 61 * 1152
    answer = ask_fit(
        model="qwen3-235b-a22b", gpu="h200-sxm-141gb", engine="tensorrt-llm", tensor_parallel=8, context_tokens=4096
    )
    assert answer["rank"]["kv_bytes_per_token"] == 48_128


def test_windows_have_pools_of_their_own_only_where_asked(ask_fit: Ask) -> None:
    whole, pools = ask_fit(**WINDOWED), ask_fit(**WINDOWED, hybrid_cache=True)
    assert (whole["groups"], pools["groups"]) == (1, 2)
    assert pools["max_sequences"] > 1.9 * whole["max_sequences"]


def test_attention_data_parallel_gives_every_rank_a_cache_of_its_own(ask_fit: Ask) -> None:
    answer = ask_fit(**LATENT, context_tokens=4096, attention_data_parallel=8)
    assert answer["max_sequences"] == 8 * (answer["blocks"] // 128)


def test_older_releases_have_larger_blocks(ask_fit: Ask) -> None:
    assert ask_fit(**H100, engine_version="0.16.0")["block_tokens"] == 64


@pytest.mark.parametrize("question", [H100, WINDOWED, LATENT | {"context_tokens": 4096}])
def test_every_lever_gives_what_it_says(question: dict[str, Any]) -> None:
    answer = ask(question)
    assert answer is not None
    assert len(answer["levers"]) > 1
    check_levers(question, answer)


def test_what_does_not_fit_says_the_longest_that_would(ask_fit: Ask) -> None:
    question = H100 | {"gpu": "l4", "context_tokens": 131072, "max_sequences_limit": 64}
    answer = ask_fit(**question)
    longest = answer["shortage"]["max_context_tokens"]
    assert answer["fits"] is False
    assert ask_fit(**question | {"context_tokens": longest})["fits"] is True
    assert ask_fit(**question | {"context_tokens": longest + 32})["fits"] is False


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"engine_version": "0.22.5"}, "/engine_version"),
        ({"block_tokens": 24}, "/block_tokens"),
        ({"attention_data_parallel": 2, "tensor_parallel": 4}, "/attention_data_parallel"),
        ({"speculative_method": "mtp"}, "/speculative_method"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_field(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**H100 | changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"kv_dtype": "q8_0"}, "/kv_dtype"),
        ({"enforce_eager": True}, "/enforce_eager"),
        ({"gpu_layers": 3}, "/gpu_layers"),
        ({"speculative_method": "medusa"}, "/speculative_method"),
        ({"model": "nemotron-h-8b-base-8k", "engine_version": "0.21.0"}, "/engine"),
        ({"model": "qwen3-next-80b-a3b-instruct", "engine_version": "1.1.0"}, "/engine_version"),
        ({"model": "jamba-v0.1"}, "/engine"),
        ({"model": "gemma-3n-e2b-it", "pipeline_parallel": 3}, "/pipeline_parallel"),
    ],
)
def test_what_it_has_not_is_refused_by_name(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(**H100 | changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


def test_traffic_asks_the_same_engine(ask_traffic: Ask) -> None:
    answer = ask_traffic(**H100)
    assert answer["engine"]["name"] == "tensorrt-llm"
    assert answer["step"]["seconds"] > 0
    assert answer["fits"] is True


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            [
                "llama-3.1-8b-instruct",
                "mixtral-8x7b-v0.1",
                "gpt-oss-20b",
                "deepseek-v2-lite",
                "gemma-3-4b-it",
                "nemotron-h-8b-base-8k",
                "qwen3.5-9b",
            ]
        ),
        "gpu": st.sampled_from(["h100-sxm-80gb", "a100-sxm-80gb", "l4", "b200-sxm-180gb"]),
        "engine": st.just("tensorrt-llm"),
        "context_tokens": st.integers(1, 1 << 17),
    },
    optional={
        "engine_version": st.sampled_from(["0.9.0", "0.21.0", "1.2.1", "1.3.0rc16", "1.3.0rc24"]),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "pipeline_parallel": st.integers(1, 3),
        "data_parallel": st.integers(1, 3),
        "memory_utilization": st.floats(0.05, 1.0),
        "memory_used_by_others_bytes": st.integers(0, 1 << 36),
        "kv_cache_bytes": st.integers(0, 1 << 37),
        "reserve_bytes": st.integers(0, 1 << 36),
        "weight_dtype": st.sampled_from(["fp16", "fp8", "awq", "int8"]),
        "kv_dtype": st.sampled_from(["fp16", "fp8"]),
        "batch_size": st.integers(1, 2000),
        "max_sequences_limit": st.integers(1, 4096),
        "max_batched_tokens": st.integers(512, 16384),
        "block_tokens": st.sampled_from([16, 32, 64]),
        "hybrid_cache": st.booleans(),
    },
)


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_ledger_closes_and_the_answer_agrees_with_itself(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_agrees(answer)


@settings(max_examples=40)
@given(QUESTIONS, st.integers(1, 1 << 15))
def test_more_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    fixed = {"context_limit_tokens": 1 << 18} | question
    answer, longer = ask(fixed), ask(fixed | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@settings(max_examples=40)
@given(QUESTIONS, st.integers(1, 1 << 34))
def test_more_memory_never_gives_fewer_sequences(question: dict[str, Any], more: int) -> None:
    answer, larger = (ask(question | {"memory_bytes": (1 << 35) + extra}) for extra in (0, more))
    if answer and larger:
        assert larger["max_sequences"] >= answer["max_sequences"]


def test_several_tokens_in_a_row_of_a_cache_are_not_described(shelf: Shelf) -> None:
    class Compressed(Shelf):
        def named_model(self, name: str, pointer: str = "/model") -> NamedModel:  # noqa: ARG002  # one for every name
            found = shelf.model(name)
            rows = tuple(
                owners for owners in found.architecture.caches if isinstance(owners.spec, LatentCache | IndexerCache)
            )
            return NamedModel(replace(found, architecture=replace(found.architecture, caches=rows), memo={}))

    question = LATENT | {"model": "deepseek-v4-flash", "context_tokens": 4096}
    with pytest.raises(NotSupported, match="keeps the compressed attention of DeepSeek-V4-Flash") as caught:
        hold(resolve(question, Compressed()))

    assert caught.value.faults[0].nearest == ("none",)
