"""Real caches, allocated and touched: what the kernel says they took is what the service quotes."""

from argparse import ArgumentParser, Namespace

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure import kv
from kvquote_probe.measure.asking import model_form
from kvquote_probe.measure.setting import Bench, add_device_arguments
from kvquote_probe.readings import Reading
from tests.clients.probe.measure.conftest import AppService

PAGE = 4096
HEAP = 128 * 1024  # tensors below 64 KiB share pages of the heap


def asked(line: str) -> Namespace:
    parser = ArgumentParser()
    add_device_arguments(parser)
    kv.add_arguments(parser)
    return parser.parse_args(line.split())


def measured(bench: Bench, line: str) -> Reading:
    (reading,) = kv.measure(asked(line), lambda _: None, bench)
    return reading


# One of each kind of cache; a window short enough that the larger pool is beyond it.
KINDS = [
    ("gpt2", 1024, {"full"}),
    ("smollm2-135m-instruct", 1024, {"full"}),
    ("gemma-3-270m-it", 4096, {"sliding", "full"}),
    ("llama-4-scout-17b-16e-instruct", 512, {"chunked", "full"}),
    ("deepseek-v2-lite", 1024, {"latent"}),
    ("deepseek-v3.2", 512, {"latent", "indexer"}),
    ("llama-3.2-11b-vision-instruct", 256, {"cross", "full"}),
    ("falcon-h1-0.5b-instruct", 1024, {"recurrent", "full"}),
]


@pytest.mark.parametrize("model, context, kinds", KINDS)
def test_the_slope_is_what_the_service_quotes(bench: Bench, model: str, context: int, kinds: set[str]) -> None:
    values = measured(bench, f"--model {model} --context {context} --sequences 1").values

    # Each tensor begins and ends within a page, in both pools.
    rounding = 2 * PAGE * values["tensors"] / (values["tokens"][1] - values["tokens"][0])
    assert values["bytes_per_token"] == pytest.approx(values["quoted_bytes_per_token"], abs=rounding)
    assert {row["kind"] for row in values["by_kind"]} == kinds
    for row in values["by_kind"]:
        assert row["bytes"] == pytest.approx(row["arithmetic_bytes"], abs=4 * PAGE * row["layers"] + HEAP), row


@pytest.mark.parametrize(
    "kv_dtype", ["fp32", "bf16", "fp8", "fp8_e5m2", "int8", "int4", "q8_0", "q5_0", "q4_0", "nvfp4", "q8_0/q4_0"]
)
def test_every_cache_type_takes_what_the_service_quotes(bench: Bench, kv_dtype: str) -> None:
    values = measured(bench, f"--model smollm2-135m-instruct --context 2048 --sequences 1 --kv-dtype {kv_dtype}").values

    rounding = 2 * PAGE * values["tensors"] / (values["tokens"][1] - values["tokens"][0])
    assert values["bytes_per_token"] == pytest.approx(values["quoted_bytes_per_token"], abs=rounding)


@pytest.mark.parametrize("kv_dtype", ["fp8_ds_mla", "nvfp4_ds_mla"])
def test_a_latent_vector_keeps_its_position_part_wider(bench: Bench, kv_dtype: str) -> None:
    values = measured(bench, f"--model deepseek-v3 --context 2048 --sequences 1 --kv-dtype {kv_dtype}").values

    rounding = 2 * PAGE * values["tensors"] / (values["tokens"][1] - values["tokens"][0])
    assert values["bytes_per_token"] == pytest.approx(values["quoted_bytes_per_token"], abs=rounding)


def test_a_larger_pool_comes_closer_to_arithmetic(bench: Bench) -> None:
    values = measured(bench, "--model gpt2 --context 1024 --sequences 4").values

    assert values["bytes_per_token"] == pytest.approx(values["quoted_bytes_per_token"], rel=0.002)


def test_a_pool_is_as_large_as_half_the_free_memory_holds(bench: Bench) -> None:
    small = Bench(bench.nursery, {"device": "cpu", "limit_bytes": 400_000_000}, bench.say, given_service=bench.service)

    values = measured(small, "--model gpt2 --context 1024").values

    assert values["sequences"] == 200_000_000 // (1024 * 73_728)


def test_a_sequence_that_is_too_long_says_what_may_be_used(bench: Bench) -> None:
    small = Bench(bench.nursery, {"device": "cpu", "limit_bytes": 10_000_000}, bench.say, given_service=bench.service)

    with pytest.raises(MeasureError, match="--context"):
        measured(small, "--model gpt2 --context 1024")


def test_a_model_that_keeps_a_vector_for_several_tokens_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(MeasureError, match=r"DeepSeek-V4|deepseek-v4"):
        measured(bench, "--model deepseek-v4-flash --context 256")


def test_a_name_that_the_service_does_not_know_is_refused_in_its_words(bench: Bench) -> None:
    with pytest.raises(MeasureError, match="lama"):
        measured(bench, "--model lama-2-7b")


@pytest.mark.parametrize(
    "model, longest, expected",
    [
        ("gpt2", 1024, (256, 1024)),
        ("gemma-3-270m-it", 4096, (1024, 4096)),
        ("phi-3-mini-4k-instruct", 4096, (2047, 4096)),
        ("phi-3-mini-4k-instruct", 2000, (500, 2000)),
    ],
)
def test_no_window_ends_between_the_two_lengths(
    service: AppService, model: str, longest: int, expected: tuple[int, int]
) -> None:
    assert kv.compared_contexts(model_form(service, {"model": model}), longest) == expected


def test_a_plan_names_the_model_and_the_share() -> None:
    args = asked("--model gpt2 --fraction 0.5")

    text = "\n".join(kv.plan(args))
    assert "gpt2" in text
    assert "50%" in text
