"""How prompts are read: in the chunks that the engine starts with, and never quicker where there is more to read."""

from typing import Any

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

from service.domain.errors import QuoteError
from tests.domain.conftest import CATALOG, Ask

LLAMA = {"model": "llama-3.1-8b-instruct", "context_tokens": 32_768}
MODELS = sorted(path.stem for path in (CATALOG / "models").glob("*.yaml"))
HEADS = ["gemma-3-270m-it", "qwen3.5-0.8b", "smollm2-135m-instruct", "step-3.7-flash"]
"""Models whose output matrix is much of what they multiply."""
GPUS = sorted(path.stem for path in (CATALOG / "gpus").glob("*.yaml"))
ENGINES = ["none", "vllm", "sglang", "tensorrt-llm", "llama.cpp"]
FEW = {"model": HEADS[1], "gpu": "a800-pcie-80gb-mig-1g-20gb", "engine": "sglang"}
READ = {"model": "sarvam-105b", "gpu": "gb300-288gb-mig-4g-139gb", "engine": "llama.cpp", "gpu_count": 8}
SHORT = {"model": HEADS[0], "gpu": "rtx-4090", "engine": "llama.cpp", "gpu_count": 4, "max_batched_tokens": 16}
QUESTIONS = st.fixed_dictionaries(
    {"model": st.sampled_from(MODELS) | st.sampled_from(HEADS), "gpu": st.sampled_from(GPUS)},
    optional={"gpu_count": st.sampled_from([2, 4, 8])},
)
PROMPTS = st.tuples(st.integers(1, 9000) | st.integers(1, 16), st.sampled_from([1, 2, 3, 10, 64]))
"""Tokens of a prompt, and how many there are."""


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


@pytest.mark.parametrize("engine", ENGINES)
@given(question=QUESTIONS, fewer=PROMPTS, more=PROMPTS)
@example(question=FEW, fewer=(1, 1), more=(2, 1)).via("a head that works for the last position alone")
@example(question=READ, fewer=(513, 1), more=(2048, 1)).via("chunks that take long to read, over several cards")
@example(question=SHORT, fewer=(2, 10), more=(3, 10)).via("many short prompts over several cards")
def test_more_prompts_or_longer_ones_are_never_quicker(
    ask_traffic: Ask, engine: str, question: dict[str, Any], fewer: tuple[int, int], more: tuple[int, int]
) -> None:
    least, most = ([pick(each) for each in zip(fewer, more, strict=True)] for pick in (min, max))
    asked = {"engine": engine, "context_tokens": 512, "batch_size": 1} | question
    try:
        quick, slow = (
            ask_traffic(**asked, prompt_tokens=tokens, prefill_sequences=count)["prefill"]["seconds"]
            for tokens, count in (least, most)
        )
    except QuoteError:
        reject()
    # Sums of the same terms may differ in their last places.
    assert quick is None or quick <= slow * (1 + 1e-12)
