"""What must always hold (the contract, section 4.2), over questions that hypothesis makes up."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import QuoteError
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Shelf

SHELF = Shelf()
MODELS = ("llama-2-7b", "llama-2-70b", "mistral-7b-v0.1", "mixtral-8x7b-v0.1", "gemma-2-9b", "qwen3-30b-a3b")
TOKENS = st.integers(1, 1 << 20)
BYTES = st.integers(0, 1 << 39)
MOST_RANKS = 64
QUESTIONS = st.fixed_dictionaries(
    {"model": st.sampled_from(MODELS), "memory_bytes": st.integers(1, 1 << 39), "context_tokens": TOKENS},
    optional={
        "tensor_parallel": st.sampled_from([1, 2, 4, 8, 16]),
        "pipeline_parallel": st.integers(1, 8),
        "data_parallel": st.integers(1, 8),
        "weight_dtype": st.sampled_from(["fp32", "fp16", "fp8", "int8", "int4", "awq", "nvfp4"]),
        "kv_dtype": st.sampled_from(["fp16", "fp8", "int8", "int4", "nvfp4", "q8_0"]),
        "reserve_bytes": BYTES,
        "memory_used_by_others_bytes": BYTES,
        "memory_utilization": st.floats(0.01, 1.0),
        "kv_cache_bytes": BYTES,
        "parameters": st.integers(1, 1 << 40),
        "weight_bytes": BYTES.filter(bool),
        "batch_size": st.integers(1, 10_000),
        "shared_prefix_tokens": st.integers(0, 4096),
    },
)


def ask(question: dict[str, Any]) -> dict[str, Any] | None:
    """The answer, or None where the question contradicts itself."""
    try:
        return fit(resolve(question, SHELF), SHELF)
    except QuoteError:
        return None


@given(QUESTIONS)
def test_the_ledger_closes_to_the_byte(question: dict[str, Any]) -> None:
    if answer := ask(question):
        ledger = answer["ledger"]
        sizes = [part["bytes"] for part in ledger["parts"]]
        assert all(isinstance(size, int) and size >= 0 for size in sizes)
        assert sum(sizes) == ledger["memory_bytes"] + ledger["overcommitted_bytes"]
        assert not (ledger["overcommitted_bytes"] and answer["fits"])


@given(QUESTIONS)
def test_the_ceiling_is_what_the_pool_holds(question: dict[str, Any]) -> None:
    answer = ask(question)
    if answer and not answer["ledger"]["overcommitted_bytes"] and not question.get("shared_prefix_tokens"):
        pool = next(part["bytes"] for part in answer["ledger"]["parts"] if part["name"] == "kv_cache")
        own = answer["rank"]["kv_bytes_per_sequence"]
        assert answer["max_sequences_per_replica"] == pool // own
        assert answer["max_sequences"] == answer["max_sequences_per_replica"] * question.get("data_parallel", 1)
        assert answer["fits"] == (
            answer["max_sequences_per_replica"] >= -(-question.get("batch_size", 1) // question.get("data_parallel", 1))
            and pool >= own
        )


@given(QUESTIONS, st.integers(1, 1 << 16))
def test_more_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    answer = ask(question)
    longer = ask(question | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@given(QUESTIONS, st.integers(1, 1 << 38))
def test_more_memory_never_gives_fewer_sequences(question: dict[str, Any], more: int) -> None:
    answer = ask(question)
    larger = ask(question | {"memory_bytes": question["memory_bytes"] + more})
    if answer and larger:
        assert larger["max_sequences"] >= answer["max_sequences"]


@given(QUESTIONS)
def test_a_narrower_cache_never_holds_fewer_tokens(question: dict[str, Any]) -> None:
    wide, narrow = ask(question | {"kv_dtype": "fp16"}), ask(question | {"kv_dtype": "int8"})
    if wide and narrow:
        assert narrow["kv_capacity_tokens"] >= wide["kv_capacity_tokens"]


@given(QUESTIONS)
def test_the_longest_context_fits_and_one_token_more_does_not(question: dict[str, Any]) -> None:
    answer = ask(question)
    longest = answer and answer["max_context_tokens"]
    if longest and longest > question.get("shared_prefix_tokens", 0):
        at, past = (ask(question | {"context_tokens": n, "batch_size": 1}) for n in (longest, longest + 1))
        assert at
        assert at["fits"] is True
        assert past
        assert past["fits"] is False


@given(QUESTIONS, st.none() | st.integers(0, 1 << 18))
def test_the_nearest_change_comes_true_and_no_fewer_ranks_would_do(
    question: dict[str, Any], longer: int | None
) -> None:
    if longer is not None:
        question |= {"context_limit_tokens": question["context_tokens"] + longer}
    answer = ask(question)
    if answer is None or answer["fits"]:
        return
    change = answer["shortage"]["nearest_change"]
    assert change is None or fits(question | change)
    asked = question.get("tensor_parallel", 1)
    if change is None or "tensor_parallel" in change:
        most = MOST_RANKS if change is None else change["tensor_parallel"] // 2
        fewer = [asked << n for n in range(1, 8) if asked << n <= most]
        assert not any(fits(question | {"tensor_parallel": tensor}) for tensor in fewer)


def fits(question: dict[str, Any]) -> bool:
    answer = ask(question)
    return answer is not None and bool(answer["fits"])


@given(QUESTIONS)
def test_nothing_is_negative_and_every_number_is_finite(question: dict[str, Any]) -> None:
    if answer := ask(question):
        for value in numbers(answer):
            assert 0 <= value < float("inf")


def numbers(value: Any) -> list[float]:  # noqa: ANN401  # any JSON
    if isinstance(value, dict):
        return [n for inner in value.values() for n in numbers(inner)]
    if isinstance(value, list):
        return [n for inner in value for n in numbers(inner)]
    return [value] if isinstance(value, int | float) and not isinstance(value, bool) else []


def test_the_same_question_gives_the_same_answer() -> None:
    question = {"model": "mixtral-8x7b-v0.1", "memory_bytes": 1 << 37, "tensor_parallel": 2}
    assert ask(question) == ask(question)


@pytest.mark.parametrize("model", MODELS)
def test_ranks_add_up_to_the_whole_and_what_is_replicated(model: str) -> None:
    one, two = (ask({"model": model, "memory_bytes": 1 << 40, "tensor_parallel": n}) for n in (1, 2))
    assert one
    assert two
    held = 2 * next(part["bytes"] for part in two["ledger"]["parts"] if part["name"] == "weights")
    assert one["weight_bytes"] <= held < one["weight_bytes"] * 1.01
