"""What is missing where a cache of a given size and other processes take more than there is, for every engine."""

import pytest

from tests.domain.agreement import ask, check_levers, parts

QUESTION = {
    "model": "llama-3.1-8b-instruct",
    "gpu": "h200-sxm-141gb",
    "context_tokens": 4096,
    "memory_used_by_others_bytes": 100_000_000_000,
    "kv_cache_bytes": 80_000_000_000,
}
ENGINES = ("vllm", "sglang", "tensorrt-llm", "llama.cpp", "none")


@pytest.mark.parametrize("engine", ENGINES)
def test_what_others_hold_is_missing_beside_a_cache_of_a_given_size(engine: str) -> None:
    question = {**QUESTION, "engine": engine}
    answer = ask(question)
    assert answer is not None
    assert answer["fits"] is False
    missing = answer["shortage"]["missing_bytes"]
    assert missing == answer["ledger"]["overcommitted_bytes"] == answer["binding"]["to_gain_one_sequence_bytes"] > 0
    enough = ask({**question, "memory_used_by_others_bytes": parts(answer)["others"] - missing})
    assert enough is not None
    assert enough["fits"] is True


@pytest.mark.parametrize("engine", ENGINES)
def test_the_nearest_change_is_that_others_let_go_of_it(engine: str) -> None:
    question = {**QUESTION, "engine": engine}
    answer = ask(question)
    assert answer is not None
    check_levers(question, answer)
    change = answer["shortage"]["nearest_change"]
    assert change is not None
    changed = ask(question | change)
    assert changed is not None
    assert changed["fits"] is True


@pytest.mark.parametrize("engine", ENGINES)
def test_others_are_no_lever_where_the_given_cache_has_its_room(engine: str) -> None:
    answer = ask({**QUESTION, "engine": engine, "kv_cache_bytes": 20_000_000_000, "reserve_bytes": 0})
    assert answer is not None
    assert answer["fits"] is True
    assert {"memory_used_by_others_bytes": 0} not in [lever["change"] for lever in answer["levers"]]
