"""`cpu_expert_layers`: routed experts of the first layers stay in host memory, as with llama.cpp's --n-cpu-moe."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import NotSupported, ValidationError
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask

MOE = {"model": "qwen3-30b-a3b", "engine": "llama.cpp", "weight_dtype": "q8_0", "context_tokens": 8192}
CARD = MOE | {"gpu": "rtx-3060-12gb"}
EXPERTS = 3 * 2048 * 768 * 128 * 34 // 32
"""Three matrices of 128 experts of one layer, 34 bytes for 32 weights."""


def test_it_works(ask_fit: Ask) -> None:
    """32 GB of weights, 31 of them experts, start on 12 GB with the experts left in host memory."""
    assert ask_fit(**CARD)["fits"] is False
    answer = ask_fit(**CARD, cpu_expert_layers=-1)

    assert answer["fits"] is True
    assert parts(answer)["weights"] < 2 * 10**9
    check_agrees(answer)


def test_each_layer_leaves_its_experts_and_nothing_else(ask_fit: Ask) -> None:
    held = [parts(ask_fit(**MOE, memory_bytes=10**11, cpu_expert_layers=n))["weights"] for n in (0, 1, 2, 48)]

    assert [held[0] - each for each in held] == [0, EXPERTS, 2 * EXPERTS, 48 * EXPERTS]


def test_more_layers_than_there_are_and_minus_1_are_all(ask_fit: Ask) -> None:
    ledgers = [ask_fit(**CARD, cpu_expert_layers=count)["ledger"] for count in (48, 100, -1)]

    assert ledgers[0] == ledgers[1] == ledgers[2]


def test_layers_count_from_the_first_whether_they_have_experts_or_not(ask_fit: Ask) -> None:
    """DeepSeek-V2-Lite's first layer has none."""
    question = {"model": "deepseek-v2-lite", "engine": "llama.cpp", "memory_bytes": 10**11, "weight_dtype": "q8_0"}
    held = [parts(ask_fit(**question, context_tokens=4096, cpu_expert_layers=n))["weights"] for n in (0, 1, 2)]

    assert held[0] == held[1] > held[2]


def test_whole_figures_stay_those_of_the_model(ask_fit: Ask, ask_traffic: Ask) -> None:
    everything, left = ask_fit(**MOE, memory_bytes=10**11), ask_fit(**MOE, memory_bytes=10**11, cpu_expert_layers=-1)

    assert left["weight_bytes"] == everything["weight_bytes"]
    assert left["rank"] == everything["rank"]
    assert any("experts of 48 of 48 layers stay on the host" in warning for warning in left["warnings"])
    answer = ask_traffic(**CARD, cpu_expert_layers=-1)
    assert answer["fits"] is True
    assert answer["weight_traffic_bytes"] == ask_traffic(**CARD, batch_size=4)["weight_traffic_bytes"]


def test_experts_on_the_host_end_the_copies_of_inputs(ask_fit: Ask) -> None:
    """Devices do not work on passes side by side then: the second one has no room for copies of masks."""
    question = MOE | {"gpus_memory_bytes": [40 << 30, 20 << 30], "tensor_split": [1, 1], "engine_version": "b11549"}
    beside = parts(ask_fit(**question))["reserve.activations"]
    alone = parts(ask_fit(**question, cpu_expert_layers=1))["reserve.activations"]

    assert ask_fit(**question)["rank"]["index"] == 1
    assert alone < beside


def test_a_model_without_experts_is_refused(ask_fit: Ask) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(model="llama-3.1-8b-instruct", engine="llama.cpp", gpu="rtx-4090", cpu_expert_layers=3)

    assert [fault.pointer for fault in refusal.value.faults] == ["/cpu_expert_layers"]


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang", "tensorrt-llm"])
def test_other_engines_have_no_such_name(ask_fit: Ask, engine: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(model="qwen3-30b-a3b", engine=engine, gpu="h100-sxm-80gb", context_tokens=4096, cpu_expert_layers=3)

    assert [fault.pointer for fault in refusal.value.faults] == ["/cpu_expert_layers"]


def fitting(answer: dict[str, Any]) -> list[str]:
    return [warning for warning in answer["warnings"] if "--fit" in warning]


def test_what_a_build_would_move_by_itself_is_said(ask_fit: Ask) -> None:
    """A start that leaves less than 1 GiB free, or does not fit, is another one with --fit."""
    assert len(fitting(ask_fit(**CARD))) == 1
    assert "leaves 1,024 MiB free on each device" in fitting(ask_fit(**CARD))[0]
    room = {"model": "llama-3.1-8b-instruct", "engine": "llama.cpp", "weight_dtype": "q8_0", "context_tokens": 8192}
    found = parts(ask_fit(**room, memory_bytes=10**11))
    taken = found["weights"] + found["reserve.runtime"] + found["reserve.activations"] + 8192 * 131072
    close, wide = (ask_fit(**room, memory_bytes=taken + size) for size in ((1 << 30) - 1, 1 << 30))
    assert (close["fits"], len(fitting(close))) == (True, 1)
    assert (wide["fits"], fitting(wide)) == (True, [])


@pytest.mark.parametrize(
    "said", [{"gpu_layers": 49}, {"gpu_layers": -1}, {"tensor_split": [1]}, {"cpu_expert_layers": 1}]
)
def test_who_says_what_goes_where_is_not_warned(ask_fit: Ask, said: dict[str, Any]) -> None:
    assert fitting(ask_fit(**CARD, **said)) == []


def test_older_builds_move_nothing(ask_fit: Ask) -> None:
    assert fitting(ask_fit(**CARD, engine_version="b7079")) == []
    assert len(fitting(ask_fit(**CARD, engine_version="b8101"))) == 1


def test_every_lever_gives_what_it_says() -> None:
    question = CARD | {"cpu_expert_layers": 40}
    answer = ask(question)

    assert answer is not None
    check_levers(question, answer)


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite", "jamba-v0.1"]),
        "gpus": st.lists(st.sampled_from(["rtx-4090", "rtx-3060-12gb", "l4"]), min_size=1, max_size=3),
        "engine": st.just("llama.cpp"),
        "context_tokens": st.integers(1, 1 << 15),
        "cpu_expert_layers": st.integers(-1, 60),
        "weight_dtype": st.sampled_from(["q8_0", "q4_k_m"]),
    },
    optional={
        "engine_version": st.sampled_from(["b3000", "b8101", "b9538", "b11549"]),
        "gpu_layers": st.integers(-1, 50),
        "attention_backend": st.sampled_from(["on", "off"]),
        "max_batched_tokens": st.sampled_from([32, 512, 2048]),
        "kv_cache_bytes": st.integers(0, 1 << 34),
        "batch_size": st.integers(1, 20),
    },
)


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_ledger_closes_and_the_answer_agrees_with_itself(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_agrees(answer)


@settings(max_examples=40)
@given(QUESTIONS, st.integers(0, 1 << 34))
def test_more_memory_never_gives_fewer_sequences(question: dict[str, Any], more: int) -> None:
    count = len(question["gpus"])
    fixed = question | {"tensor_split": [1] * count}
    answer, larger = (ask(fixed | {"gpus_memory_bytes": [(1 << 35) + extra] * count}) for extra in (0, more))
    if answer and larger:
        assert larger["max_sequences"] >= answer["max_sequences"]
