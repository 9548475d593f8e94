"""The question that `/fit` repeats, asked again: what was filled in says nothing new, so the answer is the same.

Times are another matter: rows of coefficients for some releases hold only where a question names one.
"""

from typing import Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from service.domain.errors import QuoteError
from tests.domain.conftest import CATALOG, Ask

OVERRIDES = frozenset({"reserve_bytes", "kv_cache_bytes", "weight_bytes", "parameters"})
"""Names that replace what is worked out for an answer, and with it the parts of the ledger that it was made of."""
MODELS = sorted(path.stem for path in (CATALOG / "models").glob("*.yaml"))
HYBRIDS = ["granite-4.0-h-tiny", "qwen3.5-9b", "nvidia-nemotron-nano-9b-v2", "lfm2-1.2b"]
GPUS = ["h100-sxm-80gb", "h200-sxm-141gb", "a100-sxm-80gb", "rtx-4090", "l4", "t4", "mi300x"]
FLAG = st.booleans()
ALL = {
    "context_limit_tokens": st.sampled_from([8192, 32_768]),
    "batch_size": st.sampled_from([1, 64]),
    "memory_basis": st.sampled_from(["visible", "advertised"]),
    "memory_used_by_others_bytes": st.sampled_from([0, 10**9]),
}
SERVERS = {
    "tensor_parallel": st.sampled_from([2, 4, 8]),
    "pipeline_parallel": st.sampled_from([2]),
    "data_parallel": st.sampled_from([2]),
    "memory_utilization": st.sampled_from([0.5, 0.85]),
    "max_batched_tokens": st.sampled_from([1024, 16_384]),
    "max_sequences_limit": st.sampled_from([16, 512]),
    "enforce_eager": FLAG,
    "prefix_caching": FLAG,
    "hybrid_cache": FLAG,
    "speculative_method": st.sampled_from(["mtp", "eagle3", "ngram"]),
}
NAMES = {
    "none": ALL | {"gpu_count": st.sampled_from([2, 4])},
    "vllm": ALL | SERVERS | {"engine_version": st.sampled_from(["0.9.2", "0.12.0", "0.20.0"])},
    "sglang": ALL
    | SERVERS
    | {"attention_data_parallel": st.just(2), "engine_version": st.sampled_from(["0.4.6", "0.5.3", "0.5.20"])},
    "tensorrt-llm": ALL | SERVERS | {"engine_version": st.sampled_from(["0.12.0", "1.0.0", "1.2.0"])},
    "llama.cpp": ALL
    | {
        "gpu_count": st.sampled_from([2, 4]),
        "parallel_slots": st.sampled_from([1, 3]),
        "gpu_layers": st.sampled_from([8, 99]),
        "engine_version": st.sampled_from(["b4000", "b6500", "b9000"]),
    },
}
WHOLE_PROMPTS = frozenset({"0.9.2"})
"""Releases whose batch grows with the length that they start for, unless it is asked: then others are the longest."""
TOLD = ("taken", "assumptions", "warnings", "derivation", "levers", "shortage")
"""What tells apart what was asked and what was filled in: sentences, and changes, which leave alone what was asked."""


def figures(answer: dict[str, Any]) -> dict[str, Any]:
    """All of an answer but what it tells of the question."""
    found = {name: value for name, value in answer.items() if name not in TOLD}
    if "ledger" in found:
        parts = [(part["name"], part["bytes"]) for part in answer["ledger"]["parts"]]
        found["ledger"] = {**answer["ledger"], "parts": parts}
    return found


def check_again(ask: Ask, **asked: Any) -> None:  # noqa: ANN401  # as questions are
    """Ask, and ask again what the answer repeats."""
    try:
        answer = ask(**asked)
    except QuoteError:
        reject()
    filled = {name: value for name, value in answer["question"].items() if value is not None}
    again = {name: value for name, value in filled.items() if name in asked or name not in OVERRIDES}

    repeated, first = figures(ask(**again)), figures(answer)
    if asked.get("engine_version") in WHOLE_PROMPTS and "max_batched_tokens" not in asked:
        first["max_context_tokens"] = repeated["max_context_tokens"]
    assert repeated == first


@pytest.mark.parametrize("engine", NAMES)
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_the_repeated_question_has_the_same_answer(ask_fit: Ask, engine: str, data: st.DataObject) -> None:
    asked = {
        "model": data.draw(st.sampled_from(MODELS)),
        "gpu": data.draw(st.sampled_from(GPUS)),
        "context_tokens": data.draw(st.sampled_from([2048, 8192])),
        "engine": engine,
        **data.draw(st.fixed_dictionaries({}, optional=NAMES[engine])),
    }
    if asked.get("speculative_method"):
        asked["speculative_tokens"] = 3
    check_again(ask_fit, **asked)


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("model", HYBRIDS)
def test_so_has_that_of_states_in_sglang(ask_fit: Ask, model: str, gpu: str) -> None:
    for more in ({}, {"prefix_caching": False}, {"tensor_parallel": 2}):
        check_again(ask_fit, model=model, gpu=gpu, engine="sglang", context_tokens=2048, **more)
