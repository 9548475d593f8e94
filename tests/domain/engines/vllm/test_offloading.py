"""Weights in host memory: which parameters stay there, what that leaves to the cache, and what is not known."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import NotSupported
from tests.domain.conftest import Ask
from tests.domain.engines.vllm.conftest import GIB, Hold

ASKED: dict[str, Any] = {"gpu": "rtx-4090", "model": "llama-3.1-8b-instruct", "context_tokens": 4096}
# Llama-3.1-8B in 16 bits: queries, keys and values of 6,144 rows, then their output, 28,672 rows of gate and up, down.
QKV, OUT, GATE_UP, DOWN, NORMS = 6144 * 8192, 4096 * 8192, 28672 * 8192, 14336 * 8192, 2 * 8192
LAYER = QKV + OUT + GATE_UP + DOWN + NORMS


def hosted(quote: Hold, budget: int, **asked: object) -> int:
    """Bytes that stay in host memory."""
    return quote(**{**ASKED, **asked}, cpu_offload_bytes=budget).hosted_bytes


@pytest.mark.parametrize(
    "budget, expected",
    [
        (1, QKV),
        (QKV, QKV),
        (QKV + 1, QKV + OUT),
        (QKV + OUT + 1, QKV + OUT + GATE_UP),
        (LAYER, LAYER),
        (LAYER + 1, LAYER + QKV),
        (4 * GIB, 9 * LAYER + QKV + OUT + GATE_UP + DOWN),
        (100 * GIB, 32 * LAYER),
    ],
)
def test_parameters_are_moved_in_their_order_until_the_budget_is_reached(
    quote: Hold, budget: int, expected: int
) -> None:
    assert hosted(quote, budget) == expected


def test_what_is_in_host_memory_is_room_for_the_cache_to_the_byte(quote: Hold) -> None:
    plain, moved = quote(**ASKED), quote(**ASKED, cpu_offload_bytes=4 * GIB)
    assert plain.rank.weight_bytes - moved.rank.weight_bytes == 4_362_223_616
    assert moved.rank.room_bytes - plain.rank.room_bytes == 4_362_223_616
    assert moved.blocks - plain.blocks == pytest.approx(4_362_223_616 / (131072 * 16), abs=1)


@pytest.mark.parametrize(
    "model, version, budget, loaded",
    [
        ("meta-llama-3-70b-instruct", "0.9.2", 70, "61.2922"),
        ("qwen2.5-0.5b-instruct", "0.24.0", 1, "0.26"),
    ],
)
def test_what_is_left_on_the_device_is_what_logs_print(
    quote: Hold, model: str, version: str, budget: int, loaded: str
) -> None:
    """Sources: vLLM pull request 6496 (0.5.2, where the order is the same) and issue 53931, 0.67 GiB moved."""
    asked = {"model": model, "engine_version": version, "memory_bytes": 96 * GIB, "context_tokens": 4096}
    held = quote(**asked, cpu_offload_bytes=budget * GIB)
    digits = len(loaded.partition(".")[2])
    assert f"{held.rank.weight_bytes / GIB:.{digits}f}" == loaded


def test_the_budget_is_that_of_every_rank(quote: Hold) -> None:
    assert hosted(quote, LAYER // 2, tensor_parallel=2) == (LAYER + NORMS) // 2
    moved = quote(**ASKED, pipeline_parallel=2, cpu_offload_bytes=LAYER)
    assert moved.loaded.hosted_bytes == (LAYER, LAYER)


def test_experts_of_a_layer_are_two_parameters(quote: Hold) -> None:
    """Mixtral-8x7B: 2 x 14,336 rows of 4,096 for each of eight experts, 1.75 GiB, at once."""
    asked = {"model": "mixtral-8x7b-instruct-v0.1", "gpu": "a100-sxm-80gb", "context_tokens": 4096}
    attention = QKV + OUT + 8 * 4096 * 2
    assert quote(**asked, cpu_offload_bytes=attention + 1).hosted_bytes == attention + 8 * GATE_UP


@pytest.mark.parametrize("version", ["0.22.0", "0.25.1", "0.27.1"])
def test_the_second_runner_moved_nothing_at_first(quote: Hold, version: str) -> None:
    """Source: vLLM pull request 48468 and issue 51396."""
    asked = {**ASKED, "model": "qwen3-8b", "engine_version": version}
    assert quote(**asked, cpu_offload_bytes=4 * GIB).hosted_bytes == 0
    assert quote(**{**asked, "engine_version": "0.28.0"}, cpu_offload_bytes=4 * GIB).hosted_bytes > 4 * GIB


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"gpu": "t4"}, "give an engine_version from 0.10 on"),
        ({"weight_dtype": "fp32"}, "only 16-bit weights"),
        ({"model": "deepseek-v2-lite", "parameters": 1e9}, "In which order"),
        ({"model": "qwen3-30b-a3b", "gpu": "b200-sxm-180gb", "weight_dtype": "fp8"}, "only 16-bit weights"),
        ({"gpu": "mi300x", "max_loras": 1}, "only NVIDIA's own memory"),
    ],
)
def test_what_no_other_release_helps_against_is_said_first(quote: Hold, asked: dict[str, object], said: str) -> None:
    with pytest.raises(NotSupported) as raised:
        quote(**{**ASKED, **asked}, engine_version="0.9.0", cpu_offload_bytes=GIB)
    assert said in raised.value.faults[0].detail


@pytest.mark.parametrize(
    "asked, said",
    [
        ({"engine_version": "0.7.3"}, "copies the weights of a layer"),
        ({"model": "qwen3-32b-awq"}, "only 16-bit weights"),
        ({"weight_dtype": "fp8"}, "only 16-bit weights"),
        ({"model": "deepseek-v2-lite"}, "In which order"),
        ({"model": "qwen3-30b-a3b", "gpu": "b200-sxm-180gb"}, "new weights of what was loaded"),
        ({"gpu": "mi300x"}, "only NVIDIA's own memory"),
        ({"gpu": "gb10-dgx-spark"}, "only NVIDIA's own memory"),
        ({"weight_bytes": 10**10}, "leave them out"),
        ({"model": "qwen2.5-vl-7b-instruct"}, "encoder_budget_tokens 0"),
        ({"model": "gemma-3-1b-it", "engine_version": "0.19.0"}, "hybrid_cache false"),
        ({"max_loras": 2}, "follow weights into host memory"),
    ],
)
def test_what_is_not_known_is_refused_at_the_name(quote: Hold, asked: dict[str, object], said: str) -> None:
    with pytest.raises(NotSupported) as raised:
        quote(**{**ASKED, **asked}, cpu_offload_bytes=GIB)
    assert raised.value.faults[0].pointer == "/cpu_offload_bytes"
    assert said in raised.value.faults[0].detail


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "gemma-3-1b-it", "engine_version": "0.19.0", "hybrid_cache": False},
        {"model": "gemma-3-1b-it", "engine_version": "0.20.0"},
        {"model": "qwen2.5-vl-7b-instruct", "encoder_budget_tokens": 0},
        {"model": "qwen2.5-vl-7b-instruct", "engine_version": "0.19.0"},
        {"model": "qwen3-30b-a3b", "gpu": "h100-sxm-80gb"},
        {"gpu": "t4", "tensor_parallel": 4, "engine_version": "0.10.0"},
    ],
)
def test_the_way_out_of_a_refusal_is_one(quote: Hold, asked: dict[str, object]) -> None:
    assert quote(**{**ASKED, **asked}, cpu_offload_bytes=GIB).hosted_bytes >= GIB


@given(budgets=st.tuples(st.integers(0, 20 * GIB), st.integers(0, 20 * GIB)), tensor=st.sampled_from([1, 2, 4]))
def test_more_in_host_memory_never_leaves_less_cache(quote: Hold, budgets: tuple[int, int], tensor: int) -> None:
    less, more = (quote(**ASKED, tensor_parallel=tensor, cpu_offload_bytes=budget) for budget in sorted(budgets))
    assert more.blocks >= less.blocks
    assert more.low_blocks >= less.low_blocks
    assert less.hosted_bytes <= more.hosted_bytes <= 32 * LAYER


def test_no_time_is_told_of_weights_behind_a_link(ask_traffic: Ask) -> None:
    answer = ask_traffic(**ASKED, engine="vllm", batch_size=8, cpu_offload_bytes=GIB, curve_batch_sizes=[1, 8])
    times = ("step", "tokens_per_second", "tokens_per_second_per_sequence", "time_per_output_token_seconds")
    assert [answer[name] for name in times] == [None] * 4
    assert answer["prefill"]["seconds"] is answer["prefill"]["mixed_step_seconds"] is answer["efficiency"] is None
    assert [row["step_seconds"] for row in answer["curve"]] == [None, None]
    assert answer["weight_traffic_bytes"] == ask_traffic(**ASKED, engine="vllm", batch_size=8)["weight_traffic_bytes"]


def test_an_answer_says_what_is_in_host_memory(ask_fit: Ask) -> None:
    answer = ask_fit(**ASKED, engine="vllm", cpu_offload_bytes=100 * GIB)
    weights = next(part for part in answer["ledger"]["parts"] if part["name"] == "weights")
    assert weights["note"].endswith(f"- {32 * LAYER:,} B in host memory")
    assert any("no times are told" in warning for warning in answer["warnings"])
    assert any("Only the 13,959,168,000 bytes" in warning for warning in answer["warnings"])


def test_an_answer_says_that_the_second_runner_moves_nothing(ask_fit: Ask) -> None:
    answer = ask_fit(**ASKED, engine="vllm", engine_version="0.25.1", cpu_offload_bytes=GIB)
    assert any("moves nothing to host memory" in warning for warning in answer["warnings"])
