"""One behaviour of `/fit` a test, on models and devices of the catalog."""

from typing import Any

import pytest

from service.domain.errors import NotSupported, QuoteError, ValidationError
from tests.domain.conftest import Ask, Shelf

A100 = {"model": "llama-2-7b", "gpu": "a100-sxm-80gb"}


def parts(answer: dict[str, Any]) -> dict[str, int]:
    return {part["name"]: part["bytes"] for part in answer["ledger"]["parts"]}


def pointers(error: QuoteError) -> list[str]:
    return [fault.pointer for fault in error.faults]


def test_it_works(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, context_tokens=4096)
    assert answer["fits"] is True
    assert answer["max_sequences"] == 28
    assert answer["max_context_tokens"] == 118690
    assert answer["kv_capacity_tokens"] == 118690
    assert answer["weight_bytes"] == 13_476_831_232
    assert answer["binding"] == {"constraint": "kv_cache", "to_gain_one_sequence_bytes": 48_824_320}
    assert answer["roofline"] == {"ridge_batch": 154, "shortfall": 5.5}
    assert answer["shortage"] is None


def test_the_ledger_adds_up_to_the_memory(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, memory_utilization=0.9, memory_used_by_others_bytes=123_456_789)
    assert sum(parts(answer).values()) == answer["ledger"]["memory_bytes"] == 80_000_000_000
    assert parts(answer)["outside_budget"] == 8_000_000_000
    assert parts(answer)["others"] == 123_456_789


def test_the_ledger_shows_what_is_too_much(ask_fit: Ask) -> None:
    answer = ask_fit(model="llama-2-70b", gpu="a100-sxm-80gb")
    assert answer["fits"] is False
    assert answer["max_sequences"] == 0
    assert answer["ledger"]["overcommitted_bytes"] == 137_953_296_384 + 4_294_967_296 - 80_000_000_000
    assert sum(parts(answer).values()) == 80_000_000_000 + answer["ledger"]["overcommitted_bytes"]
    assert answer["shortage"]["constraint"] == answer["binding"]["constraint"] == "weights"


def test_a_shortage_names_the_fewest_gpus_when_no_lever_is_enough(ask_fit: Ask) -> None:
    answer = ask_fit(model="llama-3.1-405b-instruct", gpu="a100-sxm-80gb", context_tokens=8192)
    change = answer["shortage"]["nearest_change"]
    assert set(change) == {"tensor_parallel"}
    assert ask_fit(model="llama-3.1-405b-instruct", gpu="a100-sxm-80gb", context_tokens=8192, **change)["fits"]


def test_what_a_shortage_misses_makes_it_fit(ask_fit: Ask) -> None:
    short = ask_fit(**A100, batch_size=40)["shortage"]
    assert short["missing_bytes"] == short["needed_bytes"] - short["available_bytes"]
    enough = ask_fit(model="llama-2-7b", memory_bytes=80_000_000_000 + short["missing_bytes"], batch_size=40)
    assert enough["fits"] is True
    assert (
        ask_fit(model="llama-2-7b", memory_bytes=enough["ledger"]["memory_bytes"] - 1, batch_size=40)["fits"] is False
    )


def test_the_bytes_to_gain_one_sequence_gain_exactly_one(ask_fit: Ask) -> None:
    answer = ask_fit(**A100)
    more = 80_000_000_000 + answer["binding"]["to_gain_one_sequence_bytes"]
    assert ask_fit(model="llama-2-7b", memory_bytes=more)["max_sequences"] == 29
    assert ask_fit(model="llama-2-7b", memory_bytes=more - 1)["max_sequences"] == 28


def test_every_lever_gives_what_it_says(ask_fit: Ask) -> None:
    answer = ask_fit(**A100)
    assert {lever["move"] for lever in answer["levers"]} == {"smaller", "shared", "released"}
    for lever in answer["levers"]:
        changed = ask_fit(**A100 | lever["change"])
        assert changed["max_sequences"] == lever["max_sequences"] == 28 + lever["gain"]


def test_a_fixed_cache_size_skips_the_reserve(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, kv_cache_bytes=10 * 2**31)
    assert answer["max_sequences"] == 10
    assert parts(answer)["reserve"] == 0
    assert parts(answer)["unused"] == 80_000_000_000 - 13_476_831_232 - 10 * 2**31


def test_a_fixed_cache_size_larger_than_the_memory_does_not_fit(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, kv_cache_bytes=70_000_000_000)
    assert answer["ledger"]["overcommitted_bytes"] == 3_476_831_232
    assert answer["fits"] is False
    assert answer["max_sequences"] == 0


def test_a_shared_prefix_is_stored_once(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, shared_prefix_tokens=2048)
    assert answer["max_sequences"] == (62_228_201_472 - 2**30) // 2**30


def test_visible_memory_is_what_a_process_sees(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, memory_basis="visible")
    assert answer["ledger"]["memory_bytes"] == answer["question"]["memory_bytes"] > 84_000_000_000
    assert answer["taken"]["memory_bytes"] == "measured"


def test_a_longer_limit_decides_the_start_and_not_the_ceiling(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, context_tokens=4096, context_limit_tokens=200_000)
    assert answer["max_sequences"] == 28
    assert answer["fits"] is False
    assert answer["max_concurrency"] < 1
    assert answer["shortage"]["constraint"] == "context_limit"
    assert answer["shortage"]["max_context_tokens"] == 118690
    assert "published for" in answer["warnings"][0]


def test_a_windowed_model_has_no_longest_context_when_all_layers_slide(ask_fit: Ask) -> None:
    answer = ask_fit(model="mistral-7b-v0.1", gpu="a100-sxm-80gb", context_tokens=32768)
    assert answer["max_context_tokens"] is None
    assert answer["kv_bytes_per_token"] == 0
    assert answer["cache"][0]["window_tokens"] == 4096
    assert answer["kv_bytes_per_sequence"] == 4096 * 131072


@pytest.mark.parametrize("pipeline", [1, 2, 4])
@pytest.mark.parametrize("tensor", [1, 2, 8])
def test_ranks_hold_the_whole_model_between_them(ask_fit: Ask, tensor: int, pipeline: int) -> None:
    answer = ask_fit(**A100, tensor_parallel=tensor, pipeline_parallel=pipeline)
    share = answer["rank"]["kv_bytes_per_sequence"] * tensor
    assert share == answer["kv_bytes_per_sequence"] // pipeline
    assert parts(answer)["weights"] * tensor * pipeline >= answer["weight_bytes"]


def test_key_value_heads_are_replicated_beyond_their_number(ask_fit: Ask) -> None:
    eight, sixteen = (
        ask_fit(model="llama-2-70b", gpu="a100-sxm-80gb", tensor_parallel=n)["rank"]["kv_bytes_per_token"]
        for n in (8, 16)
    )
    assert eight == sixteen == 327_680 // 8


def test_replicas_multiply_the_ceiling(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, data_parallel=3, batch_size=84)
    assert (answer["max_sequences"], answer["max_sequences_per_replica"]) == (84, 28)
    assert answer["fits"] is True
    assert ask_fit(**A100, data_parallel=3, batch_size=85)["fits"] is False


def test_the_last_stage_but_one_takes_the_spare_layer(ask_fit: Ask) -> None:
    answer = ask_fit(model="gemma-2-9b", gpu="a100-sxm-80gb", pipeline_parallel=4)
    assert answer["rank"]["pipeline_stage"] in {0, 2, 3}


def test_a_gpu_count_alone_is_tensor_parallel(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, gpu_count=4)
    assert answer["question"]["tensor_parallel"] == 4
    assert answer["taken"]["tensor_parallel"] == "derived"
    assert "gpu_count 4 is taken as tensor_parallel 4" in answer["assumptions"]


@pytest.mark.parametrize(
    "changed,pointer",
    [
        ({"gpu_count": 4, "tensor_parallel": 2}, "/gpu_count"),
        ({"tensor_parallel": 3}, "/tensor_parallel"),
        ({"pipeline_parallel": 33}, "/pipeline_parallel"),
        ({"expert_parallel": True}, "/expert_parallel"),
        ({"context_tokens": 200, "context_limit_tokens": 100}, "/context_limit_tokens"),
        ({"shared_prefix_tokens": 4096}, "/shared_prefix_tokens"),
        ({"assume": "decoder"}, "/assume"),
        ({"config": {}}, "/config"),
    ],
)
def test_contradictions_are_refused_by_field(ask_fit: Ask, changed: dict[str, Any], pointer: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**A100 | changed)
    assert pointers(refusal.value) == [pointer]


def test_a_split_that_cannot_be_says_which_can(ask_fit: Ask) -> None:
    with pytest.raises(ValidationError, match=r"these counts work: 1, 2, 4, 8, 16, 32\."):
        ask_fit(**A100, tensor_parallel=3)


@pytest.mark.parametrize("name", ["lengths", "block_tokens", "engine_version"])
def test_a_name_without_a_meaning_is_refused_and_not_ignored(ask_fit: Ask, name: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(**A100 | {name: "x"})
    assert pointers(refusal.value) == [f"/{name}"]


@pytest.mark.parametrize("name", ["ollama", "tgi", "lmdeploy"])
def test_an_engine_that_cannot_be_quoted_yet_is_refused_by_name(ask_fit: Ask, name: str) -> None:
    with pytest.raises(NotSupported, match=name):
        ask_fit(**A100, engine=name)


def test_a_mistyped_engine_gets_the_nearest(ask_fit: Ask) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**A100, engine="vlm")
    assert refusal.value.faults[0].nearest[0] == "vllm"


@pytest.mark.parametrize("missing", ["model", "gpu"])
def test_a_question_without_model_or_memory_is_refused(ask_fit: Ask, missing: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(**{name: value for name, value in A100.items() if name != missing})
    assert pointers(refusal.value) == [f"/{missing}"]


DECODER = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}


def test_a_config_is_answered_without_an_id(ask_fit: Ask, shelf: Shelf) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "torch_dtype": "float16",
    }
    answer = ask_fit(config=config, gpu="a100-sxm-80gb")
    assert answer["model"]["id"] is answer["model"]["revision"] is None
    assert answer["max_sequences"] == 28
    assert shelf.revision == answer["catalog_revision"]


def test_an_unknown_family_with_a_decoders_fields_is_taken_as_one_when_told(ask_fit: Ask) -> None:
    config = {
        "model_type": "never-heard-of",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
    }
    with pytest.raises(QuoteError, match="never-heard-of"):
        ask_fit(config=config, gpu="a100-sxm-80gb")
    answer = ask_fit(config=config, gpu="a100-sxm-80gb", assume="decoder")
    assert answer["kv_bytes_per_token"] == 524_288
    assert any("never-heard-of" in warning for warning in answer["warnings"])


def test_a_type_that_the_device_cannot_compute_in_is_said(ask_fit: Ask) -> None:
    answer = ask_fit(model="llama-3.1-8b-instruct", gpu="t4", context_tokens=1024)
    assert any("bf16" in warning for warning in answer["warnings"])


def test_every_name_is_echoed_with_its_source(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, context_tokens=4096)
    assert answer["question"].keys() == answer["taken"].keys()
    assert answer["taken"]["context_tokens"] == "request"
    assert answer["taken"]["weight_dtype"] == "catalog"
    assert answer["taken"]["kv_dtype"] == "derived"
    assert answer["question"]["block_tokens"] is None


def test_a_tiny_count_of_parameters_is_answered(ask_fit: Ask) -> None:
    answer = ask_fit(model="mixtral-8x7b-v0.1", gpu="a100-sxm-80gb", parameters=1)
    assert answer["weight_bytes"] == 2
    assert answer["model"]["active_parameters"] == 1


def test_the_start_is_decided_by_the_rank_that_is_fullest_at_the_limit(ask_fit: Ask) -> None:
    """Stages of a windowed model fill in another order at another length."""
    question = {"model": "gemma-3-27b-it", "gpu": "rtx-4090", "pipeline_parallel": 4, "context_tokens": 1000}
    short = ask_fit(**question, context_limit_tokens=196_856)
    alone = ask_fit(**question | {"context_tokens": 196_856})
    assert short["fits"] is alone["fits"] is False
    assert short["max_concurrency"] == alone["max_concurrency"]
    assert short["max_context_tokens"] == alone["max_context_tokens"] < 196_856


def test_a_nearest_change_makes_it_fit_when_it_is_asked(ask_fit: Ask) -> None:
    questions: list[dict[str, Any]] = [
        A100 | {"context_limit_tokens": 200_000, "batch_size": 2, "context_tokens": 4096},
        A100 | {"batch_size": 100},
        {"model": "llama-3.1-70b-instruct", "gpu": "h100-sxm-80gb", "gpu_count": 1, "batch_size": 30}
        | {"context_tokens": 8192},
    ]
    for question in questions:
        change = ask_fit(**question)["shortage"]["nearest_change"]
        assert ask_fit(**question | change)["fits"] is True


def test_a_stage_without_a_cache_of_its_own_hides_no_lever(ask_fit: Ask) -> None:
    question = {"model": "gemma-3n-e4b-it", "memory_bytes": 20_500_479_040, "pipeline_parallel": 3}
    question |= {"reserve_bytes": 0, "context_tokens": 512}
    for lever in ask_fit(**question)["levers"]:
        assert ask_fit(**question | lever["change"])["max_sequences"] == lever["max_sequences"]


def test_levers_from_32_bits_come_true(ask_fit: Ask) -> None:
    question = A100 | {"weight_dtype": "fp32"}
    for lever in ask_fit(**question)["levers"]:
        assert ask_fit(**question | lever["change"])["max_sequences"] == lever["max_sequences"]


def test_an_overcommitted_cache_has_no_capacity(ask_fit: Ask) -> None:
    answer = ask_fit(**A100, kv_cache_bytes=100_000_000_000)
    assert (answer["max_concurrency"], answer["kv_capacity_tokens"], answer["max_sequences"]) == (0.0, 0, 0)


def test_what_others_take_is_missing_too(ask_fit: Ask) -> None:
    short = ask_fit(**A100, memory_used_by_others_bytes=10**15)["shortage"]
    assert short["missing_bytes"] > 10**15 - 80_000_000_000


@pytest.mark.parametrize("name,size", [("fp8_ds_mla", 656), ("nvfp4_ds_mla", 352)])
def test_a_latent_vector_keeps_its_positions_wide(ask_fit: Ask, name: str, size: int) -> None:
    answer = ask_fit(model="deepseek-v3.2", gpu="h200-sxm-141gb", kv_dtype=name, context_tokens=1024)
    assert answer["kv_bytes_per_token"] == (size + 132) * 61


def test_a_format_that_covers_nothing_of_the_model_is_refused(ask_fit: Ask) -> None:
    with pytest.raises(NotSupported, match="expert"):
        ask_fit(**A100, weight_dtype="mxfp4")
    with pytest.raises(NotSupported, match="latent"):
        ask_fit(**A100, kv_dtype="fp8_ds_mla")


def test_everything_that_is_missing_is_named_at_once(ask_fit: Ask) -> None:
    with pytest.raises(ValidationError) as refusal:
        ask_fit(context_tokens=4096)
    assert pointers(refusal.value) == ["/model", "/gpu"]


def test_a_limit_alone_asks_about_sequences_of_that_length(ask_fit: Ask) -> None:
    question = ask_fit(model="llama-2-7b", gpu="a100-sxm-80gb", context_limit_tokens=1024)["question"]
    assert (question["context_tokens"], question["context_limit_tokens"]) == (1024, 1024)


@pytest.mark.parametrize(
    "given, pointer",
    [
        ({"gpu": "a100-sxm-80gb", "gpu_count": 3}, "/gpu_count"),
        ({"gpus": ["a100-sxm-80gb"] * 3}, "/gpus"),
        ({"gpu": "a100-sxm-80gb", "tensor_parallel": 3, "gpu_count": 3}, "/tensor_parallel"),
        ({"gpu": "a100-sxm-80gb", "engine": "llama.cpp", "tensor_split": [1] * 40}, "/tensor_split"),
        ({"gpus_memory_bytes": [10**11] * 40, "engine": "llama.cpp"}, "/gpus_memory_bytes"),
    ],
)
def test_a_layout_that_cannot_be_is_refused_at_the_name_that_says_so(
    ask_fit: Ask, given: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(ValidationError) as caught:
        ask_fit(model="llama-2-7b", context_tokens=4096, **given)
    assert [fault.pointer for fault in caught.value.faults] == [pointer]
