"""DeepSeek-V4 served by SGLang: answers that agree with themselves, in memory and in time."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.question import resolve
from service.domain.traffic_quote import traffic
from tests.domain.agreement import SHELF, ask, check_agrees, check_levers
from tests.domain.conftest import Ask

B200 = {"gpu": "b200-sxm-180gb", "tensor_parallel": 8, "engine": "sglang"}
MODELS = ("deepseek-v4-flash", "deepseek-v4-flash-0731", "deepseek-v4-pro")
RELEASES = ["0.5.12", "0.5.13.post1", "0.5.15", "0.5.18", "0.5.20", "0.5.21", "0.5.23"]
QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(["b200-sxm-180gb", "b300-sxm-288gb", "h200-sxm-141gb", "h20-141gb", "gh200-96gb"]),
        "engine": st.just("sglang"),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "context_tokens": st.integers(1, 1 << 20),
    },
    optional={
        "engine_version": st.sampled_from(RELEASES),
        "pipeline_parallel": st.integers(1, 3),
        "data_parallel": st.sampled_from([1, 2, 8]),
        "attention_data_parallel": st.sampled_from([1, 2, 8]),
        "expert_parallel": st.booleans(),
        "memory_utilization": st.floats(0.5, 1.0),
        "kv_cache_bytes": st.integers(0, 1 << 37),
        "kv_dtype": st.sampled_from(["auto", "fp8", "fp8_ds_mla"]),
        "batch_size": st.integers(1, 200),
        "max_batched_tokens": st.integers(512, 16384),
        "max_sequences_limit": st.integers(1, 512),
        "enforce_eager": st.booleans(),
        "prefix_caching": st.booleans(),
        "speculative_method": st.just("nextn"),
    },
)


@given(QUESTIONS)
def test_the_ledger_closes_and_levers_come_true(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_agrees(answer)
        check_levers(question, answer)


@given(QUESTIONS)
def test_a_step_is_the_sum_of_its_parts(question: dict[str, Any]) -> None:
    if ask(question) is None:
        return
    answer = traffic(resolve(question, SHELF), SHELF)
    if (step := answer["step"]) is not None:
        assert sum(step["shares"].values()) == pytest.approx(1)


@given(QUESTIONS, st.integers(1, 1 << 18))
def test_a_longer_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    fixed = question | {"context_limit_tokens": 2 << 20}
    answer, longer = ask(fixed), ask(fixed | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@given(QUESTIONS)
def test_what_one_more_sequence_needs_is_enough(question: dict[str, Any]) -> None:
    size = question.get("kv_cache_bytes", 1 << 36)
    fixed = {"max_batched_tokens": 8192} | question | {"data_parallel": 1, "pipeline_parallel": 1}
    answer = ask(fixed | {"kv_cache_bytes": size})
    if answer is None or answer["ledger"]["overcommitted_bytes"]:
        return
    added = answer["binding"]["to_gain_one_sequence_bytes"]
    more = ask(fixed | {"kv_cache_bytes": size + added, "memory_bytes": 10**15})
    assert more is not None
    assert more["max_sequences"] > answer["max_sequences"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("version", RELEASES)
def test_every_release_with_such_models_quotes_them(ask_fit: Ask, ask_traffic: Ask, model: str, version: str) -> None:
    question = B200 | {"model": model, "engine_version": version, "context_tokens": 65536}
    answer = ask_fit(**question)
    assert answer["fits"]
    assert answer["question"]["kv_dtype"] == "fp8_ds_mla_compressed"
    assert (answer["groups"], answer["block_tokens"]) == (3, 256)
    assert ask_traffic(**question)["fits"]


@pytest.mark.parametrize("kv_dtype", ["auto", "fp8", "fp8_e4m3", "fp8_ds_mla", "fp8_ds_mla_compressed"])
def test_a_row_of_the_cache_is_the_one_that_the_kernel_keeps(ask_fit: Ask, kv_dtype: str) -> None:
    """584 bytes of a vector for each of 43 windows, 21 fours and 20 times 128 tokens, and 132 of a key."""
    terms = ask_fit(**B200, model="deepseek-v4-flash", kv_dtype=kv_dtype)["cache"]
    rates = [(term["kind"], term["bytes_per_token"]) for term in terms if term["bytes_per_token"]]
    assert rates == [("sliding", 43 * 584), ("latent", 92), ("latent", 21 * 584 // 4), ("indexer", 21 * 132 // 4)]
