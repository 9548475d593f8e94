"""What measurements are taken for, by a catalog of files and by the clock."""

from datetime import timedelta
from typing import Any

import pytest

from service.domain.measurement import Lookups, Verdict, gpu_name, judge
from service.domain.model import from_config
from service.domain.parallel import tensor_counts
from tests.domain.judging import CATALOG, GEFORCE, H100, LLAMA, NOW, TOTAL, judged, row, step, verdict


def test_what_a_healthy_card_reports_is_accepted() -> None:
    assert judged(row("device_memory", {"total_bytes": TOTAL, "nvml_total_bytes": 85_520_809_984})) == (
        Verdict.ACCEPTED,
        None,
        H100,
        None,
    )


@pytest.mark.parametrize(
    "values",
    [
        {"total_bytes": 90_000_000_000},
        {"total_bytes": TOTAL, "free_bytes": TOTAL + 1},
        {"total_bytes": TOTAL, "context_bytes": TOTAL + 1},
        {"total_bytes": TOTAL, "nvml_total_bytes": 90_000_000_000},
    ],
)
def test_more_memory_than_the_box_or_the_whole_is_quarantined(values: dict[str, int]) -> None:
    assert verdict("device_memory", values) is Verdict.QUARANTINED


@pytest.mark.parametrize(
    "total, words",
    [
        (int(80 * 2**30 * 1.011), "is just above what"),
        (3 * TOTAL, "is 2.94 times what"),
        (10**15, "is 11,526 times what"),
    ],
)
def test_how_far_a_figure_is_beyond_what_can_be_is_said_in_plain_numbers(total: int, words: str) -> None:
    assert words in (judged(row("device_memory", {"total_bytes": total})).detail or "")


def test_a_cache_that_takes_memory_holds_tokens() -> None:
    assert verdict("engine_capacity", {"kv_capacity_tokens": 0, "kv_cache_bytes": 2**34}, LLAMA) is Verdict.QUARANTINED
    assert verdict("engine_capacity", {"kv_capacity_tokens": 0, "kv_cache_bytes": 0}, LLAMA) is Verdict.ACCEPTED


def test_heads_beyond_counting_are_not_counted() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 8192,
        "intermediate_size": 28672,
        "num_hidden_layers": 80,
        "num_attention_heads": 2**31,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
    }

    assert tensor_counts(from_config(config).architecture) == tuple(2**power for power in range(13))
    assert verdict("kv_allocation", {"bytes_per_token": 131_072}, {"config": config}) is Verdict.QUARANTINED


def test_copies_of_layers_beyond_those_of_the_model_take_their_time_too() -> None:
    setup = {**LLAMA, "batch_size": 1, "context_tokens": 1024}

    assert verdict("decode_step", {"seconds": 0.0045, "layers_timed": 32}, setup) is Verdict.ACCEPTED
    assert verdict("decode_step", {"seconds": 0.0045, "layers_timed": 64}, setup) is Verdict.QUARANTINED
    assert verdict("decode_step", {"seconds": 0.0090, "layers_timed": 64}, setup) is Verdict.ACCEPTED


def test_the_number_on_the_box_may_be_read_as_gib_and_a_percent() -> None:
    assert verdict("device_memory", {"total_bytes": int(80 * 2**30 * 1.01)}) is Verdict.ACCEPTED
    assert verdict("device_memory", {"total_bytes": int(80 * 2**30 * 1.01) + 1}) is Verdict.QUARANTINED


@pytest.mark.parametrize("factor", [8, 1024, 1024**2, 1 / 8, 1 / 1024, 1 / 1024**2])
@pytest.mark.parametrize(
    "kind, name, honest",
    [
        ("device_memory", "total_bytes", TOTAL),
        ("memory_bandwidth", "bytes_per_second", 2.9e12),
        ("kv_allocation", "bytes_per_token", 524_288),
    ],
)
def test_a_unit_off_by_8_or_1024_is_quarantined(kind: str, name: str, honest: float, factor: float) -> None:
    assert verdict(kind, {name: honest}, LLAMA) is Verdict.ACCEPTED
    assert verdict(kind, {name: honest * factor}, LLAMA) is Verdict.QUARANTINED


def test_rows_that_share_their_parts_are_told_apart_by_those_that_they_do_not() -> None:
    lookups, gpu, other = Lookups(CATALOG), {"name": H100}, {"name": "RTX 9090"}
    setup = {"model": "nobody-7b"}
    rows = [
        row("kv_allocation", {"bytes_per_token": 524_288}, LLAMA, gpu=gpu),
        row("kv_allocation", {"bytes_per_token": 52_428}, LLAMA, gpu=gpu),
        row("kv_allocation", {"bytes_per_token": 524_288}, LLAMA, gpu=other),
        row("kv_allocation", {"bytes_per_token": 524_288}, setup, gpu=gpu),
        row("device_memory", {"total_bytes": TOTAL}, setup, gpu=gpu),
    ]

    together = [judge(one, NOW, lookups) for one in rows]

    assert together == [judged(one) for one in rows]
    assert [one.verdict.value for one in together] == [
        *("accepted", "quarantined", "unmatched", "unmatched", "accepted"),
    ]


def test_parts_that_are_gone_are_not_taken_for_others_in_their_place() -> None:
    """Python gives a new object the identity of one that nobody holds any more."""
    lookups = Lookups(CATALOG)
    names = [H100, "RTX 9090"] * 50

    found = [judge(row("power", {"watts": 1}, gpu={"name": name}), NOW, lookups).gpu_id for name in names]

    assert found == [H100, None] * 50


def test_the_reason_names_the_unit_that_was_perhaps_meant() -> None:
    assert "1,024" in (judged(row("device_memory", {"total_bytes": TOTAL // 1024})).detail or "")
    assert "bits" in (judged(row("memory_bandwidth", {"bytes_per_second": 2.9e12 * 8})).detail or "")


def test_a_slice_of_a_card_is_a_device_of_its_own() -> None:
    card = {"name": "NVIDIA H100 80GB HBM3", "mig_profile": "1g.10gb"}

    assert gpu_name({"gpu": card}) == "NVIDIA H100 80GB HBM3 MIG 1g.10gb"
    assert gpu_name({"gpu": {**card, "name": "NVIDIA H100 80GB HBM3 MIG 1g.10gb"}}) == gpu_name({"gpu": card})


def test_memory_of_a_slice_under_the_name_of_its_card_is_quarantined() -> None:
    assert verdict("device_memory", {"total_bytes": 10_468_982_784}) is Verdict.QUARANTINED


def test_a_device_with_too_much_memory_is_another_one() -> None:
    gpu = {"name": H100, "memory_bytes": 150_000_000_000}

    assert verdict("memory_bandwidth", {"bytes_per_second": 2.9e12}, gpu=gpu) is Verdict.QUARANTINED


def test_bandwidth_may_pass_the_list_by_five_percent() -> None:
    assert verdict("memory_bandwidth", {"bytes_per_second": 3.35e12 * 1.05}) is Verdict.ACCEPTED
    assert verdict("memory_bandwidth", {"bytes_per_second": 3.35e12 * 1.051}) is Verdict.QUARANTINED


def test_a_read_from_the_cache_is_told_as_one() -> None:
    found = judged(row("memory_bandwidth", {"bytes_per_second": 6e12, "working_set_bytes": 2**20}))

    assert (found.verdict, "cache" in (found.detail or "")) == (Verdict.QUARANTINED, True)


def test_a_slow_gather_is_no_wrong_unit() -> None:
    slow = {"bytes_per_second": 3.35e12 * 0.11}

    assert verdict("memory_bandwidth", slow) is Verdict.QUARANTINED
    assert verdict("memory_bandwidth", {**slow, "access": "gather"}) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "dtype, flops, found",
    [
        ("bfloat16", 795e12, Verdict.ACCEPTED),
        ("bf16", 1979e12, Verdict.QUARANTINED),
        ("fp8_e4m3", 1453e12, Verdict.ACCEPTED),
        ("fp8", 3958e12, Verdict.QUARANTINED),
        ("fp4", 1900e12, Verdict.ACCEPTED),
        ("fp32", 494e12, Verdict.QUARANTINED),
    ],
)
def test_a_matmul_is_compared_with_the_peak_of_its_type(dtype: str, flops: float, found: Verdict) -> None:
    assert verdict("matmul_rate", {"flops_per_second": flops, "dtype": dtype}) is found


def test_a_card_that_accumulates_in_16_bits_may_pass_its_list() -> None:
    fast = {"flops_per_second": 340e12, "dtype": "fp16"}

    assert verdict("matmul_rate", fast, gpu={"name": GEFORCE}) is Verdict.ACCEPTED
    assert verdict("matmul_rate", {**fast, "flops_per_second": 400e12}, gpu={"name": GEFORCE}) is Verdict.QUARANTINED


@pytest.mark.parametrize(
    "rate, setup, found",
    [
        (524_288, LLAMA, Verdict.ACCEPTED),
        (262_144, LLAMA, Verdict.QUARANTINED),
        (262_144, {**LLAMA, "tensor_parallel": 2}, Verdict.ACCEPTED),
        (262_144, {**LLAMA, "gpu_count": 2}, Verdict.ACCEPTED),
        (262_144, {**LLAMA, "pipeline_parallel": 2}, Verdict.ACCEPTED),
        (262_144, {**LLAMA, "kv_dtype": "fp8"}, Verdict.ACCEPTED),
        (524_288, {**LLAMA, "kv_dtype": "fp8"}, Verdict.QUARANTINED),
        (131_072, {"model": "meta-llama-3-8b"}, Verdict.ACCEPTED),
        (524_288, {"model": "meta-llama-3-8b"}, Verdict.QUARANTINED),
        (262_144, {**LLAMA, "decode_context_parallel": 2}, Verdict.ACCEPTED),
        (524_288, {**LLAMA, "tensor_parallel": 3}, Verdict.QUARANTINED),
    ],
)
def test_a_cache_rate_has_to_be_one_of_the_models_layouts(rate: int, setup: dict[str, Any], found: Verdict) -> None:
    assert verdict("kv_allocation", {"bytes_per_token": rate}, setup) is found


def test_several_devices_allow_for_their_splits() -> None:
    values = {"bytes_per_token": 262_144}

    assert verdict("kv_allocation", values, LLAMA, gpu={"name": H100, "count": 2}) is Verdict.ACCEPTED


def test_the_slope_of_two_allocations_is_a_rate() -> None:
    pair = {"tokens": [1000, 2000], "bytes": [600_000_000, 600_000_000 + 524_288_000]}

    assert verdict("kv_allocation", pair, LLAMA) is Verdict.ACCEPTED
    assert verdict("kv_allocation", {**pair, "bytes_per_token": 400_000}, LLAMA) is Verdict.QUARANTINED


def test_a_model_without_a_cache_allocates_none() -> None:
    config = {"model_type": "bert", "hidden_size": 8}

    assert verdict("kv_allocation", {"bytes_per_token": 8}, {"config": config}) is Verdict.UNMATCHED


def test_an_inline_config_is_a_model() -> None:
    sizes = {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 11008}
    config = {"model_type": "llama", "vocab_size": 32_000, "torch_dtype": "float16", **sizes}

    assert verdict("kv_allocation", {"bytes_per_token": 524_288}, {"config": config}) is Verdict.ACCEPTED
    assert verdict("kv_allocation", {"bytes_per_token": 52_428}, {"config": config}) is Verdict.QUARANTINED


def test_a_batch_whose_cache_exceeds_the_memory_did_not_pass() -> None:
    setup = {**LLAMA, "context_tokens": 4096}

    assert verdict("batch_ceiling", {"passed_sequences": 28}, setup) is Verdict.ACCEPTED
    assert verdict("batch_ceiling", {"passed_sequences": 280}, setup) is Verdict.QUARANTINED
    assert verdict("batch_ceiling", {"passed_sequences": 280}, {**setup, "shared_prefix_tokens": 4000}) is (
        Verdict.ACCEPTED
    )


@pytest.mark.parametrize("setup", [{}, {"context_tokens": 4096, "shared_prefix_tokens": 4096}])
def test_no_sequence_takes_less_than_a_token_however_much_it_shares(setup: dict[str, Any]) -> None:
    assert verdict("batch_ceiling", {"passed_sequences": 100_000}, {**LLAMA, **setup}) is Verdict.ACCEPTED
    assert verdict("batch_ceiling", {"passed_sequences": 1_000_000}, {**LLAMA, **setup}) is Verdict.QUARANTINED


@pytest.mark.parametrize("name", ["decode_context_parallel", "attention_data_parallel"])
def test_a_cache_that_is_split_beside_its_heads_is_bound_by_the_device_too(name: str) -> None:
    setup = {**LLAMA, "tensor_parallel": 2, name: 2}

    assert verdict("kv_allocation", {"bytes_per_token": 131_072}, setup) is Verdict.ACCEPTED
    assert verdict("kv_allocation", {"bytes_per_token": 1e12}, setup) is Verdict.QUARANTINED
    assert verdict("engine_capacity", {"kv_capacity_tokens": 500_000}, setup) is Verdict.ACCEPTED
    assert verdict("engine_capacity", {"kv_capacity_tokens": 1_000_000}, setup) is Verdict.QUARANTINED


def test_an_engines_parts_fit_the_device() -> None:
    parts = {"kv_capacity_tokens": 112_000, "kv_cache_bytes": 112_000 * 524_288, "weight_bytes": 13_476_831_232}

    assert verdict("engine_capacity", parts, LLAMA) is Verdict.ACCEPTED
    assert verdict("engine_capacity", {**parts, "other_bytes": 20 * 2**30}, LLAMA) is Verdict.QUARANTINED


def test_an_engines_tokens_and_bytes_agree_with_the_model() -> None:
    off = {"kv_capacity_tokens": 112_000, "kv_cache_bytes": 112_000 * 52_428}

    assert verdict("engine_capacity", off, LLAMA) is Verdict.QUARANTINED
    assert verdict("engine_capacity", off, {**LLAMA, "speculative_method": "eagle"}) is Verdict.ACCEPTED


def test_the_studys_impossible_row_is_quarantined() -> None:
    """72B in 16 bits over four cards, a token in a millisecond: eleven times what their memories can read."""
    setup = {"model": "qwen2-72b-instruct", "tensor_parallel": 4, "batch_size": 1, "context_tokens": 1024}

    assert step(0.00098, **setup) is Verdict.QUARANTINED
    assert step(0.0165, **setup) is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "measured",
    [
        row("device_memory", {"total_bytes": 1}, gpu={"name": "RTX 9090"}),
        row("device_memory", {"total_bytes": 1}, gpu=None),
        row("power", {"watts": 700}),
        row("decode_step", {"seconds": 1}, {"model": "nobody-7b"}),
        row("decode_step", {"seconds": 1}),
        row("decode_step", {"seconds": 1}, {"config": {"model_type": "nobody"}}),
    ],
    ids=["gpu", "no gpu", "kind", "model", "no model", "architecture"],
)
def test_what_is_not_known_is_unmatched_with_the_reason(measured: dict[str, Any]) -> None:
    found = judged(measured)

    assert found.verdict is Verdict.UNMATCHED
    assert found.detail


def test_a_model_that_a_kind_is_not_about_may_be_unknown() -> None:
    assert verdict("device_memory", {"total_bytes": TOTAL}, {"model": "nobody-7b"}) is Verdict.ACCEPTED


def test_a_run_on_the_cpu_is_kept_and_says_so() -> None:
    found = judged(row("device_memory", {"total_bytes": 1}, gpu={"name": "CPU"}))

    assert (found.verdict, found.gpu_id) == (Verdict.ACCEPTED, None)
    assert "never learned" in (found.detail or "")


@pytest.mark.parametrize(
    "ahead, found", [(timedelta(hours=23), Verdict.ACCEPTED), (timedelta(hours=25), Verdict.QUARANTINED)]
)
def test_a_clock_that_is_more_than_a_day_ahead_is_quarantined(ahead: timedelta, found: Verdict) -> None:
    measured = row("device_memory", {"total_bytes": TOTAL}, measured_at=(NOW + ahead).isoformat())

    assert judged(measured).verdict is found


def test_what_is_impossible_is_so_whatever_else_is_unknown() -> None:
    far = (NOW + timedelta(days=30)).isoformat()

    assert judged(row("power", {"watts": 1}, measured_at=far)).verdict is Verdict.QUARANTINED


@pytest.mark.parametrize(
    "kind, values, setup",
    [
        ("device_memory", {"total_bytes": 1}, None),
        ("device_memory", {"total_bytes": 30 * 2**30}, None),
        ("memory_bandwidth", {"bytes_per_second": 1e-300, "access": "read"}, None),
        ("memory_bandwidth", {"bytes_per_second": 1.7, "access": "gather"}, None),
        ("matmul_rate", {"flops_per_second": 1e9, "dtype": "bf16", "m": 4096, "n": 4096, "k": 4096}, None),
        ("decode_step", {"seconds": 1e6}, {"model": "llama-2-7b", "batch_size": 1, "context_tokens": 1024}),
        ("decode_step", {"seconds": 12.0}, {"model": "llama-2-7b", "batch_size": 1, "context_tokens": 1024}),
        ("prefill", {"seconds": 1e6}, {"model": "llama-2-7b", "prompt_tokens": 1024}),
        ("engine_capacity", {"kv_cache_bytes": 54}, {"model": "llama-2-7b"}),
        ("engine_capacity", {"kv_capacity_tokens": 2**53 - 1}, {"model": "llama-2-7b"}),
    ],
)
def test_a_figure_far_below_or_above_what_can_be_is_quarantined(
    kind: str, values: dict[str, Any], setup: dict[str, Any] | None
) -> None:
    assert verdict(kind, values, setup) is Verdict.QUARANTINED
