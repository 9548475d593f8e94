"""Batch defaults by device and release, and which of them are refused."""

import pytest

from service.domain.errors import ValidationError
from tests.domain.engines.vllm.conftest import GIB, Hold

MODEL = "llama-3.1-8b-instruct"


@pytest.mark.parametrize(
    "version, gpu, tokens, sequences",
    [
        ("0.8.3", "a100-sxm-80gb", 2048, 1024),
        ("0.8.4", "a100-sxm-80gb", 2048, 256),
        ("0.8.4", "h100-sxm-80gb", 8192, 1024),
        ("0.8.4", "mi300x", 2048, 256),
        ("0.8.5", "mi300x", 8192, 1024),
        ("0.19.1", "h100-sxm-80gb", 8192, 1024),
        ("0.19.1", "a100-sxm-80gb", 2048, 256),
        ("0.19.1", "l40s", 2048, 256),
        ("0.19.1", "b200-sxm-180gb", 8192, 1024),
        ("0.28.0", "b200-sxm-180gb", 16384, 1024),
        # The driver does not tell this device's memory, so that it falls into the last tier.
        ("0.8.5", "gb10-dgx-spark", 2048, 256),
        ("0.13.0", "gb10-dgx-spark", 2048, 256),
        ("0.31.0", "gb10-dgx-spark", 2048, 256),
        ("0.33.0", "gb10-dgx-spark", 2048, 256),
    ],
)
def test_batch_defaults_follow_the_device_and_the_release(
    quote: Hold, version: str, gpu: str, tokens: int, sequences: int
) -> None:
    batch = quote(model=MODEL, gpu=gpu, engine_version=version).batch
    assert (batch.tokens, batch.sequences) == (tokens, sequences)


@pytest.mark.parametrize(
    "model, version, tokens",
    [
        ("gemma-4-26b-a4b-it", "0.21.0", 2048),
        ("gemma-4-26b-a4b-it", "0.25.1", 2496),
        ("gemma-4-31b-it", "0.33.0", 2496),
        ("gemma-4-e4b-it", "0.25.1", 2048),
        ("qwen2.5-vl-7b-instruct", "0.25.1", 2048),
    ],
)
def test_a_batch_holds_the_largest_picture_that_it_may_not_cut(
    quote: Hold, model: str, version: str, tokens: int
) -> None:
    """Source: 9.81 requests of 32,768 tokens in 12.75 GiB, gemma-4-26B-A4B on an L40S with 0.25.1."""
    assert quote(model=model, gpu="l40s", engine_version=version, tensor_parallel=4).batch.tokens == tokens


def test_tokens_that_are_asked_for_hold_whatever_a_picture_takes(quote: Hold) -> None:
    asked = {"model": "gemma-4-26b-a4b-it", "gpu": "b200-sxm-180gb", "engine_version": "0.25.1"}
    assert quote(**asked, max_batched_tokens=2048).batch.tokens == 2048
    assert quote(**asked).batch.tokens == 8192


@pytest.mark.parametrize(
    "version, context, tokens",
    [("0.6.4.post1", 20000, 20000), ("0.6.4.post1", 1000, 2048), ("0.5.4", 40000, 512), ("0.6.6", 40000, 2048)],
)
def test_the_older_core_profiles_whole_prompts_and_long_ones_in_chunks(
    quote: Hold, version: str, context: int, tokens: int
) -> None:
    assert quote(model=MODEL, gpu="rtx-3090", engine_version=version, context_tokens=context).batch.tokens == tokens


def test_latent_attention_had_no_chunks_in_the_older_core(quote: Hold) -> None:
    held = quote(model="deepseek-r1", memory_bytes=800 * GIB, engine_version="0.7.3", context_tokens=65536)
    assert held.batch.tokens == 65536


def test_sequences_do_not_exceed_the_tokens_of_a_batch(quote: Hold) -> None:
    assert quote(model=MODEL, gpu="h100-sxm-80gb", max_batched_tokens=512).batch.sequences == 512


def test_tokens_follow_more_sequences_where_nobody_sets_them(quote: Hold) -> None:
    assert quote(model=MODEL, gpu="l40s", max_sequences_limit=4096).batch.tokens == 4096


def test_fewer_tokens_than_sequences_are_refused(quote: Hold) -> None:
    with pytest.raises(ValidationError, match="below the 512 sequences") as refused:
        quote(model=MODEL, gpu="l40s", max_batched_tokens=256, max_sequences_limit=512)
    assert refused.value.faults[0].pointer == "/max_batched_tokens"


@pytest.mark.parametrize(
    "version, asked, batches",
    [
        ("0.19.1", {}, 1),
        ("0.33.0", {}, 2),
        ("0.33.0", {"async_scheduling": False}, 1),
        ("0.33.0", {"pipeline_parallel": 2}, 3),
        ("0.33.0", {"pipeline_parallel": 2, "async_scheduling": False}, 2),
    ],
)
def test_batches_in_flight_follow_scheduling_and_pipeline(
    quote: Hold, version: str, asked: dict[str, bool | int], batches: int
) -> None:
    assert quote(model=MODEL, gpu="h100-sxm-80gb", engine_version=version, **asked).batch.concurrent == batches


@pytest.mark.parametrize("version, batches", [("0.27.0", 2), ("0.33.0", 3)])
def test_the_first_runner_schedules_no_stages_ahead(quote: Hold, version: str, batches: int) -> None:
    """max_concurrent_batches in config/vllm.py of both: Mixtral has experts, so that 0.27.0 takes the first for it."""
    asked = {"model": "mixtral-8x7b-v0.1", "gpu": "h100-sxm-80gb", "tensor_parallel": 2, "pipeline_parallel": 2}
    assert quote(**asked, engine_version=version).batch.concurrent == batches


def test_the_older_core_profiles_pictures_for_as_many_sequences_as_it_has_items(quote: Hold) -> None:
    held = quote(model="qwen2.5-vl-7b-instruct", gpu="a100-sxm-80gb", engine_version="0.7.3", context_tokens=32768)
    assert held.batch.profiled == 2
    assert held.batch.sequences == 256
