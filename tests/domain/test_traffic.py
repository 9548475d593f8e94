"""One behaviour of `/traffic` a test, on models and devices of the catalog."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.holding import hold
from service.domain.question import resolve
from service.domain.quote import fit
from service.domain.traffic_quote import traffic
from service.domain.units import ceil_div
from tests.domain.conftest import Ask, Shelf

A100 = {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}
EMBEDDING_7B = 32000 * 4096
SHELF = Shelf()


def test_it_works(ask_traffic: Ask) -> None:
    answer = ask_traffic(**A100, batch_size=28)
    assert answer["weight_traffic_bytes"] == 2 * (6_738_415_616 - EMBEDDING_7B) + 28 * 4096 * 2
    assert answer["cache_traffic_bytes"] == 28 * 2**31
    assert answer["total_traffic_bytes"] == answer["weight_traffic_bytes"] + answer["cache_traffic_bytes"]
    assert answer["weight_share"] + answer["cache_share"] == pytest.approx(1)
    assert answer["ridge_batch"] == 154
    assert answer["fits"] is True


def test_a_tied_table_is_read_as_the_head(ask_traffic: Ask) -> None:
    answer = ask_traffic(
        model="gemma-2-9b", gpu="h100-sxm-80gb", context_tokens=1024, batch_size=1, weight_dtype="bf16"
    )
    assert answer["weight_traffic_bytes"] == 2 * 9_241_705_984 + 3584 * 2


def test_of_a_table_of_every_layer_rows_are_gathered_though_another_table_is_tied(ask_traffic: Ask) -> None:
    """A step on a GB10 takes 25.6 ms, too few for 10.2 GB (djangodevreng/dgx-spark-benchmarks, gemma-4-e2b-it)."""
    answer = ask_traffic(model="gemma-4-e2b-it", gpu="gb10-dgx-spark", context_tokens=4224, batch_size=1, engine="vllm")
    row, encoders = 35 * 256, 168_544_256 + 307_183_904
    read = answer["model"]["parameters"] - 262_144 * row - encoders
    assert answer["weight_traffic_bytes"] == 2 * (read + 1536 + row)
    assert answer["step"]["seconds"] == pytest.approx(0.0256, rel=0.25)


def test_grouped_heads_read_one_cache(ask_traffic: Ask) -> None:
    answer = ask_traffic(model="llama-3.1-8b-instruct", gpu="h100-sxm-80gb", context_tokens=8192, batch_size=16)
    assert answer["cache_traffic_bytes"] == 17_179_869_184
    assert answer["weight_traffic_bytes"] == 2 * (8_030_261_248 - 128256 * 4096) + 16 * 4096 * 2


@pytest.mark.parametrize("batch,touched", [(1, 2), (2, 3.5), (1000, 8)])
def test_experts_are_read_as_far_as_a_batch_touches_them(ask_traffic: Ask, batch: int, touched: float) -> None:
    question = {"model": "mixtral-8x7b-v0.1", "gpu": "h100-sxm-80gb", "context_tokens": 1024}
    expert = 3 * 4096 * 14336 * 32 * 2
    dense = 2 * (46_702_792_704 - 32000 * 4096) - 8 * expert
    read = ask_traffic(**question, batch_size=batch)["weight_traffic_bytes"] - batch * 4096 * 2
    assert read == pytest.approx(dense + touched * expert, rel=1e-9)


def test_a_windowed_cache_stops_at_its_window(ask_traffic: Ask) -> None:
    short, long = (
        ask_traffic(model="mistral-7b-v0.1", gpu="a100-sxm-80gb", context_tokens=n, batch_size=4) for n in (4096, 32768)
    )
    assert short["cache_traffic_bytes"] == long["cache_traffic_bytes"] == 4 * 4096 * 131072


def test_the_crossover_is_the_first_batch_whose_cache_passes_the_weights(ask_traffic: Ask) -> None:
    crossover = ask_traffic(**A100)["crossover_batch"]
    at, before = (ask_traffic(**A100, batch_size=n) for n in (crossover, crossover - 1))
    assert at["cache_share"] > 0.5 >= before["cache_share"]


def test_without_rates_there_are_bytes_and_no_times(ask_traffic: Ask) -> None:
    answer = ask_traffic(model="llama-2-7b", memory_bytes=80_000_000_000, batch_size=4)
    assert answer["total_traffic_bytes"] > 0
    assert answer["prefill"]["scores_per_head"] == 4096 * 4096
    nulls = ("step", "tokens_per_second", "tokens_per_second_per_sequence", "time_per_output_token_seconds")
    assert all(answer[name] is None for name in (*nulls, "ridge_batch", "efficiency"))
    assert answer["prefill"]["seconds"] is None


def test_a_card_whose_peak_nobody_knows_has_no_times_and_says_so(ask_traffic: Ask) -> None:
    question = {"model": "llama-2-7b", "gpu": "apple-m5-max-128gb", "engine": "llama.cpp", "weight_dtype": "q4_k_m"}
    untold, told = ask_traffic(**question), ask_traffic(**question, peak_flops_per_second=20e12)
    assert (untold["step"], told["step"] is None) == (None, False)
    assert any("no peak_flops_per_second of Apple M5" in warning for warning in untold["warnings"])
    assert not any("Times are null" in warning for warning in told["warnings"])


def test_the_default_batch_is_the_ceiling(ask_traffic: Ask) -> None:
    answer = ask_traffic(**A100)
    assert answer["batch_size"] == answer["question"]["batch_size"] == 28
    assert answer["taken"]["batch_size"] == "derived"


def test_scores_are_counted_for_all_heads_and_layers(ask_traffic: Ask) -> None:
    prefill = ask_traffic(**A100, prompt_tokens=2048, prefill_sequences=3)["prefill"]
    assert prefill["tokens"] == 3 * 2048
    assert prefill["scores_bytes_if_materialised"] == 2048**2 * 32 * 32 * 2 * 3
    assert prefill["scores_bytes_streaming"] == 8 * 2048 * 32 * 32 * 3


def test_prefill_work_is_two_operations_a_parameter_and_half_the_scores(ask_traffic: Ask) -> None:
    layers = 6_738_415_616 - 2 * EMBEDDING_7B
    flops = ask_traffic(**A100, prompt_tokens=2048)["prefill"]["flops"]
    assert flops == 2 * (layers * 2048 + EMBEDDING_7B) + 32 * 32 * (128 + 128) * 2048**2


def test_a_curve_is_flat_rows_that_agree_with_single_answers(ask_traffic: Ask) -> None:
    rows = ask_traffic(**A100, curve_batch_sizes=[1, 28], curve_context_tokens=[512, 4096])["curve"]
    assert [(row["batch_size"], row["context_tokens"]) for row in rows] == [(1, 512), (1, 4096), (28, 512), (28, 4096)]
    for row in rows:
        alone = ask_traffic(**A100 | {"context_tokens": row["context_tokens"]}, batch_size=row["batch_size"])
        assert row["total_traffic_bytes"] == alone["total_traffic_bytes"]
        assert row["step_seconds"] == alone["step"]["seconds"]
        assert row["fits"] == alone["fits"]


def test_a_curve_agrees_with_single_answers_to_the_last_digit(ask_traffic: Ask) -> None:
    batches = list(range(1, 40))
    rows = ask_traffic(**A100, data_parallel=3, curve_batch_sizes=batches)["curve"]
    alone = [ask_traffic(**A100, data_parallel=3, batch_size=batch) for batch in batches]
    assert [row["tokens_per_second"] for row in rows] == [answer["tokens_per_second"] for answer in alone]


def test_a_rank_reads_its_share(ask_traffic: Ask) -> None:
    answer = ask_traffic(**A100, batch_size=8, tensor_parallel=4)
    assert answer["rank"]["cache_traffic_bytes"] * 4 == answer["cache_traffic_bytes"]
    assert answer["rank"]["weight_traffic_bytes"] * 4 == pytest.approx(answer["weight_traffic_bytes"], rel=0.001)


def test_replicas_multiply_tokens_a_second_only(ask_traffic: Ask) -> None:
    one, two = (ask_traffic(**A100, batch_size=8, data_parallel=n) for n in (1, 2))
    assert two["tokens_per_second"] == pytest.approx(2 * one["tokens_per_second"])
    assert two["step"] == one["step"]
    assert two["total_traffic_bytes"] == one["total_traffic_bytes"]


def test_shares_of_a_step_add_up(ask_traffic: Ask) -> None:
    step = ask_traffic(**A100, batch_size=28, tensor_parallel=2)["step"]
    assert sum(step["shares"].values()) == pytest.approx(1)
    assert step["shares"]["communication"] * step["seconds"] == pytest.approx(step["communication_seconds"])
    assert step["shares"]["compute"] == 0


def test_a_step_of_many_sequences_is_bound_by_work(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-70b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 1}
    step = ask_traffic(**question, batch_size=512)["step"]
    assert step["bound"] == "compute"
    assert step["shares"]["weights"] == 0


def test_with_a_cache_of_its_own_for_every_head_no_batch_is_bound_by_work(ask_traffic: Ask) -> None:
    assert ask_traffic(**A100)["ridge_batch_with_cache"] is None


def test_the_ridge_with_cache_is_the_first_batch_whose_work_takes_longer(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 128}
    ridge = ask_traffic(**question)["ridge_batch_with_cache"]
    assert ridge > ask_traffic(**question)["ridge_batch"]
    at, before = (intensity(ask_traffic(**question, batch_size=n)) for n in (ridge, ridge - 1))
    assert at >= 989.4e12 / 3.35e12 > before


def intensity(answer: dict[str, Any]) -> float:
    return float(answer["arithmetic_intensity"])


def test_fewer_experts_are_timed_than_counted(ask_traffic: Ask) -> None:
    question = {"model": "mixtral-8x7b-v0.1", "gpu": "h200-sxm-141gb", "context_tokens": 16, "batch_size": 64}
    answer = ask_traffic(**question)
    expert = 3 * 4096 * 14336 * 32 * 2
    unread = 0.15 * 8 * expert * (1 - 0.75**64)
    rate = 0.84 * 4.8e12
    kept = answer["cache_traffic_bytes"] + answer["other_traffic_bytes"]
    seconds = (answer["weight_traffic_bytes"] - unread) / rate + kept / (0.85 * 4.8e12)
    assert answer["step"]["memory_seconds"] == pytest.approx(seconds)


def test_a_model_of_small_experts_has_the_widest_interval(ask_traffic: Ask) -> None:
    spreads = []
    for model in ("llama-2-7b", "mixtral-8x7b-v0.1", "qwen3-30b-a3b"):
        step = ask_traffic(model=model, gpu="h200-sxm-141gb", context_tokens=1024, batch_size=4)["step"]
        spreads.append(round(step["interval_seconds"][1] / step["seconds"] - 1, 3))
    assert spreads == [0.25, 0.35, 0.50]


def test_sequences_may_take_as_long_as_they_did_on_some_servers(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "vllm", "context_tokens": 1024}
    answer = ask_traffic(**question, batch_size=100)
    low, high = answer["step"]["interval_seconds"]
    seconds = answer["step"]["seconds"]
    assert (low, high) == (pytest.approx(0.75 * seconds), pytest.approx(1.25 * seconds + 100 * 39e-6))
    assert answer["derivation"][-1].endswith("give or take 25%, and up to 3.900 ms more for its sequences")


def test_an_all_reduce_without_nvlink_costs_a_prefill_seconds(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-70b-instruct", "weight_dtype": "fp8", "engine": "vllm", "prompt_tokens": 2048}
    slow, fast = (
        ask_traffic(**question, gpu=gpu, tensor_parallel=4, context_tokens=2048)["prefill"]
        for gpu in ("l40s", "h100-sxm-80gb")
    )
    assert slow["bound"] == "communication"
    assert slow["seconds"] > 10 * fast["seconds"]


def test_a_long_prompt_is_read_in_chunks(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "vllm", "context_tokens": 32768}
    own, asked = ask_traffic(**question), ask_traffic(**question, max_batched_tokens=1024)
    assert own["prefill"]["chunk_tokens"] == 8192
    assert asked["prefill"]["chunk_tokens"] == 1024
    assert asked["prefill"]["seconds"] > own["prefill"]["seconds"]


def test_states_cost_every_token_of_a_prompt_the_same(ask_traffic: Ask) -> None:
    """48 layers of 48 states of [128, 128], at the catalog's 1.35 bytes an element, more than without that figure."""
    question = {"model": "qwen3.6-27b", "gpu": "gb10-dgx-spark", "engine": "vllm", "calibration": "off"}
    short, long = (ask_traffic(**question, context_tokens=n)["prefill"] for n in (8192, 16384))
    slower = ask_traffic(**question, context_tokens=8192, bandwidth_bytes_per_second=273e9 / 2)["prefill"]
    states = 8192 * 48 * 48 * 128 * 128 * 1.35 / 273e9
    assert slower["seconds"] - short["seconds"] == pytest.approx(states, rel=0.2)
    assert long["seconds"] > 2 * short["seconds"]


def test_attention_of_wide_heads_takes_longer_for_the_same_work(ask_traffic: Ask) -> None:
    """What Gemma 4 reads of a prompt beyond its matrices at 512 elements a head, against Qwen3.5's 256."""
    rates = []
    for model in ("gemma-4-31b-it", "qwen3.5-9b"):
        question = {"model": model, "gpu": "gb10-dgx-spark", "engine": "vllm", "max_batched_tokens": 8192}
        once, twice = (ask_traffic(**question, context_tokens=n)["prefill"] for n in (16384, 32768))
        rates.append((twice["flops"] - 2 * once["flops"]) / (twice["seconds"] - 2 * once["seconds"]))
    assert rates[0] < 0.3 * rates[1]


def test_chunks_of_a_prompt_follow_each_other_over_the_devices_of_llama_cpp(ask_traffic: Ask) -> None:
    """16 chunks over four cards with 8 layers each, one with the head too: (4 + 15) / (16 x 4) of one card's time."""
    question = {"model": "meta-llama-3-8b", "gpu": "rtx-4090", "engine": "llama.cpp", "weight_dtype": "fp16"}
    one, four = (ask_traffic(**question, context_tokens=8192, gpu_count=n)["prefill"]["seconds"] for n in (1, 4))
    assert four / one == pytest.approx(19 / 64, rel=0.12)
    first = (ask_traffic(**question, context_tokens=512, gpu_count=n)["prefill"]["seconds"] for n in (1, 4))
    assert next(first) == pytest.approx(next(first), rel=0.02)


@pytest.mark.parametrize("engine, cards", [("llama.cpp", 1), ("llama.cpp", 4), ("vllm", 4)])
def test_a_longer_prompt_is_never_quicker(ask_traffic: Ask, engine: str, cards: int) -> None:
    question = {"model": "meta-llama-3-8b", "gpu": "rtx-4090", "engine": engine, "gpu_count": cards}
    lengths = [1, 2, 511, 512, 513, 600, 1023, 1024, 1025, 4096, 8192]
    seconds = [ask_traffic(**question, context_tokens=n)["prefill"]["seconds"] for n in lengths]
    assert seconds == sorted(seconds)


def test_a_step_reads_a_mixed_checkpoint_at_the_rate_of_its_average_width(ask_traffic: Ask) -> None:
    """0.145 s on a GB10 (djangodevreng/dgx-spark-benchmarks, gemma-4-31b-it, nvfp4), 0.197 were all of it in 4 bits."""
    answer = ask_traffic(
        model="gemma-4-31b-it-nvfp4", gpu="gb10-dgx-spark", engine="vllm", batch_size=1, context_tokens=4224
    )
    assert answer["step"]["seconds"] == pytest.approx(0.145, rel=0.1)


def test_a_step_that_takes_a_chunk_along_is_longer(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "vllm", "context_tokens": 8192}
    answer = ask_traffic(**question, batch_size=32)
    mixed = answer["prefill"]["mixed_step_seconds"]
    assert answer["step"]["seconds"] < mixed <= answer["step"]["seconds"] + answer["prefill"]["seconds"]


def test_scores_that_are_written_out_are_multiplied_too(ask_traffic: Ask) -> None:
    """A device whose memory is fast without end still multiplies at its peak."""
    question = {"model": "gemma-7b", "gpu": "rtx-3090", "engine": "llama.cpp", "prompt_tokens": 1 << 20}
    answer = ask_traffic(**question, bandwidth_bytes_per_second=1e18)
    prefill = answer["prefill"]
    assert prefill["flops"] / prefill["seconds"] <= answer["question"]["peak_flops_per_second"]


def test_a_chunk_never_shortens_the_step_that_takes_it_along(ask_traffic: Ask) -> None:
    question = {"model": "qwen2.5-3b-instruct", "gpu": "h200-sxm-141gb", "engine": "vllm", "context_tokens": 1 << 20}
    drafts = {"speculative_method": "eagle3", "speculative_tokens": 1024}
    answer = ask_traffic(**question, **drafts, batch_size=1, prompt_tokens=1)
    assert answer["prefill"]["mixed_step_seconds"] >= answer["step"]["seconds"]


def test_every_line_of_a_cache_is_the_product_that_it_says(ask_traffic: Ask) -> None:
    question = {"gpu": "h200-sxm-141gb", "context_tokens": 65536, "batch_size": 2}
    lines = ask_traffic(model="deepseek-v4-flash", **question)["derivation"]
    assert "latent: 2 sequences x (65,536 tokens read x 160 B) = 20,971,520 B" in lines
    assert "recurrent: 2 sequences x (10,485,760 B) = 20,971,520 B" in lines
    shared = ask_traffic(**A100, batch_size=3, shared_prefix_tokens=1000)["derivation"]
    part = "full: 524,288,000 B of the prefix once + 3 sequences x (4,096 tokens read x 524,288 B - 524,288,000 B)"
    assert f"{part} = 5,393,874,944 B" in shared


def test_a_kernel_of_sixteen_bits_reads_a_prompt_at_their_peak(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-8b-instruct", "engine": "vllm", "weight_dtype": "nvfp4", "context_tokens": 4096}
    wide, narrow = (ask_traffic(**question, gpu=gpu)["prefill"] for gpu in ("gb10-dgx-spark", "b200-sxm-180gb"))
    assert wide["flops"] / wide["seconds"] < 119e12
    assert narrow["flops"] / narrow["seconds"] > 2250e12 / 4


def test_the_derivation_says_what_the_seconds_are_made_of(ask_traffic: Ask) -> None:
    lines = ask_traffic(**A100, batch_size=28, tensor_parallel=2)["derivation"]
    assert "fixed: 32 layers x 41.0 us + 28 sequences x 26.0 us = 2.040 ms" in lines
    assert "64 all-reduces x (6.9 us + 229,376 B at 184.0 GB/s) = 0.521 ms" in lines
    assert lines[-1].endswith("a step, give or take 25%")


def test_an_answer_says_that_times_of_an_unnamed_release_are_older(ask_traffic: Ask) -> None:
    question = {"model": "llama-3.1-8b-instruct", "gpu": "rtx-4090", "engine": "llama.cpp", "context_tokens": 512}
    unnamed, named = ask_traffic(**question), ask_traffic(**question, engine_version="b9459")
    assert any("engine_version" in line for line in unnamed["assumptions"])
    assert not any("engine_version" in line for line in named["assumptions"])
    assert named["step"]["seconds"] < unnamed["step"]["seconds"]


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["llama-2-7b", "mixtral-8x7b-v0.1", "gemma-2-9b", "mistral-7b-v0.1"]),
        "gpu": st.sampled_from(["a100-sxm-80gb", "h100-sxm-80gb", "l4", "mi300x"]),
        "context_tokens": st.integers(1, 1 << 17),
        "batch_size": st.integers(1, 1 << 12),
        "tensor_parallel": st.sampled_from([1, 2, 4, 8]),
        "pipeline_parallel": st.integers(1, 4),
    }
)


def ask(question: dict[str, Any]) -> dict[str, Any]:
    return traffic(resolve(question, SHELF), SHELF)


@given(QUESTIONS)
def test_cache_traffic_is_linear_in_the_batch(question: dict[str, Any]) -> None:
    twice = ask(question | {"batch_size": 2 * question["batch_size"]})
    assert twice["cache_traffic_bytes"] == 2 * ask(question)["cache_traffic_bytes"]


@given(QUESTIONS)
def test_more_bandwidth_is_never_slower(question: dict[str, Any]) -> None:
    answer = ask(question)
    faster = ask(question | {"bandwidth_bytes_per_second": 2 * answer["question"]["bandwidth_bytes_per_second"]})
    assert faster["step"]["seconds"] <= answer["step"]["seconds"]


@given(QUESTIONS)
def test_ranks_never_speed_a_step_up_by_more_than_their_number(question: dict[str, Any]) -> None:
    one = ask(question | {"tensor_parallel": 1})["step"]["seconds"]
    two = ask(question | {"tensor_parallel": 2})["step"]["seconds"]
    assert two > one / 2


@given(
    st.sampled_from(["a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb"]),
    st.sampled_from(["none", "vllm"]),
    st.integers(1, 64),
    st.integers(1, 1 << 14),
)
def test_a_step_falls_with_ranks_that_are_linked(gpu: str, engine: str, batch: int, length: int) -> None:
    question = {"model": "llama-3.1-70b-instruct", "gpu": gpu, "engine": engine, "context_tokens": length}
    seconds = [ask(question | {"batch_size": batch, "tensor_parallel": n})["step"]["seconds"] for n in (1, 2, 4, 8)]
    assert all(fewer > more > fewer / 2 for fewer, more in pairwise(seconds))


@given(st.integers(4096, 1 << 17), st.integers(1, 64))
def test_windowed_layers_stop_growing_with_the_context(length: int, batch: int) -> None:
    kinds = [
        {kind["kind"]: kind["bytes"] for kind in answer["by_kind"]}
        for answer in (
            ask({"model": "gemma-2-9b", "gpu": "h100-sxm-80gb", "context_tokens": n, "batch_size": batch})
            for n in (length, 2 * length)
        )
    ]
    assert kinds[0]["sliding"] == kinds[1]["sliding"]
    assert kinds[1]["full"] == 2 * kinds[0]["full"]


@given(QUESTIONS)
def test_bytes_are_the_ledgers_own(question: dict[str, Any]) -> None:
    """A rank reads what it holds of dense weights, but for gathered rows, and every byte of its sequences' caches."""
    question = question | {"model": "llama-3.1-8b-instruct", "batch_size": 1, "pipeline_parallel": 1}
    load = hold(resolve(question, SHELF)).load
    ledger = fit(resolve(question, SHELF), SHELF)["ledger"]["parts"]
    read, parts = ask(question)["rank"], {part["name"]: part["bytes"] for part in ledger}
    rows = ceil_div(128256, question["tensor_parallel"]) * 4096 * 2
    assert read["weight_traffic_bytes"] == parts["weights"] - rows + 4096 * 2
    assert read["cache_traffic_bytes"] == load.sequence_bytes(question["context_tokens"])


@given(QUESTIONS)
def test_kinds_add_up_and_the_interval_holds_the_point(question: dict[str, Any]) -> None:
    answer = ask(question)
    assert sum(kind["bytes"] for kind in answer["by_kind"]) == answer["cache_traffic_bytes"]
    low, high = answer["step"]["interval_seconds"]
    assert low <= answer["step"]["seconds"] <= high
    assert answer["step"]["bound"] in {"memory", "compute", "communication", "overhead"}
