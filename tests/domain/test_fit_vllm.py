"""`/fit` and `/traffic` with `engine: vllm`: the whole answer, not the engine's arithmetic alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import NotSupported, QuoteError, ValidationError
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Ask, Shelf

H100 = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "vllm", "context_tokens": 8192}
SHELF = Shelf()


def parts(answer: dict[str, Any]) -> dict[str, int]:
    return {part["name"]: part["bytes"] for part in answer["ledger"]["parts"]}


def test_it_works(ask_fit: Ask) -> None:
    answer = ask_fit(**H100)
    assert answer["fits"] is True
    assert answer["engine"] == {"name": "vllm", "version": answer["question"]["engine_version"]}
    assert answer["max_sequences"] == answer["blocks"] // (8192 // 16)
    assert answer["max_concurrency"] == answer["blocks"] / 512
    assert answer["question"]["memory_basis"] == "visible"
    assert answer["question"]["max_sequences_limit"] == 1024
    assert {"reserve.activations", "reserve.graphs", "outside_budget"} <= parts(answer).keys()


def test_a_logged_start_comes_out_within_a_percent(ask_fit: Ask) -> None:
    """Llama 3.1 8B on an A100 80 GB, a public log of 0.31: 56.21 GiB of cache, 3.51 requests of 131,072 tokens."""
    answer = ask_fit(**H100 | {"gpu": "a100-sxm-80gb", "engine_version": "0.31.0", "context_tokens": 131072})
    assert parts(answer)["kv_cache"] / 2**30 == pytest.approx(56.21, rel=0.01)
    assert answer["max_concurrency"] == pytest.approx(3.51, rel=0.01)


def test_given_the_cache_its_blocks_follow(ask_fit: Ask) -> None:
    answer = ask_fit(**H100, kv_cache_bytes=10 * 2**30)
    assert (answer["blocks"], answer["block_tokens"], answer["groups"]) == (5120, 16, 1)
    assert answer["kv_capacity_tokens"] == 81920
    assert answer["interval"]["max_sequences"] == [10, 10]


def test_every_lever_gives_what_it_says(ask_fit: Ask) -> None:
    answer = ask_fit(**H100)
    assert {lever["move"] for lever in answer["levers"]} == {"smaller", "released"}
    for lever in answer["levers"]:
        assert ask_fit(**H100 | lever["change"])["max_sequences"] == lever["max_sequences"]


@pytest.mark.parametrize(
    "asked, without",
    [
        ({"model": "qwen3-30b-a3b", "max_loras": 2}, "weight_dtype"),
        ({"graph_mode": "full", "attention_backend": "FLASHINFER"}, "weight_dtype"),
        ({"cpu_offload_bytes": 10**9}, "weight_dtype"),
        ({"engine_version": "0.2.7"}, "kv_dtype"),
        ({"speculative_method": "ngram", "speculative_tokens": 5, "context_tokens": 10}, "context_tokens"),
        ({"engine_version": "0.4.0", "weight_dtype": "fp32", "kv_dtype": "auto"}, "weight_dtype"),
    ],
)
def test_no_lever_asks_for_what_would_be_refused(ask_fit: Ask, asked: dict[str, Any], without: str) -> None:
    levers = ask_fit(**H100 | asked)["levers"]
    assert [lever for lever in levers if without in lever["change"]] == []
    for lever in levers:
        assert ask_fit(**H100 | asked | lever["change"])["max_sequences"] == lever["max_sequences"]


def test_a_start_that_would_be_refused_says_the_longest_that_would_not(ask_fit: Ask) -> None:
    question = H100 | {"gpu": "l4", "context_tokens": 131072}
    answer = ask_fit(**question)
    longest = answer["shortage"]["max_context_tokens"]
    assert answer["fits"] is False
    assert answer["shortage"]["missing_bytes"] > 0
    assert 0 < longest < 131072
    assert ask_fit(**question | {"context_tokens": longest})["fits"] is True
    assert ask_fit(**question | {"context_tokens": longest + 16})["fits"] is False


def test_a_batch_above_the_engines_own_limit_is_a_warning(ask_fit: Ask) -> None:
    answer = ask_fit(**H100 | {"context_tokens": 512}, max_sequences_limit=64, batch_size=100)
    assert answer["fits"] is True
    assert answer["max_running_sequences"] == 64
    assert answer["binding"]["constraint"] == "sequence_limit"
    assert any("at most 64" in warning for warning in answer["warnings"])


def test_full_pages_are_charged_where_windows_are_not_kept(ask_fit: Ask) -> None:
    question = {"model": "gpt-oss-120b", "gpu": "h200-sxm-141gb", "engine": "vllm", "context_tokens": 8192}
    assert ask_fit(**question)["kv_bytes_per_token"] == 36_864
    assert ask_fit(**question, hybrid_cache=False)["kv_bytes_per_token"] == 73_728


def test_a_plain_width_is_what_the_engine_loads(ask_fit: Ask) -> None:
    answer = ask_fit(**H100, weight_dtype="int8")
    assert answer["question"]["weight_dtype"] == "w8a8"


def test_an_older_release_has_its_own_defaults(ask_fit: Ask) -> None:
    old, new = (ask_fit(**H100, engine_version=version) for version in ("0.11.0", "0.33.0"))
    assert (old["question"]["memory_utilization"], new["question"]["memory_utilization"]) == (0.9, 0.92)
    assert old["max_sequences"] != new["max_sequences"]


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"engine_version": "0.99.0.1.2.3"}, "/engine_version"),
        ({"block_tokens": 7}, "/block_tokens"),
        ({"max_batched_tokens": 16, "max_sequences_limit": 64}, "/max_batched_tokens"),
        ({"speculative_tokens": 3}, "/speculative_tokens"),
        ({"decode_context_parallel": 3, "tensor_parallel": 4}, "/decode_context_parallel"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_field(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**H100 | changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize(
    "asked", [{"model": "llama-3.1-8b-instruct", "tensor_parallel": 16}, {"model": "deepseek-v3", "tensor_parallel": 8}]
)
def test_ranks_that_share_a_context_each_hold_a_part_of_it(ask_fit: Ask, asked: dict[str, Any]) -> None:
    question = {"gpu": "h200-sxm-141gb", "engine": "vllm", "context_tokens": 8192} | asked
    one, two = ask_fit(**question), ask_fit(**question, decode_context_parallel=2)

    assert [2 * two["rank"][name] for name in ("kv_bytes_per_token", "kv_bytes_per_sequence")] == [
        one["rank"]["kv_bytes_per_token"],
        one["rank"]["kv_bytes_per_sequence"],
    ]
    pool = next(part["bytes"] for part in two["ledger"]["parts"] if part["name"] == "kv_cache")
    assert two["max_sequences"] == pool // two["rank"]["kv_bytes_per_sequence"]
    copies = 2 if "llama" in asked["model"] else 8
    kept = [(ranks - 1) * one["kv_bytes_per_sequence"] for ranks in (copies, copies // 2)]
    assert f"and {kept[0]:,} bytes of each sequence beyond one copy" in " ".join(one["assumptions"])
    assert f"and {kept[1]:,} bytes of each sequence beyond one copy" in " ".join(two["assumptions"])


@pytest.mark.parametrize("name", ["gpu_layers", "shared_prefix_tokens", "tensor_split", "draft_model"])
def test_names_of_other_engines_are_refused(ask_fit: Ask, name: str) -> None:
    with pytest.raises(NotSupported, match=name):
        ask_fit(**H100 | {name: 1})


def test_utilization_above_what_is_free_does_not_start(ask_fit: Ask) -> None:
    answer = ask_fit(**H100, memory_used_by_others_bytes=20 * 2**30, memory_utilization=0.95)
    assert answer["fits"] is False
    assert answer["binding"]["constraint"] == "free_memory"


def test_what_is_missing_counts_a_cache_that_was_asked_for_whole(ask_fit: Ask) -> None:
    question = {"model": "llama-2-7b", "engine": "vllm", "memory_bytes": 24 * 2**30, "context_tokens": 4096}
    answer = ask_fit(**question, kv_cache_bytes=20 * 10**9, reserve_bytes=10**9)

    assert answer["shortage"]["missing_bytes"] == answer["ledger"]["overcommitted_bytes"] > 0
    more = question | {"memory_bytes": question["memory_bytes"] + answer["shortage"]["missing_bytes"]}
    assert ask_fit(**more, kv_cache_bytes=20 * 10**9, reserve_bytes=10**9)["fits"] is True


def test_what_is_missing_is_what_utilization_asks_for_of_memory_that_others_hold(ask_fit: Ask) -> None:
    question = {"model": "llama-2-7b", "engine": "vllm", "memory_bytes": 10**11, "memory_utilization": 0.9}
    question |= {"context_tokens": 4096}
    short = ask_fit(**question, memory_used_by_others_bytes=3 * 10**10)["shortage"]
    assert (short["constraint"], short["needed_bytes"]) == ("free_memory", 9 * 10**10)
    assert (short["available_bytes"], short["missing_bytes"]) == (7 * 10**10, 2 * 10**10)
    others = 3 * 10**10 - short["missing_bytes"]
    assert ask_fit(**question, memory_used_by_others_bytes=others)["fits"] is True


def test_traffic_asks_the_same_engine(ask_traffic: Ask) -> None:
    answer = ask_traffic(**H100)
    assert answer["batch_size"] == 55
    assert answer["engine"]["name"] == "vllm"
    assert answer["fits"] is True


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            ["llama-3.1-8b-instruct", "mixtral-8x7b-v0.1", "gemma-3-27b-it", "gpt-oss-20b", "deepseek-v2-lite"]
        ),
        "gpu": st.sampled_from(["h100-sxm-80gb", "a100-sxm-80gb", "l4", "h200-sxm-141gb", "t4"]),
        "engine": st.just("vllm"),
        "context_tokens": st.integers(1, 1 << 17),
    },
    optional={
        "engine_version": st.sampled_from(["0.6.6", "0.8.5", "0.11.0", "0.19.0", "0.22.0", "0.33.0"]),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "pipeline_parallel": st.integers(1, 4),
        "data_parallel": st.integers(1, 3),
        "memory_utilization": st.floats(0.05, 1.0),
        "memory_used_by_others_bytes": st.integers(0, 1 << 36),
        "kv_cache_bytes": st.integers(0, 1 << 37),
        "reserve_bytes": st.integers(0, 1 << 36),
        "weight_dtype": st.sampled_from(["fp16", "fp8", "awq", "int8"]),
        "kv_dtype": st.sampled_from(["fp16", "fp8"]),
        "batch_size": st.integers(1, 2000),
        "max_sequences_limit": st.integers(1, 512),
        "max_batched_tokens": st.integers(512, 16384),
    },
)


def ask(question: dict[str, Any]) -> dict[str, Any] | None:
    try:
        return fit(resolve(question, SHELF), SHELF)
    except QuoteError:
        return None


@given(QUESTIONS)
def test_the_ledger_closes_and_the_answer_agrees_with_itself(question: dict[str, Any]) -> None:
    if answer := ask(question):
        ledger = answer["ledger"]
        assert sum(part["bytes"] for part in ledger["parts"]) == ledger["memory_bytes"] + ledger["overcommitted_bytes"]
        assert all(part["bytes"] >= 0 for part in ledger["parts"])
        assert answer["max_running_sequences"] <= answer["max_sequences"]
        assert (answer["shortage"] is None) == answer["fits"]
        low, high = answer["interval"]["max_sequences"]
        assert low <= answer["max_sequences"] <= high or ledger["overcommitted_bytes"]


@given(QUESTIONS, st.integers(1, 1 << 15))
def test_more_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    fixed = {"max_sequences_limit": 256, "max_batched_tokens": 8192, "context_limit_tokens": 1 << 18} | question
    answer, longer = ask(fixed), ask(fixed | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@given(QUESTIONS, st.integers(1, 1 << 34))
def test_more_memory_never_gives_fewer_sequences(question: dict[str, Any], more: int) -> None:
    fixed = {"max_sequences_limit": 256, "max_batched_tokens": 8192} | question
    answer, larger = (ask(fixed | {"memory_bytes": (1 << 35) + extra}) for extra in (0, more))
    if answer and larger:
        assert larger["max_sequences"] >= answer["max_sequences"]


def test_a_cache_that_does_not_fit_as_asked_holds_nothing_at_either_end(ask_fit: Ask) -> None:
    answer = ask_fit(model="mistral-7b-v0.1", gpu="l4", engine="vllm", context_tokens=8192, kv_cache_bytes=10**13)
    assert answer["max_sequences"] == 0
    assert answer["interval"]["max_sequences"] == [0, 0]


@pytest.mark.parametrize(
    "changed, pointer",
    [
        ({"model": "mamba-2.8b", "engine_version": "0.8.5"}, "/engine_version"),
        ({"model": "gemma-3n-e2b-it", "pipeline_parallel": 3}, "/pipeline_parallel"),
    ],
)
def test_a_release_or_a_stage_without_blocks_has_none_to_quote(
    ask_fit: Ask, changed: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(gpu="h100-sxm-80gb", engine="vllm", context_tokens=8192, **changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize("model, gpu", [("qwen2-7b-instruct", "l4"), ("gemma-3-27b-it", "a100-sxm-80gb")])
def test_the_longest_sequence_that_is_told_starts_when_it_is_asked_for(ask_fit: Ask, model: str, gpu: str) -> None:
    longest = ask_fit(model=model, gpu=gpu, engine="vllm", context_tokens=4096)["max_context_tokens"]
    answer = ask_fit(model=model, gpu=gpu, engine="vllm", context_tokens=longest)
    assert (answer["fits"], answer["max_sequences"]) == (True, 1)


def test_a_family_that_is_not_described_is_refused_by_name(ask_fit: Ask) -> None:
    with pytest.raises(NotSupported, match="Inkling-Small") as refusal:
        ask_fit(model="inkling-small", gpu="h200-sxm-141gb", gpu_count=8, engine="vllm", context_tokens=4096)

    assert [fault.pointer for fault in refusal.value.faults] == ["/engine"]
    assert refusal.value.faults[0].nearest == ("none",)
