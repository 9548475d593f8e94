"""`/fit` and `/traffic` with `engine: llama.cpp`: the whole answer, not the engine's arithmetic alone."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import NotSupported, ValidationError
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask

MIB = 1 << 20
CARD = {"model": "meta-llama-3-8b-instruct", "gpu": "rtx-4090", "engine": "llama.cpp", "context_tokens": 8192}
HYBRID = {"model": "jamba-v0.1", "engine": "llama.cpp", "memory_bytes": 2 * 10**11, "context_tokens": 4096}
HOSTED_EXPERTS = CARD | {"model": "qwen3-30b-a3b", "weight_dtype": "q4_k_m", "cpu_expert_layers": -1}
PAIR = {"model": "llama-3.1-70b-instruct", "weight_dtype": "q4_k_m", "gpu": "rtx-4090", "engine": "llama.cpp"}


def test_it_works(ask_fit: Ask) -> None:
    answer = ask_fit(**CARD)
    assert answer["fits"] is True
    assert answer["engine"] == {"name": "llama.cpp", "version": "b11549"}
    # Asked for, four slots would be streams of their own.
    assert answer["question"]["parallel_slots"] is None
    assert any("4 slots, one buffer that they share" in line for line in answer["assumptions"])
    assert ask_fit(**CARD, engine_version="b7079")["question"]["parallel_slots"] == 1
    assert answer["max_running_sequences"] == 4 < answer["max_sequences"] == int(answer["max_concurrency"])
    assert answer["kv_capacity_tokens"] % 256 == 0
    assert {"reserve.runtime", "reserve.activations"} <= parts(answer).keys()


@pytest.mark.parametrize(
    "kv_dtype,mib",
    [("f16", 1024), ("q8_0", 544), ("q5_1", 384), ("q5_0", 352), ("q4_1", 320), ("q4_0", 288), ("q8_0/q4_0", 416)],
)
def test_8192_cells_of_every_type_take_what_is_printed(ask_fit: Ask, kv_dtype: str, mib: int) -> None:
    kv_dtype = {"f16": "fp16"}.get(kv_dtype, kv_dtype)
    assert ask_fit(**CARD, kv_dtype=kv_dtype)["kv_bytes_per_sequence"] == mib * MIB


def test_windowed_layers_keep_a_window_and_a_pass(ask_fit: Ask) -> None:
    """gpt-oss-120b, 2 sequences of 131,072 in streams, 1,024 tokens a pass: 9,216 MiB and 90 MiB are printed."""
    question = {
        "model": "gpt-oss-120b",
        "engine": "llama.cpp",
        "memory_bytes": 10**12,
        "context_tokens": 131072,
        "parallel_slots": 2,
        "max_batched_tokens": 1024,
    }
    exactly = ask_fit(**question, kv_cache_bytes=(9216 + 90) * MIB)
    assert exactly["kv_capacity_tokens"] == 2 * 131072
    assert exactly["max_sequences"] == 2
    assert ask_fit(**question, kv_cache_bytes=(9216 + 90) * MIB - 1)["max_sequences"] == 1


def test_whole_caches_of_windowed_layers_may_be_asked(ask_fit: Ask) -> None:
    question = {"model": "gpt-oss-20b", "gpu": "rtx-4090", "engine": "llama.cpp", "context_tokens": 32768}
    windowed, whole = ask_fit(**question), ask_fit(**question, hybrid_cache=False)
    assert (windowed["groups"], whole["groups"]) == (2, 1)
    assert whole["kv_bytes_per_token"] == 2 * windowed["kv_bytes_per_token"]


def test_an_older_build_keeps_whole_caches_in_steps_of_32(ask_fit: Ask) -> None:
    question = {"model": "gemma-2-9b-it", "engine": "llama.cpp", "memory_bytes": 10**11, "context_tokens": 2048}
    answer = ask_fit(**question, engine_version="b3400")
    assert answer["kv_bytes_per_token"] * 2048 == 672 * MIB
    assert answer["kv_capacity_tokens"] % 256 == 224 or answer["kv_capacity_tokens"] % 32 == 0


def test_the_compute_buffer_of_older_builds_holds_logits_of_a_whole_pass(ask_fit: Ask) -> None:
    found = parts(ask_fit(**CARD, engine_version="b6400"))
    assert found["reserve.activations"] == 258.5 * MIB
    assert parts(ask_fit(**CARD))["reserve.activations"] == 124 * MIB


def test_attention_that_is_not_fused_keeps_scores_of_every_head(ask_fit: Ask) -> None:
    """Scores of 32 heads and the mask in 32 bits, five vectors, and keys and values to be stored."""
    off = parts(ask_fit(**CARD, attention_backend="off"))["reserve.activations"]
    assert off == 512 * 4 * (33 * 8192 + 5 * 4096 + 2 * 1024)


def test_states_are_kept_in_32_bits_for_every_slot(ask_fit: Ask) -> None:
    one, four = (parts(ask_fit(**HYBRID, parallel_slots=slots))["reserve.state"] for slots in (1, 4))
    assert one == 28 * (3 * 8192 + 16 * 8192) * 4 == 16.625 * MIB
    assert four == 4 * one


def test_the_cells_of_a_hybrid_are_printed_without_its_states(ask_fit: Ask) -> None:
    answer = ask_fit(**HYBRID, parallel_slots=1, kv_cache_bytes=4 << 30)
    assert answer["kv_capacity_tokens"] == 262144


def test_the_embedding_table_stays_on_the_host(ask_fit: Ask) -> None:
    """Qwen2.5-VL-32B: 61,009 MiB of 16-bit weights on the device, 1,485 MiB of embeddings on the host."""
    question = {"model": "qwen2.5-vl-32b-instruct", "engine": "llama.cpp", "gpu": "h100-sxm-80gb"}
    answer = ask_fit(**question, context_tokens=4096, weight_dtype="bf16")
    assert parts(answer)["weights"] / MIB == pytest.approx(61009, rel=1e-3)


def test_a_tied_table_is_copied_to_the_device(ask_fit: Ask) -> None:
    question = {"model": "gemma-2b-it", "engine": "llama.cpp", "gpu": "rtx-4090", "weight_dtype": "bf16"}
    answer = ask_fit(**question, context_tokens=4096)
    assert parts(answer)["weights"] == answer["weight_bytes"]


def test_layers_are_spread_over_devices_evenly_or_as_asked(ask_fit: Ask) -> None:
    even = ask_fit(**PAIR, gpu_count=2, context_tokens=8192)
    assert (even["gpu"]["count"], even["question"]["pipeline_parallel"]) == (2, 2)
    assert 0 < even["rank"]["kv_bytes_per_token"] <= 41 * 4096
    uneven = ask_fit(**PAIR, tensor_split=[3, 1], context_tokens=4096)
    assert uneven["gpu"]["count"] == 2
    assert parts(uneven)["weights"] > 1.4 * parts(even)["weights"]
    assert uneven["ledger"]["overcommitted_bytes"] > 0


def test_layers_left_on_the_host_take_their_cache_with_them(ask_fit: Ask) -> None:
    answer = ask_fit(**CARD | {"gpu": "rtx-3060-12gb"}, gpu_layers=17)
    assert answer["fits"] is True
    assert answer["rank"]["kv_bytes_per_token"] == 16 * 4096
    assert answer["kv_bytes_per_token"] == 32 * 4096
    assert any("16 of 32 layers stay on the host" in warning for warning in answer["warnings"])


@pytest.mark.parametrize(
    "question,said",
    [
        (CARD | {"gpu_layers": 17}, "16 of 32 layers stay on the host"),
        (CARD | {"gpu_layers": 32}, "1 of 32 layers stay on the host"),
        (CARD | {"cpu_tensors": [r"ffn_.*"]}, "matrices of 32 of 32 layers stay on the host"),
        (HOSTED_EXPERTS, "experts of 48 of 48 layers stay on the host"),
    ],
)
def test_an_answer_with_times_says_what_stays_on_the_host(
    ask_fit: Ask, ask_traffic: Ask, question: dict[str, Any], said: str
) -> None:
    """In the words of `/fit`, since its times are those of a model wholly on GPUs."""
    told = [[each for each in ask(**question)["warnings"] if "on the host" in each] for ask in (ask_fit, ask_traffic)]
    assert told[0] == told[1]
    assert len(told[0]) == 1
    assert said in told[0][0]


def test_an_answer_with_times_of_a_model_wholly_on_gpus_warns_of_nothing(ask_traffic: Ask) -> None:
    assert ask_traffic(**CARD, gpu_layers=33)["warnings"] == []


def test_older_builds_put_layers_on_the_device_before_the_output(ask_fit: Ask) -> None:
    older = ask_fit(**CARD, gpu_layers=16, engine_version="b6400")
    newer = ask_fit(**CARD, gpu_layers=16)
    assert older["rank"]["kv_bytes_per_token"] == 16 * 4096
    assert newer["rank"]["kv_bytes_per_token"] == 15 * 4096


@pytest.mark.parametrize(
    "question",
    [
        CARD,
        HYBRID,
        PAIR | {"gpu_count": 2, "context_tokens": 4096},
        CARD | {"gpu_layers": 20, "memory_used_by_others_bytes": 2**30},
        {
            "model": "gemma-3-27b-it",
            "gpu": "rtx-4090",
            "engine": "llama.cpp",
            "weight_dtype": "q4_k_m",
            "context_tokens": 16384,
        },
    ],
)
def test_every_lever_gives_what_it_says(question: dict[str, Any]) -> None:
    answer = ask(question)
    assert answer is not None
    assert len(answer["levers"]) > 1
    check_levers(question, answer)


def test_what_does_not_start_says_the_longest_that_would(ask_fit: Ask) -> None:
    question = CARD | {"model": "llama-3.1-8b-instruct", "context_tokens": 131072}
    answer = ask_fit(**question)
    longest = answer["shortage"]["max_context_tokens"]
    assert answer["fits"] is False
    assert ask_fit(**question | {"context_tokens": longest})["fits"] is True
    assert ask_fit(**question | {"context_tokens": longest + 1})["fits"] is False


@pytest.mark.parametrize("backend", ["on", "off"])
@pytest.mark.parametrize("slots", [None, 3])
def test_the_longest_context_takes_the_buffer_for_it_along(ask_fit: Ask, backend: str, slots: int | None) -> None:
    question = CARD | {"model": "llama-3.1-8b-instruct", "context_tokens": 200000, "attention_backend": backend}
    question |= {"parallel_slots": slots} if slots else {}
    longest = ask_fit(**question)["shortage"]["max_context_tokens"]
    assert longest % 256 == 0
    assert ask_fit(**question | {"context_tokens": longest})["fits"] is True
    assert ask_fit(**question | {"context_tokens": longest + 1})["fits"] is False
    assert ask_fit(**question | {"context_tokens": 1024})["max_context_tokens"] >= longest


@pytest.mark.parametrize("given", [{}, {"kv_cache_bytes": 10**9}])
def test_what_is_missing_for_the_longest_sequence_of_every_slot_is_said(ask_fit: Ask, given: dict[str, int]) -> None:
    question = CARD | {"context_tokens": 2048, "context_limit_tokens": 8192, "parallel_slots": 20} | given
    short = ask_fit(**question)["shortage"]
    assert short["constraint"] == "context_limit"
    assert short["missing_bytes"] == short["needed_bytes"] - short["available_bytes"] > 0


def test_the_longest_sequence_of_a_given_cache_is_that_of_every_slot(ask_fit: Ask) -> None:
    question = CARD | {"context_tokens": 64, "parallel_slots": 20, "kv_cache_bytes": 10**9}
    short = ask_fit(**question, context_limit_tokens=8192)["shortage"]
    longest = short["max_context_tokens"]
    assert short["nearest_change"] == {"context_limit_tokens": longest}
    assert ask_fit(**question, context_limit_tokens=longest)["fits"] is True
    assert ask_fit(**question, context_limit_tokens=longest + 1)["fits"] is False


def test_every_asked_slot_must_hold_the_longest_sequence(ask_fit: Ask) -> None:
    question = CARD | {"context_tokens": 2048, "context_limit_tokens": 8192}
    assert ask_fit(**question, parallel_slots=9)["fits"] is True
    answer = ask_fit(**question, parallel_slots=10)
    assert answer["fits"] is False
    assert answer["binding"]["constraint"] == "context_limit"


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"engine_version": "v1.0"}, "/engine_version"),
        ({"tensor_split": [1, 2], "gpu_count": 3}, "/tensor_split"),
        ({"tensor_split": [0]}, "/tensor_split"),
        ({"gpu_layers": 0}, "/gpu_layers"),
        ({"kv_dtype": "q8_0", "attention_backend": "off"}, "/kv_dtype"),
        ({"kv_dtype": "q8_0/q9_9"}, "/kv_dtype"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_field(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises((ValidationError, FileNotFoundError)) as refusal:
        ask_fit(**CARD | changed)
    if isinstance(refusal.value, ValidationError):
        assert [fault.pointer for fault in refusal.value.faults] == [pointer]


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"tensor_parallel": 2}, "/tensor_parallel"),
        ({"memory_utilization": 0.9}, "/memory_utilization"),
        ({"block_tokens": 16}, "/block_tokens"),
        ({"kv_dtype": "fp8"}, "/kv_dtype"),
        ({"kv_dtype": "fp16/fp8"}, "/kv_dtype"),
        ({"weight_dtype": "awq"}, "/weight_dtype"),
        ({"attention_backend": "flashinfer"}, "/attention_backend"),
        ({"model": "deepseek-v3.2", "engine_version": "b8000"}, "/engine"),
    ],
)
def test_what_it_has_not_is_refused_by_name(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(**CARD | changed)
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]


def test_values_of_latent_attention_have_the_type_of_its_keys(ask_fit: Ask) -> None:
    question = {**CARD, "model": "deepseek-v3", "memory_bytes": 10**13, "kv_dtype": "fp16/q8_0"}
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**question)
    assert [fault.pointer for fault in refusal.value.faults] == ["/kv_dtype"]
    assert ask_fit(**question, engine_version="b7079")["kv_capacity_tokens"] > 0


def test_a_given_file_size_is_spread_as_the_weights_are(ask_fit: Ask) -> None:
    counted = ask_fit(**CARD)
    halved = ask_fit(**CARD, weight_bytes=counted["weight_bytes"] // 2)
    assert parts(halved)["weights"] == pytest.approx(parts(counted)["weights"] / 2, rel=1e-6)


def test_names_that_it_has_not_are_null_in_the_question(ask_fit: Ask) -> None:
    question = ask_fit(**CARD)["question"]
    for name in ("memory_utilization", "tensor_parallel", "data_parallel", "shared_prefix_tokens", "block_tokens"):
        assert question[name] is None


def test_plain_widths_and_checkpoints_are_what_they_become_as_files(ask_fit: Ask) -> None:
    assert ask_fit(**CARD, weight_dtype="int4")["question"]["weight_dtype"] == "q4_k_m"
    fp8 = {"model": "qwen3-30b-a3b-fp8", "gpu": "h100-sxm-80gb", "engine": "llama.cpp", "context_tokens": 4096}
    assert ask_fit(**fp8)["question"]["weight_dtype"] == "bf16"


def test_a_build_that_was_not_read_says_so(ask_fit: Ask) -> None:
    assert any("quoted by those of b8101" in line for line in ask_fit(**CARD, engine_version="b8500")["assumptions"])
    assert any("newer than b11549" in line for line in ask_fit(**CARD, engine_version="b99999")["assumptions"])


def test_traffic_asks_the_same_engine(ask_traffic: Ask) -> None:
    answer = ask_traffic(**PAIR, gpu_count=2, context_tokens=2048)
    assert answer["batch_size"] == 4
    assert answer["engine"]["name"] == "llama.cpp"
    assert answer["step"]["seconds"] > 0


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(
            [
                "llama-3.1-8b-instruct",
                "gemma-3-27b-it",
                "gpt-oss-20b",
                "deepseek-v2-lite",
                "jamba-v0.1",
                "nemotron-h-8b-base-8k",
                "deepseek-v3.2",
            ]
        ),
        "gpu": st.sampled_from(["rtx-4090", "a100-sxm-80gb", "h200-sxm-141gb", "rtx-3060-12gb"]),
        "engine": st.just("llama.cpp"),
        "context_tokens": st.integers(1, 1 << 17),
    },
    optional={
        "engine_version": st.sampled_from(["b3000", "b6100", "b6400", "b9459", "b11549"]),
        "gpu_count": st.integers(1, 4),
        "gpu_layers": st.integers(-1, 50),
        "parallel_slots": st.integers(1, 40),
        "max_batched_tokens": st.sampled_from([64, 512, 2048]),
        "memory_used_by_others_bytes": st.integers(0, 1 << 35),
        "kv_cache_bytes": st.integers(0, 1 << 36),
        "reserve_bytes": st.integers(0, 1 << 34),
        "weight_dtype": st.sampled_from(["fp16", "q8_0", "q4_k_m", "q2_k"]),
        "kv_dtype": st.sampled_from(["fp16", "q8_0", "q4_0", "q8_0/q4_0"]),
        "batch_size": st.integers(1, 200),
        "hybrid_cache": st.booleans(),
    },
)


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_ledger_closes_and_the_answer_agrees_with_itself(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_agrees(answer)


@settings(max_examples=40)
@given(QUESTIONS, st.integers(1, 1 << 15))
def test_more_context_never_gives_more_sequences(question: dict[str, Any], more: int) -> None:
    fixed = {"context_limit_tokens": 1 << 18} | question
    answer, longer = ask(fixed), ask(fixed | {"context_tokens": question["context_tokens"] + more})
    if answer and longer:
        assert longer["max_sequences"] <= answer["max_sequences"]


@settings(max_examples=40)
@given(QUESTIONS, st.integers(1, 1 << 34))
def test_more_memory_never_gives_fewer_sequences(question: dict[str, Any], more: int) -> None:
    answer, larger = (ask(question | {"memory_bytes": (1 << 35) + extra}) for extra in (0, more))
    if answer and larger:
        assert larger["max_sequences"] >= answer["max_sequences"]


def test_a_model_without_attention_is_refused_for_what_it_is(ask_fit: Ask) -> None:
    with pytest.raises(NotSupported, match=r"no layer of mamba-2\.8b attends") as caught:
        ask_fit(**CARD | {"model": "mamba-2.8b"})
    assert [fault.pointer for fault in caught.value.faults] == ["/engine"]
