"""`gpus`: cards of one kind listed, cards of several kinds, and devices with memory of their own."""

from math import isclose
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import NotSupported, QuoteError, ValidationError
from service.domain.question import resolve
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask, Shelf

PAIR = ["rtx-4090", "rtx-3060-12gb"]
BESIDE = {"model": "qwen2.5-32b-instruct", "weight_dtype": "q4_k_m", "engine": "llama.cpp", "context_tokens": 8192}
UNLIKE = BESIDE | {"gpus": PAIR}
TOLD = ("question", "taken", "gpus", "assumptions", "derivation")


def figures(answer: dict[str, Any]) -> dict[str, Any]:
    """What the answer says apart from how it was asked."""
    return {name: value for name, value in answer.items() if name not in TOLD}


def test_it_works(ask_fit: Ask) -> None:
    answer = ask_fit(**UNLIKE)

    assert answer["fits"] is True
    assert [card["id"] for card in answer["gpus"]] == PAIR
    assert answer["gpu"]["id"] == "rtx-3060-12gb"
    assert answer["gpu"]["count"] == answer["question"]["gpu_count"] == answer["question"]["pipeline_parallel"] == 2
    assert answer["rank"]["index"] == 1
    assert answer["ledger"]["memory_bytes"] == 12_627_203_850
    assert answer["question"]["memory_bytes"] is None
    assert answer["question"]["gpus_memory_bytes"] == [25_265_145_119, 12_627_203_850]
    assert answer["taken"]["gpus_memory_bytes"] == "measured"
    check_agrees(answer)


def test_layers_are_shared_by_what_is_free_on_each_card(ask_fit: Ask) -> None:
    """24,835,648,390 and 12,197,707,121 B are free: floor(65 x 0.67061) + 1 = 44 layers go to the first."""
    derivation = ask_fit(**UNLIKE)["derivation"]

    assert derivation[0].startswith("layers shared by free memory, 24,835,648,390 B : 12,197,707,121 B: 44 + 20")
    assert derivation[1] == "rank 1 of a replica, on pipeline stage 1, fills first"


def test_what_others_hold_moves_the_shares(ask_fit: Ask) -> None:
    answer = ask_fit(**UNLIKE, memory_used_by_others_bytes=6 << 30)

    assert "18,393,197,446 B : 5,755,256,177 B: 50 + 14" in answer["derivation"][0]


def test_the_ledger_is_that_of_the_card_that_fills_first(ask_fit: Ask) -> None:
    first = ask_fit(**UNLIKE, tensor_split=[10, 1])
    second = ask_fit(**UNLIKE, tensor_split=[1, 1])

    assert (first["gpu"]["id"], first["ledger"]["memory_bytes"]) == ("rtx-4090", 25_265_145_119)
    assert (second["gpu"]["id"], second["ledger"]["memory_bytes"]) == ("rtx-3060-12gb", 12_627_203_850)


def test_a_card_without_a_share_holds_nothing(ask_fit: Ask) -> None:
    alone = ask_fit(**BESIDE, gpu="rtx-4090")
    answer = ask_fit(**UNLIKE, tensor_split=[1, 0])

    assert answer["gpu"]["id"] == "rtx-4090"
    assert parts(answer)["weights"] == parts(alone)["weights"]
    assert answer["rank"] == alone["rank"]


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_cards_of_one_kind_are_that_card_and_their_count(ask_fit: Ask, ask_traffic: Ask, engine: str) -> None:
    question = {"model": "llama-3.1-8b-instruct", "engine": engine, "context_tokens": 4096}
    for asking in (ask_fit, ask_traffic):
        listed = asking(**question, gpus=["h100-sxm-80gb"] * 2)
        counted = asking(**question, gpu="h100-sxm-80gb", gpu_count=2)

        assert figures(listed) == figures(counted)
        assert [card["id"] for card in listed["gpus"]] == ["h100-sxm-80gb"] * 2
        assert counted["gpus"] is None
        assert listed["question"]["memory_bytes"] == counted["question"]["memory_bytes"]


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang", "tensorrt-llm"])
def test_engines_that_share_alike_refuse_two_kinds_and_name_the_smaller(ask_fit: Ask, engine: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(model="llama-3.1-8b-instruct", engine=engine, context_tokens=4096, gpus=["a100-sxm-80gb", "l4"])

    fault = refusal.value.faults[0]
    assert (fault.pointer, fault.nearest) == ("/gpus", ("l4",))
    assert "Ask with gpu l4 and gpu_count 2" in fault.detail


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang", "tensorrt-llm"])
def test_engines_that_share_alike_have_no_memory_of_each_gpu(ask_fit: Ask, engine: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(model="llama-2-7b", engine=engine, context_tokens=4096, gpus_memory_bytes=[10**11, 10**11])

    assert refusal.value.faults[0].pointer == "/gpus_memory_bytes"


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"gpu": "rtx-4090"}, "/gpus"),
        ({"gpu_count": 3}, "/gpu_count"),
        ({"pipeline_parallel": 3}, "/gpus"),
        ({"tensor_split": [1, 1, 1]}, "/tensor_split"),
        ({"tensor_split": [1e-50, 0]}, "/tensor_split"),
        ({"gpus_memory_bytes": [1 << 34]}, "/gpus_memory_bytes"),
        ({"gpus_memory_bytes": [1 << 34] * 2, "memory_bytes": 1 << 34}, "/gpus_memory_bytes"),
    ],
)
def test_contradictions_are_refused_by_field(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**UNLIKE | changed)

    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize("more", [{"gpu_count": 2}, {"pipeline_parallel": 2}, {"gpu_count": 2, "pipeline_parallel": 2}])
def test_the_same_count_may_be_said_besides(ask_fit: Ask, more: dict[str, int]) -> None:
    assert figures(ask_fit(**UNLIKE, **more)) == figures(ask_fit(**UNLIKE))


def test_memory_of_each_device_goes_before_the_catalog(ask_fit: Ask) -> None:
    answer = ask_fit(**UNLIKE, gpus_memory_bytes=[20 * 10**9, 30 * 10**9])

    assert answer["gpu"]["id"] == "rtx-4090"
    assert answer["ledger"]["memory_bytes"] == 20 * 10**9
    assert answer["question"]["gpus_memory_bytes"] == [20 * 10**9, 30 * 10**9]
    assert answer["taken"]["gpus_memory_bytes"] == "request"


def test_memory_of_each_device_needs_no_card(ask_fit: Ask, ask_traffic: Ask) -> None:
    sizes = [25_265_145_119, 12_627_203_850]
    answer = ask_fit(**BESIDE, gpus_memory_bytes=sizes)

    assert answer["gpu"] is answer["gpus"] is answer["roofline"] is None
    assert answer["ledger"] == ask_fit(**UNLIKE)["ledger"]
    assert ask_traffic(**BESIDE, gpus_memory_bytes=sizes)["step"] is None


def test_two_cards_of_one_kind_may_have_memory_of_their_own(ask_fit: Ask) -> None:
    """A desktop on the first of two."""
    answer = ask_fit(**BESIDE, gpu="rtx-4090", gpus_memory_bytes=[22 * 10**9, 25 * 10**9], tensor_split=[1, 1])

    assert answer["gpu"] == {"id": "rtx-4090", "name": "GeForce RTX 4090", "count": 2, "revision": 1}
    assert answer["ledger"]["memory_bytes"] == 22 * 10**9


def test_devices_of_one_size_are_as_many_alike(ask_fit: Ask, ask_traffic: Ask) -> None:
    apart = {"gpu": "rtx-4090", "gpus_memory_bytes": [24 * 10**9] * 2}
    alike = {"gpu": "rtx-4090", "gpu_count": 2, "memory_bytes": 24 * 10**9}
    one, other = ask_fit(**BESIDE, **apart), ask_fit(**BESIDE, **alike)

    assert figures(one) == figures(other)
    timed, counted = ask_traffic(**BESIDE, **apart), ask_traffic(**BESIDE, **alike)
    assert isclose(timed["step"]["seconds"], counted["step"]["seconds"], rel_tol=1e-12)
    assert isclose(timed["prefill"]["seconds"], counted["prefill"]["seconds"], rel_tol=1e-12)
    assert timed["ridge_batch"] == counted["ridge_batch"]
    assert isclose(timed["efficiency"]["bandwidth"], counted["efficiency"]["bandwidth"], rel_tol=1e-12)


def test_memory_basis_without_effect_is_said(ask_fit: Ask) -> None:
    answer = ask_fit(**BESIDE, gpus_memory_bytes=[10**11] * 2, memory_basis="visible")

    assert "memory_basis has no effect beside gpus_memory_bytes." in answer["warnings"]


def test_a_step_takes_the_sum_of_what_each_card_takes(ask_traffic: Ask) -> None:
    """Half of the layers at the rates of either card, so that reading takes the mean of both."""
    question = BESIDE | {"model": "llama-3.1-8b-instruct", "batch_size": 1}
    fast, slow = (ask_traffic(**question, gpu=card)["step"] for card in PAIR)
    both = ask_traffic(**question, gpus=PAIR, tensor_split=[1000, 1])["step"]
    assert both["memory_seconds"] == pytest.approx(fast["memory_seconds"], rel=0.13)
    both = ask_traffic(**question, gpus=PAIR, tensor_split=[33, 32])["step"]

    assert fast["memory_seconds"] < both["memory_seconds"] < slow["memory_seconds"]
    assert both["memory_seconds"] == pytest.approx((fast["memory_seconds"] + slow["memory_seconds"]) / 2, rel=0.06)


def test_a_step_moves_with_the_shares(ask_traffic: Ask) -> None:
    splits = ([3, 1], [1, 1], [1, 3])
    seconds = [ask_traffic(**UNLIKE, tensor_split=split, batch_size=1)["step"]["seconds"] for split in splits]

    assert seconds == sorted(seconds)


def test_the_rank_of_the_traffic_is_the_card_that_fills_first(ask_traffic: Ask) -> None:
    answer = ask_traffic(**UNLIKE, batch_size=1)

    assert answer["gpu"]["id"] == "rtx-3060-12gb"
    assert answer["rank"]["index"] == 1
    assert answer["rank"]["weight_traffic_bytes"] == pytest.approx(0.36 * answer["weight_traffic_bytes"], rel=0.1)
    assert any(line.startswith("device 1, GeForce RTX 3060 12GB, 20 layers") for line in answer["derivation"])


def test_figures_of_the_whole_model_do_not_depend_on_the_cards(ask_traffic: Ask) -> None:
    names = ("weight_traffic_bytes", "cache_traffic_bytes", "other_traffic_bytes", "by_kind", "crossover_batch")
    unlike, alone = (ask_traffic(**BESIDE, **cards, batch_size=2) for cards in ({"gpus": PAIR}, {"gpu": "rtx-4090"}))

    assert {name: unlike[name] for name in names} == {name: alone[name] for name in names}


def test_the_ridge_lies_between_those_of_the_cards(ask_fit: Ask) -> None:
    ridges = [ask_fit(**BESIDE, **cards)["roofline"]["ridge_batch"] for cards in ({"gpu": PAIR[0]}, {"gpu": PAIR[1]})]

    assert min(ridges) <= ask_fit(**UNLIKE)["roofline"]["ridge_batch"] <= max(ridges)


def test_the_longest_context_starts_and_one_more_token_does_not(ask_fit: Ask) -> None:
    question = UNLIKE | {"context_tokens": 131072}
    longest = ask_fit(**question)["shortage"]["max_context_tokens"]

    assert longest > 8192
    assert ask_fit(**question | {"context_tokens": longest})["fits"] is True
    assert ask_fit(**question | {"context_tokens": longest + 1})["fits"] is False


def test_every_lever_gives_what_it_says() -> None:
    question = UNLIKE | {"memory_used_by_others_bytes": 2 << 30}
    answer = ask(question)

    assert answer is not None
    assert {"memory_used_by_others_bytes": 0} in [lever["change"] for lever in answer["levers"]]
    check_levers(question, answer)


def test_more_of_the_same_card_are_offered_as_a_longer_list(ask_fit: Ask) -> None:
    question = {
        "model": "llama-3.1-70b-instruct",
        "engine": "vllm",
        "context_tokens": 8192,
        "weight_bytes": 141 * 10**9,
    }
    answer = ask_fit(**question, gpus=["a100-sxm-80gb"])

    assert answer["shortage"]["nearest_change"] == {"tensor_parallel": 2, "gpus": ["a100-sxm-80gb"] * 2}


def test_an_unknown_card_is_named_by_its_place() -> None:
    class Known(Shelf):
        def gpu(self, name: str, pointer: str = "/gpu") -> Any:  # type: ignore[override]  # noqa: ANN401
            if name not in PAIR:
                raise ValidationError.at(pointer, f"no {name}")
            return super().gpu(name)

    with pytest.raises(QuoteError) as refusal:
        resolve(BESIDE | {"gpus": [*PAIR, "rtx-9999"]}, Known())
    assert refusal.value.faults[0].pointer == "/gpus/2"


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-3.1-8b-instruct", "gemma-3-27b-it", "gpt-oss-20b", "jamba-v0.1"]),
        "gpus": st.lists(
            st.sampled_from(["rtx-4090", "rtx-3060-12gb", "h200-sxm-141gb", "l4"]), min_size=1, max_size=4
        ),
        "engine": st.just("llama.cpp"),
        "context_tokens": st.integers(1, 1 << 16),
        "weight_dtype": st.sampled_from(["q8_0", "q4_k_m"]),
    },
    optional={
        "engine_version": st.sampled_from(["b3000", "b6400", "b11549"]),
        "gpu_layers": st.integers(-1, 50),
        "parallel_slots": st.integers(1, 8),
        "memory_used_by_others_bytes": st.integers(0, 1 << 34),
        "kv_cache_bytes": st.integers(0, 1 << 36),
        "reserve_bytes": st.integers(0, 1 << 33),
        "kv_dtype": st.sampled_from(["fp16", "q8_0"]),
        "batch_size": st.integers(1, 50),
    },
)
SHARES = st.lists(st.floats(0.01, 100), min_size=4, max_size=4)


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_ledger_closes_and_the_answer_agrees_with_itself(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_agrees(answer)
        assert answer["gpu"]["id"] == answer["gpus"][answer["rank"]["index"]]["id"]


@settings(max_examples=40)
@given(QUESTIONS, st.integers(1, 1 << 14))
def test_more_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    fixed = {"context_limit_tokens": 1 << 17} | question
    answer, longer = ask(fixed), ask(fixed | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@settings(max_examples=40)
@given(QUESTIONS, SHARES, st.lists(st.integers(0, 1 << 34), min_size=4, max_size=4))
def test_more_memory_of_any_card_never_gives_fewer_sequences(
    question: dict[str, Any], split: list[float], more: list[int]
) -> None:
    """With shares held fixed, as the engine's own follow the memory."""
    count = len(question["gpus"])
    question |= {"tensor_split": split[:count]}
    sizes = [1 << 35] * count
    larger = [size + extra for size, extra in zip(sizes, more, strict=False)]
    answer, roomier = (ask(question | {"gpus_memory_bytes": each}) for each in (sizes, larger))
    if answer and roomier:
        assert roomier["max_sequences"] >= answer["max_sequences"]
