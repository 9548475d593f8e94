"""What no layout of a model can give, and what cannot be told: by the model's loads and by the device's rates."""

from dataclasses import replace
from typing import Any

import pytest

from service.domain.errors import ValidationError
from service.domain.gpu import Gpu
from service.domain.measurement import Judgement, Lookups, Verdict, judge
from service.domain.precision import NumberFormat
from tests.domain.judging import CATALOG, H100, LLAMA, NOW, judged, row, step, verdict

MAMBA, SLIDING = {"model": "mamba-2.8b"}, {"model": "mistral-7b-v0.1"}


class Altered:
    """The catalog, without formats of some names and with other figures of every device."""

    def __init__(self, *lost: str, **figures: object) -> None:
        self._lost, self._figures = lost, figures

    def __getattr__(self, name: str) -> object:
        return getattr(CATALOG, name)

    def format(self, name: str, pointer: str = "") -> NumberFormat:
        if name in self._lost:
            raise ValidationError.at(pointer, f"There is no format {name}.")
        return CATALOG.format(name, pointer)

    def gpu(self, name: str, pointer: str = "/gpu") -> Gpu:
        figures: Any = self._figures
        return replace(CATALOG.gpu(name, pointer), **figures)


def by(catalog: Any, measured: dict[str, Any]) -> Judgement:  # noqa: ANN401  # any that looks up
    return judge(measured, NOW, Lookups(catalog))


def test_a_cache_that_does_not_grow_has_no_rate_to_be_held_to() -> None:
    assert verdict("kv_allocation", {"bytes_per_token": 12_345}, MAMBA) is Verdict.ACCEPTED
    assert verdict("kv_allocation", {"bytes_per_token": 12_345}, LLAMA) is Verdict.QUARANTINED


def test_a_model_without_attention_allocates_no_cache() -> None:
    block = {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}}
    sizes = {"hidden_size": 4096, "num_hidden_layers": 2, "num_attention_heads": 32, "vocab_size": 32_000}
    config = {"model_type": "nemotron-nas", "torch_dtype": "float16", **sizes, "block_configs": [block, block]}

    found = judged(row("kv_allocation", {"bytes_per_token": 8}, {"config": config}))

    assert (found.verdict, found.detail) == (Verdict.QUARANTINED, "nemotron-nas keeps no cache.")


def test_where_every_layer_has_a_window_its_tokens_are_the_rate() -> None:
    rate = 32 * 2 * 8 * 128 * 2

    assert verdict("kv_allocation", {"bytes_per_token": rate}, SLIDING) is Verdict.ACCEPTED
    assert verdict("kv_allocation", {"bytes_per_token": rate // 2}, SLIDING) is Verdict.QUARANTINED


def test_a_cache_in_a_type_that_none_is_kept_in_is_held_to_nothing() -> None:
    setup = {**LLAMA, "context_tokens": 4096}
    told = {"batch_ceiling": {"passed_sequences": 280}, "engine_capacity": {"kv_capacity_tokens": 10**6}}
    for kind, values in told.items():
        assert verdict(kind, values, setup) is Verdict.QUARANTINED
        assert verdict(kind, values, {**setup, "kv_dtype": "w4a16"}) is Verdict.ACCEPTED


@pytest.mark.parametrize("override", [{"weight_bytes": 10**9}, {"parameters": 10**9}])
def test_a_step_of_weights_that_are_not_the_catalogs_is_not_compared_with_those(override: dict[str, int]) -> None:
    assert step(0.001, **LLAMA) is Verdict.QUARANTINED
    assert step(0.001, **LLAMA, **override) is Verdict.ACCEPTED


def test_a_step_in_a_type_that_nobody_knows_is_kept_until_somebody_does() -> None:
    found = by(Altered("fp5"), row("decode_step", {"seconds": 0.0001}, {**LLAMA, "weight_dtype": "fp5"}))

    assert (found.verdict, found.detail) == (Verdict.UNMATCHED, "There is no format fp5.")


def test_a_mix_of_widths_is_at_least_its_narrowest_which_the_catalog_has_to_have() -> None:
    measured = row("decode_step", {"seconds": 0.0001}, {**LLAMA, "weight_dtype": "q4_k_m"})

    assert judged(measured).verdict is Verdict.QUARANTINED
    assert by(Altered("int4"), measured).verdict is Verdict.ACCEPTED


def test_without_the_type_that_rates_are_told_in_no_rate_is_wrong() -> None:
    measured = row("kv_allocation", {"bytes_per_token": 52_428}, LLAMA)

    assert judged(measured).verdict is Verdict.QUARANTINED
    assert by(Altered("fp16"), measured).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize(
    "lost, measured",
    [
        ("bandwidth_bytes_per_second", row("memory_bandwidth", {"bytes_per_second": 1e14})),
        ("bandwidth_bytes_per_second", row("all_reduce", {"bytes": 2**30, "ranks": 8, "seconds": 1e-6})),
        ("bandwidth_bytes_per_second", row("decode_step", {"seconds": 0.001}, {**LLAMA, "batch_size": 1})),
        ("peaks", row("matmul_rate", {"flops_per_second": 1e17, "dtype": "bf16"})),
        ("peaks", row("prefill", {"seconds": 1e-6}, {**LLAMA, "prompt_tokens": 8192})),
    ],
)
def test_a_device_whose_rate_is_not_listed_is_held_to_none(lost: str, measured: dict[str, Any]) -> None:
    unlisted: object = {} if lost == "peaks" else None

    assert judged(measured).verdict is Verdict.QUARANTINED
    assert by(Altered(**{lost: unlisted}), measured).verdict is Verdict.ACCEPTED


@pytest.mark.parametrize("stages", [2, 4])
def test_no_step_is_over_before_the_fullest_stage_is(stages: int) -> None:
    """The last has the head beside its share of the layers, and no head is counted as read."""
    share, setup = (4 * 4096**2 + 3 * 4096 * 11008) * 32 // stages * 2, {**LLAMA, "pipeline_parallel": stages}
    least = (share - 2 * 50 * 2**20) / (3.35e12 * 1.05)

    assert step(least * 1.01, **setup) is Verdict.ACCEPTED
    assert step(least * 0.99, **setup) is Verdict.QUARANTINED


@pytest.mark.parametrize("other, found", [("h100", Verdict.ACCEPTED), ("rtx-4090", Verdict.QUARANTINED)])
def test_a_setup_is_of_the_device_that_was_measured(other: str, found: Verdict) -> None:
    name = H100 if other == "h100" else other
    measured = judged(row("memory_bandwidth", {"bytes_per_second": 2.9e12}, {"gpu": name}))

    assert measured.verdict is found
    assert (measured.detail is None) == (found is Verdict.ACCEPTED)


def test_a_setup_is_of_the_engine_that_ran() -> None:
    software = {"engine": "TensorRT_LLM"}
    same, other = (
        judged(row("device_memory", {"total_bytes": 85_029_615_043}, {"engine": name}, software=software))
        for name in ("tensorrt-llm", "vllm")
    )

    assert same.verdict is Verdict.ACCEPTED
    assert (other.verdict, other.detail) == (
        Verdict.QUARANTINED,
        "setup.engine vllm contradicts software.engine TensorRT_LLM.",
    )


def test_a_device_that_lists_nothing_can_be_computed_with_speaks_against_what_was_measured_on_it() -> None:
    found = by(Altered(bandwidth_bytes_per_second=0.0), row("memory_bandwidth", {"bytes_per_second": 2.9e12}))

    assert found.verdict is Verdict.QUARANTINED
    assert "cannot be computed with" in (found.detail or "")
