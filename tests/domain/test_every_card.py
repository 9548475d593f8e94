"""Every card of the catalog under every engine: a step and a prefill that its memory and units could do, or none."""

from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import QuoteError
from service.domain.question import resolve
from service.domain.traffic_quote import traffic
from tests.domain.conftest import CATALOG, Ask, Shelf
from tests.domain.test_invariants import numbers

CARDS = sorted(path.stem for path in (CATALOG / "gpus").glob("*.yaml") if "-mig-" not in path.stem)
ENGINES = ("none", "vllm", "sglang", "tensorrt-llm", "llama.cpp")
FORMATS = ("bf16", "fp16", "fp8", "nvfp4", "awq", "q4_k_m")
SHELF = Shelf()


@pytest.mark.parametrize("engine", ENGINES)
def test_no_card_is_faster_than_its_memory_or_its_units(ask_traffic: Ask, engine: str) -> None:
    question = {"model": "llama-3.1-8b-instruct", "engine": engine, "memory_bytes": 1 << 40, "context_tokens": 4096}
    answers = [answered(ask_traffic, **question, gpu=gpu, weight_dtype=d) for gpu, d in product(CARDS, FORMATS)]
    timed = [answer for answer in answers if answer is not None and answer["step"] is not None]
    assert len(timed) > len(CARDS)
    for answer in timed:
        asked, prefill = answer["question"], answer["prefill"]
        least = answer["total_traffic_bytes"] / asked["bandwidth_bytes_per_second"]
        low, high = answer["step"]["interval_seconds"]
        assert least < answer["step"]["seconds"] < 20 * least
        assert 0 < low < answer["step"]["seconds"] < high
        rate = prefill["flops"] / prefill["seconds"] / asked["peak_flops_per_second"]
        assert 0.03 < rate < 0.95


def answered(ask: Ask, **asked: Any) -> dict[str, Any] | None:  # noqa: ANN401  # as questions are
    try:
        return ask(batch_size=1, **asked)
    except QuoteError:
        return None


CARELESS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-3.1-8b-instruct", "deepseek-v3", "gemma-2-9b", "qwen3-30b-a3b"]),
        "gpu": st.sampled_from(["h100-sxm-80gb", "l40s", "mi300x", "gb10-dgx-spark", "tpu-v5e"]),
        "engine": st.sampled_from(["vllm", "sglang", "tensorrt-llm"]),
        "memory_bytes": st.just(1 << 45),
        "context_tokens": st.integers(1, 1 << 31),
        "batch_size": st.integers(1, 1 << 24),
    },
    optional={
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "pipeline_parallel": st.integers(1, 4),
        "data_parallel": st.integers(1, 4),
        "attention_data_parallel": st.sampled_from([1, 2, 8]),
        "expert_parallel": st.booleans(),
        "speculative_method": st.sampled_from(["mtp", "eagle", "eagle3", "ngram"]),
        "speculative_tokens": st.integers(1, 1024),
        "prompt_tokens": st.integers(1, 1 << 31),
        "prefill_sequences": st.integers(1, 1 << 24),
        "max_batched_tokens": st.integers(1, 1 << 31),
    },
)


@given(CARELESS)
def test_whatever_is_asked_is_refused_or_told_in_finite_numbers(question: dict[str, Any]) -> None:
    try:
        answer = traffic(resolve(question, SHELF), SHELF)
    except QuoteError:
        return
    assert all(0 <= value < float("inf") for value in numbers(answer))
    step = answer["step"]
    assert sum(step["shares"].values()) == pytest.approx(1)
    assert sum(row["bytes"] for row in answer["by_kind"]) == answer["cache_traffic_bytes"]
    assert answer["prefill"]["mixed_step_seconds"] >= step["seconds"]
    low, high = step["interval_seconds"]
    assert 0 < low < step["seconds"] < high
