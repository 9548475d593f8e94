"""Settings as engines print them in their logs, in the words of a question."""

from dataclasses import replace
from typing import Any

import pytest

from service.domain.commands import understand
from service.domain.commands.meaning import Understood
from service.domain.engines.plain import PlainEngine
from tests.domain.commands.command_cases import catalog


def understood(engine: str, version: str | None = None, **given: object) -> Understood:
    found = catalog().engine(engine)
    assert not isinstance(found, PlainEngine)
    return understand(found, given, version)


def test_destinations_and_values_of_their_own_types_are_read() -> None:
    found = understood(
        "vllm",
        model="Qwen/Qwen3-8B",
        tensor_parallel_size=2,
        max_model_len=8192,
        gpu_memory_utilization=0.9,
        enforce_eager=True,
        enable_prefix_caching=False,
        kv_cache_dtype="fp8",
        speculative_config={"method": "ngram", "num_speculative_tokens": 3},
        served_model_name=["qwen"],
        host=None,
        dtype="bfloat16",
    )

    assert found.settings == {
        "model": "Qwen/Qwen3-8B",
        "tensor_parallel": 2,
        "context_limit_tokens": 8192,
        "memory_utilization": 0.9,
        "enforce_eager": True,
        "prefix_caching": False,
        "kv_dtype": "fp8",
        "speculative_method": "ngram",
        "speculative_tokens": 3,
        "_dtype": "bfloat16",
    }
    assert found.ignored == ["served_model_name", "host"]
    assert (found.refused, found.wrong) == ([], [])


def test_names_that_only_logs_have_lead_to_their_flags() -> None:
    found = understood(
        "vllm", model_tag="Qwen/Qwen3-8B", max_seq_len=4096, chunked_prefill_enabled=True, subparser="serve"
    )

    assert found.settings == {"model": "Qwen/Qwen3-8B", "context_limit_tokens": 4096}
    assert (found.refused, found.wrong) == ([], [])


def test_what_is_off_leaves_the_default() -> None:
    found = understood("vllm", enable_lora=False, enable_sleep_mode=False, cpu_offload_gb=0, quantization=None)

    assert found.settings == {}
    assert (found.refused, found.wrong) == ([], [])


def test_what_is_not_modelled_and_what_nobody_knows_are_told_apart() -> None:
    found = understood("vllm", num_gpu_blocks_override=512, no_such_setting=1, max_model_len="much")

    assert [fault.detail.split(" ")[0] for fault in found.refused] == ["num_gpu_blocks_override"]
    assert len(found.wrong) == 2


def test_settings_of_several_names_are_settled() -> None:
    assert understood("sglang", tp_size=8, dp_size=8, enable_dp_attention=True).settings == {
        "tensor_parallel": 8,
        "attention_data_parallel": 8,
    }
    assert understood("llama.cpp", ctx_size=8192, parallel=4, cache_type_k="q8_0").settings == {
        "context_limit_tokens": 2048,
        "parallel_slots": 4,
        "kv_dtype": "q8_0/fp16",
    }


def test_adapters_are_held_where_the_engine_is_asked_for_them() -> None:
    engine: Any = catalog().engine("vllm")
    quoting = replace(engine, takes=engine.takes | {"max_loras", "max_lora_rank"})

    assert understand(quoting, {"enable_lora": True, "max_loras": 4}).settings == {"max_loras": 4, "max_lora_rank": 16}
    assert understand(quoting, {"enable_lora": False, "max_loras": 4}).settings == {}


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt-llm", "llama.cpp"])
def test_every_flag_is_found_by_every_spelling(engine: str) -> None:
    found = catalog().engine(engine)
    assert not isinstance(found, PlainEngine)

    told = {s: found.flags.dest(s) for flag in found.flags.flags for s in flag.spellings}
    assert {
        s for s, flag in told.items() if flag is None or s.lstrip("-") not in {x.lstrip("-") for x in flag.spellings}
    } == set()


def test_two_names_that_say_two_things_of_one_contradict_each_other() -> None:
    found = understood("vllm", max_model_len=4096, max_seq_len=8192)

    assert any("context_limit_tokens to 4096 and 8192" in fault.detail for fault in found.wrong)


@pytest.mark.parametrize("many, refused", [(1024, False), (1025, True)])
def test_no_more_sizes_of_graphs_are_read_than_a_question_takes(many: int, refused: bool) -> None:
    found = understood("vllm", cudagraph_capture_sizes=list(range(1, many + 1)))

    assert bool(found.wrong) == refused
    assert ("graph_sizes" in found.settings) != refused
