"""From a setting to block sizes, request bounds and weights."""

import pytest

from service.domain.engines.vllm import VllmEngine
from service.domain.engines.vllm.planning import block_tokens
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf

MODEL = "llama-3.1-8b-instruct"


@pytest.mark.parametrize(
    "question, tokens",
    [
        ({"model": MODEL, "gpu": "h100-sxm-80gb"}, 16),
        ({"model": MODEL, "gpu": "h100-sxm-80gb", "block_tokens": 128}, 128),
        ({"model": "deepseek-v3", "gpu": "h200-sxm-141gb", "engine_version": "0.10.2"}, 64),
        ({"model": "deepseek-v3", "gpu": "b200-sxm-180gb", "engine_version": "0.10.2"}, 128),
        ({"model": "deepseek-v3", "gpu": "h200-sxm-141gb"}, 16),
        ({"model": "deepseek-v3", "gpu": "b200-sxm-180gb"}, 32),
        ({"model": "deepseek-v3", "gpu": "b200-sxm-180gb", "attention_backend": "CUTLASS_MLA"}, 128),
        ({"model": "deepseek-v3.2", "gpu": "b200-sxm-180gb"}, 64),
        ({"model": "kimi-linear-48b-a3b-instruct", "gpu": "b200-sxm-180gb"}, 16),
    ],
)
def test_blocks_follow_what_attends(
    setting_of: SettingOf, engine: VllmEngine, question: dict[str, str | int], tokens: int
) -> None:
    rules = engine.release(str(question.get("engine_version", "0.33.0"))).cores["v1"]
    assert block_tokens(setting_of(**question), rules) == tokens


@pytest.mark.parametrize(
    "version, asked, blocks",
    [
        ("0.19.1", {}, 1),
        ("0.19.1", {"prefix_caching": True}, 2),
        ("0.33.0", {}, 2),
        ("0.33.0", {"prefix_caching": False}, 1),
        ("0.33.0", {"speculative_method": "mtp", "speculative_tokens": 3}, 5),
    ],
)
def test_states_of_a_request_follow_prefix_caching_and_drafts(
    quote: Hold, version: str, asked: dict[str, bool], blocks: int
) -> None:
    held = quote(model="qwen3-next-80b-a3b-instruct", gpu="h200-sxm-141gb", engine_version=version, **asked)
    assert held.flight.state_blocks == blocks


def test_windows_alone_are_kept_where_windows_beside_full_layers_are_not(quote: Hold) -> None:
    def full(model: str) -> bool:
        held = quote(model=model, gpu="h100-sxm-80gb", engine_version="0.8.5", context_tokens=32768)
        return held.limit_blocks == 2048

    assert full("gemma-3-27b-it")
    assert not full("mistral-7b-v0.1")


@pytest.mark.parametrize(
    "version, asked, kept", [("0.13.0", None, 0), ("0.19.1", None, 1), ("0.19.1", False, 0), ("0.13.0", True, 1)]
)
def test_chunks_are_kept_by_newer_releases_or_where_asked(
    quote: Hold, version: str, asked: bool | None, kept: int
) -> None:
    held = quote(
        model="llama-4-scout-17b-16e-instruct",
        memory_bytes=300 * GIB,
        engine_version=version,
        context_tokens=131072,
        hybrid_cache=asked,
    )
    assert (len(held.plan.groups) > 1) == bool(kept)


def test_context_parallel_ranks_print_the_tokens_of_all(quote: Hold) -> None:
    asked = {"model": "deepseek-v3", "gpu": "h200-sxm-141gb", "tensor_parallel": 8, "context_tokens": 65536}
    one, four = quote(**asked), quote(**asked, decode_context_parallel=4)
    assert four.capacity_tokens == pytest.approx(4 * one.capacity_tokens, rel=1e-3)


def test_given_weights_are_divided_over_the_stages_as_the_closed_form_is(quote: Hold) -> None:
    asked = {"model": MODEL, "gpu": "h100-sxm-80gb", "pipeline_parallel": 2}
    closed, given = quote(**asked), quote(**asked, weight_bytes=8 * GIB)
    shares = {round(g.weight_bytes / c.weight_bytes, 6) for g, c in zip(given.ranks, closed.ranks, strict=True)}
    assert len(shares) == 1


def test_a_count_of_parameters_scales_the_weights(quote: Hold) -> None:
    whole = quote(model=MODEL, gpu="h100-sxm-80gb")
    half = quote(model=MODEL, gpu="h100-sxm-80gb", parameters=8030261248 // 2)
    assert half.rank.weight_bytes == pytest.approx(whole.rank.weight_bytes / 2, rel=1e-6)
