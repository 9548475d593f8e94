"""`/fit` and `/traffic` with `engine: sglang`: the whole answer, not the engine's arithmetic alone."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import NotSupported, ValidationError
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask
from tests.domain.test_asking_again import check_again

H100 = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "sglang", "context_tokens": 8192}
HYBRID = {"model": "qwen3-next-80b-a3b-instruct", "gpu": "h200-sxm-141gb", "engine": "sglang", "tensor_parallel": 2}


def test_it_works(ask_fit: Ask) -> None:
    answer = ask_fit(**H100)
    assert answer["fits"] is True
    assert answer["engine"] == {"name": "sglang", "version": answer["question"]["engine_version"]}
    assert answer["max_sequences"] == answer["kv_capacity_tokens"] // 8192
    assert answer["question"]["memory_basis"] == "visible"
    assert {"reserve.runtime", "outside_budget"} <= parts(answer).keys()


def test_the_share_of_an_h100_is_that_of_the_release(ask_fit: Ask) -> None:
    assert ask_fit(**H100)["question"]["memory_utilization"] == 0.830
    assert ask_fit(**H100, tensor_parallel=8)["question"]["memory_utilization"] == 0.812
    assert ask_fit(**H100, engine_version="0.4.6.post5")["question"]["memory_utilization"] == 0.88


def test_a_logged_cache_gives_its_logged_tokens(ask_fit: Ask) -> None:
    """Qwen3-235B fp8 over four ranks: keys and values of 8.23 GiB each are 367,404 tokens of 48,128 B."""
    answer = ask_fit(
        model="qwen3-235b-a22b-fp8",
        engine="sglang",
        tensor_parallel=4,
        gpu="h100-sxm-80gb",
        kv_cache_bytes=367_404 * 48_128,
        context_tokens=4096,
    )
    assert answer["rank"]["kv_bytes_per_token"] == 48_128
    assert answer["kv_capacity_tokens"] == 367_404
    assert parts(answer)["kv_cache"] / 2**30 == pytest.approx(2 * 8.23, abs=0.01)


def test_latent_vectors_are_on_every_rank(ask_fit: Ask) -> None:
    """GLM-4.7-Flash: 383,872 tokens of 47 layers x 576 x 2 B are 19.36 GiB."""
    question = {"model": "glm-4.7-flash", "engine": "sglang", "memory_bytes": 10**11, "context_tokens": 4096}
    answer = ask_fit(**question, kv_cache_bytes=383_872 * 47 * 576 * 2)
    assert answer["kv_capacity_tokens"] == 383_872
    assert parts(answer)["kv_cache"] / 2**30 == pytest.approx(19.36, abs=0.01)


def test_a_narrow_cache_beside_an_indexer_keeps_scales_and_a_wide_part(ask_fit: Ask) -> None:
    question = {"model": "deepseek-v3.2", "engine": "sglang", "gpu": "h200-sxm-141gb", "tensor_parallel": 8}
    answer = ask_fit(**question, kv_dtype="fp8_e4m3", context_tokens=4096)
    assert answer["rank"]["kv_bytes_per_token"] == 61 * (656 + 132)
    assert answer["question"]["block_tokens"] == 64


def test_attention_data_parallel_gives_every_rank_a_cache_of_its_own(ask_fit: Ask) -> None:
    question = {"model": "deepseek-v3", "engine": "sglang", "gpu": "h200-sxm-141gb", "tensor_parallel": 8}
    alike = ask_fit(**question, context_tokens=4096, memory_utilization=0.9)
    apart = ask_fit(**question, context_tokens=4096, memory_utilization=0.9, attention_data_parallel=8)
    assert apart["max_sequences"] == 8 * (apart["kv_capacity_tokens"] // 4096) > alike["max_sequences"]
    assert parts(apart)["weights"] > parts(alike)["weights"]
    assert apart["gpu"]["count"] == 8


def test_windows_have_a_pool_with_four_fifths_of_the_tokens(ask_fit: Ask) -> None:
    question = {"model": "gpt-oss-120b", "gpu": "h200-sxm-141gb", "engine": "sglang", "context_tokens": 8192}
    hybrid, whole = ask_fit(**question), ask_fit(**question, hybrid_cache=False)
    assert (hybrid["groups"], whole["groups"]) == (2, 1)
    assert hybrid["kv_capacity_tokens"] == pytest.approx(whole["kv_capacity_tokens"] * 2 / 1.8, rel=1e-5)


def test_windows_of_other_families_are_charged_as_whole_sequences(ask_fit: Ask) -> None:
    question = {"model": "gemma-3-27b-it", "gpu": "h100-sxm-80gb", "context_tokens": 32768}
    assert ask_fit(**question, engine="sglang")["kv_bytes_per_token"] == 62 * 16 * 2 * 128 * 2
    assert ask_fit(**question, engine="vllm")["kv_bytes_per_token"] == 10 * 16 * 2 * 128 * 2


def test_states_take_nine_parts_of_nineteen_of_the_cache(ask_fit: Ask) -> None:
    found = parts(ask_fit(**HYBRID, context_tokens=8192))
    states, tokens = found["reserve.state"], found["kv_cache"]
    assert states / (states + tokens) == pytest.approx(0.9 / 1.9, rel=2e-3)


def test_a_running_sequence_takes_three_states_where_prefixes_are_cached(ask_fit: Ask) -> None:
    cached = ask_fit(**HYBRID, context_tokens=8192)
    alone = ask_fit(**HYBRID, context_tokens=8192, prefix_caching=False)
    said = re.search(r"at most ([\d,]+) sequences run at once", "\n".join(alone["assumptions"]))
    assert said is not None
    assert cached["max_running_sequences"] * 3 <= int(said[1].replace(",", "")) < 3 * 218 + 3
    assert alone["question"]["max_sequences_limit"] is None
    assert cached["binding"]["constraint"] == "sequence_limit"


def test_a_drafter_takes_tokens_and_weights(ask_fit: Ask) -> None:
    question = {"model": "deepseek-v3", "engine": "sglang", "gpu": "h200-sxm-141gb", "tensor_parallel": 8}
    alone = ask_fit(**question, context_tokens=4096, memory_utilization=0.9)
    drafted = ask_fit(**question, context_tokens=4096, memory_utilization=0.9, speculative_method="nextn")
    more = parts(drafted)["weights"] - parts(alone)["weights"]
    assert more > 10**9
    assert drafted["kv_capacity_tokens"] == pytest.approx(
        (alone["kv_capacity_tokens"] * 61 * 1152 - more) / (62 * 1152), rel=1e-4
    )


@pytest.mark.parametrize(
    "question",
    [
        H100,
        HYBRID | {"context_tokens": 8192},
        H100 | {"gpu": "l4", "memory_used_by_others_bytes": 2**30},
        {"model": "gpt-oss-20b", "gpu": "h100-sxm-80gb", "engine": "sglang", "context_tokens": 65536},
    ],
)
def test_every_lever_gives_what_it_says(question: dict[str, Any]) -> None:
    answer = ask(question)
    assert answer is not None
    assert len(answer["levers"]) > 1
    check_levers(question, answer)


def test_what_does_not_fit_says_the_longest_that_would(ask_fit: Ask) -> None:
    question = H100 | {"gpu": "rtx-5090", "context_tokens": 131072}
    answer = ask_fit(**question)
    longest = answer["shortage"]["max_context_tokens"]
    assert answer["fits"] is False
    assert ask_fit(**question | {"context_tokens": longest})["fits"] is True
    assert ask_fit(**question | {"context_tokens": longest + 1})["fits"] is False


@pytest.mark.parametrize("model", ["gemma-3n-e2b-it", "gemma-4-e2b-it"])
def test_a_stage_without_a_cache_of_its_own_is_not_the_limit(ask_fit: Ask, model: str) -> None:
    answer = ask_fit(model=model, gpu="h100-sxm-80gb", engine="sglang", context_tokens=4096, pipeline_parallel=3)
    assert 0 < answer["kv_capacity_tokens"] < 10**9
    assert answer["max_sequences"] == answer["kv_capacity_tokens"] // 4096


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"engine_version": "0.4.99"}, "/engine_version"),
        ({"attention_data_parallel": 3, "tensor_parallel": 4}, "/attention_data_parallel"),
        ({"speculative_tokens": 3}, "/speculative_tokens"),
        ({"speculative_method": "nextn"}, "/speculative_method"),
        ({"attention_backend": "flashmla", "block_tokens": 16}, "/block_tokens"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_field(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**H100 | changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"attention_backend": "flash_attn"}, "/attention_backend"),
        ({"kv_dtype": "q8_0"}, "/kv_dtype"),
        ({"speculative_method": "medusa"}, "/speculative_method"),
        ({"gpu_layers": 3}, "/gpu_layers"),
        ({"shared_prefix_tokens": 3}, "/shared_prefix_tokens"),
        ({"sampler_backend": "triton"}, "/sampler_backend"),
        ({"model": "deepseek-v4-flash", "kv_dtype": "bf16"}, "/kv_dtype"),
        ({"model": "mamba-2.8b"}, "/engine"),
    ],
)
def test_what_it_has_not_is_refused_by_name(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(**H100 | changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


def test_a_release_between_two_that_were_read_says_so(ask_fit: Ask) -> None:
    answer = ask_fit(**H100, engine_version="0.5.15.post1")
    assert any("lies between 0.5.15 and 0.5.16" in line for line in answer["assumptions"])


def test_traffic_asks_the_same_engine(ask_traffic: Ask, ask_fit: Ask) -> None:
    answer = ask_traffic(**H100)
    assert answer["batch_size"] == ask_fit(**H100)["max_running_sequences"]
    assert answer["engine"]["name"] == "sglang"
    assert answer["step"]["seconds"] > 0


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            [
                "llama-3.1-8b-instruct",
                "mixtral-8x7b-v0.1",
                "gpt-oss-20b",
                "deepseek-v2-lite",
                "nemotron-h-8b-base-8k",
                "gemma-3-4b-it",
                "gemma-4-e4b-it",
            ]
        ),
        "gpu": st.sampled_from(["h100-sxm-80gb", "a100-sxm-80gb", "l4", "b200-sxm-180gb", "mi300x"]),
        "engine": st.just("sglang"),
        "context_tokens": st.integers(1, 1 << 17),
    },
    optional={
        "engine_version": st.sampled_from(["0.4.6.post5", "0.4.10.post2", "0.5.5.post3", "0.5.13", "0.5.23"]),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "attention_data_parallel": st.sampled_from([1, 2, 4]),
        "pipeline_parallel": st.integers(1, 3),
        "data_parallel": st.integers(1, 3),
        "memory_utilization": st.floats(0.05, 1.0),
        "memory_used_by_others_bytes": st.integers(0, 1 << 36),
        "kv_cache_bytes": st.integers(0, 1 << 37),
        "reserve_bytes": st.integers(0, 1 << 36),
        "weight_dtype": st.sampled_from(["fp16", "fp8", "awq", "int8"]),
        "kv_dtype": st.sampled_from(["fp16", "fp8"]),
        "batch_size": st.integers(1, 2000),
        "max_sequences_limit": st.integers(1, 512),
        "max_batched_tokens": st.integers(512, 16384),
        "block_tokens": st.sampled_from([1, 16, 64]),
        "prefix_caching": st.booleans(),
        "enforce_eager": st.booleans(),
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
    fixed = {"memory_utilization": 0.87, "max_sequences_limit": 256} | question
    answer, larger = (ask(fixed | {"memory_bytes": (1 << 35) + extra}) for extra in (0, more))
    if answer and larger:
        assert larger["max_sequences"] >= answer["max_sequences"]


@pytest.mark.parametrize(
    "device", [{"gpu": "rtx-4090", "max_batched_tokens": 262_144}, {"memory_bytes": 1_000_000_000}]
)
def test_no_share_of_memory_at_all_is_said_and_can_be_asked_again(ask_fit: Ask, device: dict[str, Any]) -> None:
    """A share of 0 would be refused: `memory_utilization` is above 0."""
    asked = {"model": "llama-3.1-8b-instruct", "engine": "sglang", "context_tokens": 4096, **device}
    answer = ask_fit(**asked)

    assert answer["question"]["memory_utilization"] is None
    assert any("leaves no share for weights and caches" in warning for warning in answer["warnings"])
    given = ask_fit(**asked, memory_utilization=0.9)
    assert not any("leaves no share" in warning for warning in given["warnings"])
    check_again(ask_fit, **asked)
