"""The longest sequence that an engine starts for: left to vLLM, and above the model's own."""

import pytest

from service.answers import fit_answer, traffic_answer
from service.domain.errors import NotSupported
from service.domain.row_commands import spelled_out
from tests.domain.commands.command_cases import catalog

GIB = 1 << 30
AUTO = "vllm serve Qwen/Qwen3-8B --max-model-len auto"


def small(gib: int, **beside: object) -> dict[str, object]:
    return {"memory_bytes": gib * GIB, "command": AUTO, **beside}


def test_it_starts_for_the_longest_that_memory_holds_and_for_no_more() -> None:
    found = fit_answer(small(20), catalog())
    limit = found["question"]["context_limit_tokens"]

    assert found["fits"]
    assert 1 <= limit < 40960
    assert found["command"]["set"]["context_limit_tokens"] == limit
    assert found["taken"]["context_limit_tokens"] == "command"
    assert found["question"]["context_tokens"] == limit
    fixed = {"memory_bytes": 20 * GIB, "engine": "vllm", "model": "qwen3-8b"}
    assert fit_answer({**fixed, "context_limit_tokens": limit}, catalog())["fits"]
    longer = fit_answer({**fixed, "context_limit_tokens": limit + 16}, catalog())
    assert (longer["fits"], longer["shortage"]["max_context_tokens"]) == (False, limit)


def test_a_shorter_context_is_held_as_often_as_the_pool_allows() -> None:
    found = fit_answer(small(20, context_tokens=1024), catalog())

    assert found["question"]["context_limit_tokens"] == fit_answer(small(20), catalog())["max_context_tokens"]
    assert found["max_sequences"] > 1


def test_a_longer_context_than_memory_holds_does_not_fit() -> None:
    found = fit_answer(small(20, context_tokens=40000), catalog())

    assert (found["fits"], found["max_sequences"]) == (False, 0)
    assert found["question"]["context_limit_tokens"] == 40000


def test_no_length_is_chosen_where_not_even_a_token_fits() -> None:
    found = fit_answer(small(8), catalog())

    assert (found["fits"], found["question"]["context_limit_tokens"]) == (False, 40960)
    assert "context_limit_tokens" not in found["command"]["set"]


def test_traffic_is_of_the_same_length() -> None:
    limits = {
        answer(small(20), catalog())["question"]["context_limit_tokens"] for answer in (fit_answer, traffic_answer)
    }

    assert len(limits) == 1


def test_a_measurement_says_which_length_it_was() -> None:
    with pytest.raises(NotSupported, match="give the number that it chose"):
        spelled_out({"setup": {"command": AUTO}}, catalog())


@pytest.mark.parametrize(
    "engine, way_out",
    [
        ("none", "."),
        ("vllm", ": vllm does not start for them unless VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set"),
        ("sglang", ": sglang does not start for them unless SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 is set"),
        ("llama.cpp", "."),
    ],
)
def test_a_longer_limit_than_the_models_own_is_warned_of_and_memory_decides(engine: str, way_out: str) -> None:
    """A sequence without a context of its own is as long as the model's, which is the shorter of both."""
    question = {"model": "llama-3.1-8b-instruct", "gpu": "h200-sxm-141gb", "engine": engine}
    answer = fit_answer({**question, "context_limit_tokens": 262144}, catalog())

    assert answer["question"]["context_tokens"] == 131072
    assert answer["fits"] is True
    (warning,) = [each for each in answer["warnings"] if "was published for" in each]
    said = "262,144 tokens are more than the 131,072 that Llama-3.1-8B-Instruct was published for"
    assert warning.startswith(f"{said}{way_out}")
