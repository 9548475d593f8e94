"""What a release refuses, and which of its cores runs."""

from typing import Any

import pytest

from service.domain.errors import NotSupported, ValidationError
from tests.domain.engines.vllm.conftest import GIB, Hold

MODEL = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb"}


@pytest.mark.parametrize(
    "asked, pointer, words",
    [
        ({"block_tokens": 24}, "/block_tokens", "no blocks of 24 tokens, only multiples of 16"),
        ({"block_tokens": 64, "engine_version": "0.6.6"}, "/block_tokens", "only 8, 16, 32"),
        ({"block_tokens": 256, "engine_version": "0.9.1"}, "/block_tokens", "only 1, 8, 16, 32, 64, 128"),
        ({"block_tokens": 128, "attention_backend": "FLASHINFER"}, "/block_tokens", "only 16, 32, 64"),
        ({"attention_backend": "FLASHMLA"}, "/attention_backend", "this model has not"),
        ({"speculative_tokens": 2}, "/speculative_tokens", "Give the speculative_method"),
        ({"speculative_method": "mtp", "speculative_tokens": 1}, "/speculative_method", "no layers of its own"),
        (
            {"speculative_method": "ngram", "speculative_tokens": 9, "context_tokens": 8},
            "/speculative_tokens",
            "longer",
        ),
        ({"decode_context_parallel": 3, "tensor_parallel": 4}, "/decode_context_parallel", "does not divide"),
        (
            {"decode_context_parallel": 2, "tensor_parallel": 4},
            "/decode_context_parallel",
            "every KV head on 2 ranks: tensor_parallel 4 puts Llama-3.1-8B-Instruct's 8 on 1 each",
        ),
        ({"decode_context_parallel": 2, "tensor_parallel": 8}, "/decode_context_parallel", "8 on 1 each"),
        ({"decode_context_parallel": 4, "tensor_parallel": 16}, "/decode_context_parallel", "8 on 2 each"),
        (
            {"model": "qwen2.5-7b-instruct", "decode_context_parallel": 2, "tensor_parallel": 28},
            "/decode_context_parallel",
            "does not divide the 7 query heads",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    quote: Hold, asked: dict[str, Any], pointer: str, words: str
) -> None:
    with pytest.raises(ValidationError, match=words) as refused:
        quote(**MODEL | asked)
    assert refused.value.faults[0].pointer == pointer


@pytest.mark.parametrize(
    "asked, pointer, words",
    [
        ({"attention_backend": "flash_atn"}, "/attention_backend", "No attention backend is called 'flash_atn'"),
        ({"kv_dtype": "nvfp4", "engine_version": "0.11.0"}, "/kv_dtype", "0.19.0 was the first"),
        ({"kv_dtype": "int4", "engine_version": "0.20.0"}, "/kv_dtype", "0.26.0 was the first"),
        ({"kv_dtype": "q8_0"}, "/kv_dtype", "vLLM has no cache of type q8_0"),
        ({"speculative_method": "eagel", "speculative_tokens": 1}, "/speculative_method", "cannot be quoted"),
        ({"sampler_backend": "sorted"}, "/sampler_backend", "No sampler is called 'sorted'"),
    ],
)
def test_what_the_release_does_not_know_is_not_supported(
    quote: Hold, asked: dict[str, Any], pointer: str, words: str
) -> None:
    with pytest.raises(NotSupported, match=words) as refused:
        quote(**MODEL | asked)
    assert refused.value.faults[0].pointer == pointer


def test_a_misspelt_name_is_answered_with_the_one_meant(quote: Hold) -> None:
    with pytest.raises(NotSupported) as refused:
        quote(**MODEL, attention_backend="flash_atn")
    assert "flash_attn" in refused.value.faults[0].nearest


def test_latent_attention_is_not_computed_by_a_backend_without_it(quote: Hold) -> None:
    with pytest.raises(ValidationError, match="computes no latent attention"):
        quote(model="deepseek-v3", gpu="h200-sxm-141gb", tensor_parallel=8, attention_backend="FLASH_ATTN")


@pytest.mark.parametrize(
    "asked, core",
    [
        ({"gpu": "t4", "engine_version": "0.8.5", "weight_dtype": "fp16", "kv_dtype": "fp16"}, "v0"),
        ({"gpu": "t4", "engine_version": "0.10.0", "weight_dtype": "fp16", "kv_dtype": "fp16"}, "v1"),
        ({"gpu": "a100-sxm-80gb", "engine_version": "0.8.5"}, "v1"),
        ({"gpu": "a100-sxm-80gb", "engine_version": "0.8.5", "kv_dtype": "fp8"}, "v0"),
        ({"gpu": "h100-sxm-80gb", "engine_version": "0.8.5", "kv_dtype": "fp8"}, "v1"),
        ({"gpu": "h100-sxm-80gb", "engine_version": "0.8.5", "weight_dtype": "fp32"}, "v0"),
        ({"gpu": "h100-sxm-80gb", "engine_version": "0.9.1", "weight_dtype": "fp32"}, "v1"),
        ({"gpu": "h200-sxm-141gb", "engine_version": "0.9.2", "model": "jamba-v0.1"}, "v0"),
        ({"gpu": "h200-sxm-141gb", "engine_version": "0.10.0", "model": "jamba-v0.1"}, "v1"),
        ({"memory_bytes": 80 * GIB, "engine_version": "0.8.5"}, "v1"),
    ],
)
def test_a_newer_core_falls_back_for_what_it_cannot_do_yet(quote: Hold, asked: dict[str, Any], core: str) -> None:
    assert quote(**{"model": "llama-3.2-1b-instruct", "context_tokens": 8192} | asked).rules.core == core


def test_bf16_on_a_device_without_it_does_not_start(quote: Hold) -> None:
    held = quote(model="llama-3.2-1b-instruct", gpu="t4", weight_dtype="bf16", context_tokens=4096)
    assert not held.starts
    assert [refusal.constraint for refusal in held.refusals] == ["dtype"]


def test_utilization_above_what_is_free_does_not_start(quote: Hold) -> None:
    held = quote(**MODEL, memory_used_by_others_bytes=20 * GIB)
    assert not held.starts
    assert [refusal.constraint for refusal in held.refusals] == ["free_memory"]


def test_a_fixed_pool_asks_nothing_of_utilization(quote: Hold) -> None:
    assert quote(**MODEL, memory_used_by_others_bytes=20 * GIB, kv_cache_bytes=20 * GIB).starts
