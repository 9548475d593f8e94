"""Every engine's interval has what is answered in it, also where a larger cache holds fewer tokens."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.domain.agreement import ask, check_interval

HYBRIDS = ("nemotron-h-56b-base-8k", "falcon-h1-7b-instruct", "qwen3-next-80b-a3b-instruct")
ONE_SLOT_MORE: list[dict[str, Any]] = [
    {"model": "nemotron-h-56b-base-8k", "gpu": "h200-sxm-141gb", "context_tokens": 4096},
    {
        "model": "falcon-h1-7b-instruct",
        "gpu": "a800-sxm-80gb-mig-2g-20gb",
        "max_sequences_limit": 256,
        "max_batched_tokens": 2048,
    },
]
QUESTIONS = st.fixed_dictionaries(
    {
        "engine": st.sampled_from(["sglang", "vllm", "tensorrt-llm", "llama.cpp", "none"]),
        "model": st.sampled_from([*HYBRIDS, "llama-3.1-8b-instruct", "gpt-oss-20b"]),
        "memory_bytes": st.integers(1 << 33, 1 << 38),
        "context_tokens": st.integers(1, 1 << 16),
    },
    optional={
        "kv_cache_bytes": st.integers(1 << 20, 1 << 37),
        "reserve_bytes": st.integers(0, 1 << 34),
        "memory_used_by_others_bytes": st.integers(0, 1 << 34),
        "tensor_parallel": st.sampled_from([1, 2, 4]),
    },
)


@pytest.mark.parametrize("question", ONE_SLOT_MORE)
def test_a_slot_more_for_states_does_not_put_the_answer_outside(question: dict[str, Any]) -> None:
    answer = ask({"engine": "sglang", **question})
    assert answer is not None
    check_interval(answer)


@settings(max_examples=60)
@given(st.sampled_from(HYBRIDS), st.integers(1 << 33, 1 << 38), st.integers(1, 1 << 16))
def test_no_hybrid_of_sglang_is_outside_its_interval(model: str, memory_bytes: int, context_tokens: int) -> None:
    if answer := ask(
        {"engine": "sglang", "model": model, "memory_bytes": memory_bytes, "context_tokens": context_tokens}
    ):
        check_interval(answer)


@given(QUESTIONS)
def test_no_engine_answers_outside_its_interval(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_interval(answer)
