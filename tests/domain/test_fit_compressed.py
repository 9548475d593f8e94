"""DeepSeek-V4 served by vLLM: answers that agree with themselves, in memory and in time."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.question import resolve
from service.domain.traffic_quote import traffic
from tests.domain.agreement import SHELF, ask, check_agrees, check_levers
from tests.domain.conftest import Ask

B200 = {"gpu": "b200-sxm-180gb", "tensor_parallel": 8, "engine": "vllm"}
MODELS = ("deepseek-v4-flash", "deepseek-v4-flash-0731", "deepseek-v4-pro")
QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(MODELS),
        "gpu": st.sampled_from(["b200-sxm-180gb", "b300-sxm-288gb", "h200-sxm-141gb", "h20-141gb", "gh200-96gb"]),
        "engine": st.just("vllm"),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "context_tokens": st.integers(1, 1 << 20),
    },
    optional={
        "engine_version": st.sampled_from(["0.20.0", "0.20.2", "0.22.1", "0.25.1", "0.26.0", "0.28.0", "0.33.0"]),
        "pipeline_parallel": st.integers(1, 3),
        "data_parallel": st.sampled_from([1, 2, 8]),
        "expert_parallel": st.booleans(),
        "memory_utilization": st.floats(0.5, 1.0),
        "kv_cache_bytes": st.integers(0, 1 << 37),
        "kv_dtype": st.sampled_from(["auto", "fp8", "fp8_ds_mla"]),
        "batch_size": st.integers(1, 200),
        "max_batched_tokens": st.integers(512, 16384),
        "max_sequences_limit": st.integers(1, 512),
        "enforce_eager": st.booleans(),
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
        assert step["seconds"] * (1 - step["shares"]["overhead"] - step["shares"]["communication"]) == pytest.approx(
            max(step["memory_seconds"], step["compute_seconds"]), rel=0.5
        )


@given(QUESTIONS, st.integers(1, 1 << 18))
def test_a_longer_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    fixed = {"max_sequences_limit": 256, "max_batched_tokens": 8192} | question
    fixed["context_limit_tokens"] = 2 << 20
    answer, longer = ask(fixed), ask(fixed | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("version", ["0.20.0", "0.26.0", "0.33.0"])
def test_every_release_with_such_models_quotes_them(ask_fit: Ask, ask_traffic: Ask, model: str, version: str) -> None:
    question = B200 | {"model": model, "engine_version": version, "context_tokens": 65536}
    answer = ask_fit(**question)
    assert answer["fits"]
    assert answer["question"]["kv_dtype"] == "fp8_ds_mla_compressed"
    assert (answer["groups"], answer["block_tokens"]) == (5, 256)
    assert answer["max_sequences"] <= math.floor(answer["max_concurrency"])
    assert ask_traffic(**question)["fits"]


@pytest.mark.parametrize("kv_dtype", ["auto", "fp8", "fp8_e4m3", "fp8_ds_mla", "fp8_ds_mla_compressed"])
def test_a_row_of_the_cache_is_the_one_that_the_kernel_keeps(ask_fit: Ask, kv_dtype: str) -> None:
    """584 bytes of a vector for each of 43 windows, 21 fours and 20 times 128 tokens, and 132 of a key."""
    terms = ask_fit(**B200, model="deepseek-v4-flash", kv_dtype=kv_dtype)["cache"]
    rates = [(term["kind"], term["bytes_per_token"]) for term in terms if term["bytes_per_token"]]
    assert rates == [
        ("sliding", 43 * 584),
        ("latent", math.ceil(20 * 584 / 128)),
        ("latent", 21 * 584 // 4),
        ("indexer", 21 * 132 // 4),
    ]


@pytest.mark.parametrize(
    "version, kv_dtype, warned",
    [("0.20.0", "auto", True), ("0.29.0", "auto", True), ("0.29.0", "fp8", False), ("0.30.0", "auto", False)],
)
def test_a_start_without_the_type_that_it_has_to_say_is_told(
    ask_fit: Ask, version: str, kv_dtype: str, warned: bool
) -> None:
    question = B200 | {"model": "deepseek-v4-flash", "context_tokens": 65536, "engine_version": version}
    warnings = ask_fit(**question, kv_dtype=kv_dtype)["warnings"]
    assert any("with --kv-cache-dtype fp8 alone" in warning for warning in warnings) == warned
    assert not any("kv-cache-dtype" in each for each in ask_fit(**question | {"model": "deepseek-v3"})["warnings"])


def test_only_the_engine_that_keeps_it_so_takes_eight_bits_for_its_own_rows(ask_fit: Ask) -> None:
    question = {"model": "deepseek-v4-flash", "gpu": "b200-sxm-180gb", "tensor_parallel": 8, "kv_dtype": "fp8"}
    plain = ask_fit(**question)
    assert next(term for term in plain["cache"] if term["kind"] == "sliding")["bytes_per_token"] == 43 * 512
    assert "cache in fp8_ds_mla_compressed" in " ".join(ask_fit(**question, engine="vllm")["assumptions"])
    other = ask_fit(model="deepseek-v3.2", gpu="b200-sxm-180gb", tensor_parallel=8, kv_dtype="fp8", engine="vllm")
    assert "cache in fp8" in " ".join(other["assumptions"])


def test_the_derivation_tells_blocks_that_are_printed_from_blocks_that_are_held(ask_fit: Ask) -> None:
    question = B200 | {"model": "deepseek-v4-flash", "context_tokens": 65536}
    older, newer = (ask_fit(**question, engine_version=version)["derivation"] for version in ("0.25.1", "0.33.0"))
    assert any("printed by the bytes that each of its" in line for line in older)
    assert not any("printed by the bytes" in line for line in newer)
