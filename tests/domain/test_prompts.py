"""How prompts are read: in the chunks that the engine starts with."""

import pytest

from tests.domain.conftest import Ask

LLAMA = {"model": "llama-3.1-8b-instruct", "context_tokens": 32_768}


@pytest.mark.parametrize(
    "engine,gpu,tokens",
    [
        ("vllm", "rtx-4090", 2048),
        ("vllm", "h100-sxm-80gb", 8192),
        ("sglang", "rtx-4090", 4096),
        ("sglang", "b200-sxm-180gb", 16_384),
        ("tensorrt-llm", "l40s", 8192),
        ("llama.cpp", "rtx-4090", 512),
    ],
)
def test_chunks_are_those_that_the_engine_starts_with(ask_traffic: Ask, engine: str, gpu: str, tokens: int) -> None:
    """As the answered question repeats them, so that it can be asked again."""
    question = LLAMA | {"engine": engine, "gpu": gpu}
    own, asked = ask_traffic(**question), ask_traffic(**question, max_batched_tokens=tokens)

    assert own["question"]["max_batched_tokens"] == own["prefill"]["chunk_tokens"] == tokens
    assert own["prefill"] == asked["prefill"]


def test_a_chunk_of_2048_tokens_holds_a_step_up_for_a_quarter_of_one_of_8192(ask_traffic: Ask) -> None:
    question = LLAMA | {"engine": "vllm", "gpu": "rtx-4090", "batch_size": 1}
    own, wider = ask_traffic(**question), ask_traffic(**question, max_batched_tokens=8192)
    waits = [each["prefill"]["mixed_step_seconds"] - each["step"]["seconds"] for each in (own, wider)]

    assert waits[1] / waits[0] == pytest.approx(4, rel=0.1)
    assert own["prefill"]["seconds"] > wider["prefill"]["seconds"]


def test_prompts_of_no_engine_are_read_whole(ask_traffic: Ask) -> None:
    answer = ask_traffic(**LLAMA, gpu="rtx-4090", prefill_sequences=2)

    assert answer["question"]["max_batched_tokens"] is None
    assert answer["prefill"]["chunk_tokens"] == 2 * 32_768
