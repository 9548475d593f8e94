"""`max_context_tokens` comes true when it is asked, also where an engine keeps more for itself for longer sequences."""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.engines.lengths import lasting
from tests.domain.agreement import ask
from tests.domain.test_asking_again import MODELS

FOLLOW: dict[str, dict[str, Any]] = {
    "a gather buffer of compressed attention": {"model": "deepseek-v4-flash", "gpu": "h200-sxm-141gb", "gpu_count": 4},
    "a gather buffer of latent attention": {"model": "minicpm3-4b", "gpu": "rtx-4090-laptop", "block_tokens": 128},
    "the largest film": {"model": "qwen2.5-vl-7b-instruct", "gpu": "l4"},
    "whole prompts": {"model": "llama-3.1-8b-instruct", "gpu": "rtx-4090", "engine_version": "0.6.3"},
    "a workspace": {
        "engine": "sglang",
        "model": "falcon-7b",
        "gpu": "mi308x",
        "pipeline_parallel": 2,
        "memory_utilization": 0.9,
    },
}


def check_longest(question: dict[str, Any]) -> None:
    answer = ask(question)
    longest = answer and answer["max_context_tokens"]
    if not longest:
        return
    at, past = (ask({**question, "context_tokens": tokens}) for tokens in (longest, longest + 1))
    assert at is not None
    assert at["fits"] is True
    assert at["max_context_tokens"] == longest
    assert past is not None
    assert past["fits"] is False


@pytest.mark.parametrize("what", FOLLOW)
@pytest.mark.parametrize("context_tokens", [1024, 4096, 131_072, 1 << 24])
def test_the_longest_context_is_held_by_an_engine_that_is_started_for_it(what: str, context_tokens: int) -> None:
    check_longest({"engine": "vllm", **FOLLOW[what], "context_tokens": context_tokens})


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {
            "engine": st.sampled_from(["vllm", "vllm", "sglang", "tensorrt-llm", "llama.cpp"]),
            "model": st.sampled_from(MODELS),
            "gpu": st.sampled_from(["h200-sxm-141gb", "rtx-4090", "l4", "mi300x"]),
            "context_tokens": st.sampled_from([1024, 4096, 32_768, 131_072]),
        },
        optional={"reserve_bytes": st.just(1 << 30), "memory_used_by_others_bytes": st.just(10**9)},
    )
)
def test_so_it_is_for_every_engine(question: dict[str, Any]) -> None:
    check_longest(question)


def test_what_the_engine_estimates_is_for_the_length_that_was_asked() -> None:
    """vLLM's refusal prints what it would hold with the buffers of the length that it was started for."""
    answer = ask({"engine": "vllm", **FOLLOW["a gather buffer of compressed attention"], "context_tokens": 1 << 25})
    assert answer is not None
    assert 0 < answer["shortage"]["max_context_tokens"] < answer["max_context_tokens"]


@given(st.integers(0, 10**7), st.fractions(0, 2), st.integers(1, 4096), st.integers(1, 10**7))
def test_the_length_that_lasts_is_found_wherever_the_search_starts(
    room: int, share: Fraction, block: int, start: int
) -> None:
    def reach(tokens: int) -> int:
        return max(0, int(room - share * tokens)) // block * block

    found = lasting(start, reach(start), reach)

    assert found == 0 or reach(found) >= found
    assert reach(found + 1) < found + 1
