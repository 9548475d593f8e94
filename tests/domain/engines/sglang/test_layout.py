"""What SGLang's share of memory and its pools depend on, by model, release and device, as its sources have it."""

from typing import Any

import pytest

from service.domain.engines.ranks.setting import Setting, setting_of
from service.domain.engines.sglang.layout import layout_of, used_share
from service.domain.engines.sglang.policy import SglangEngine
from service.domain.engines.sglang.rules import Rules
from service.domain.errors import ValidationError
from service.domain.holding import hold
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.agreement import ask, parts
from tests.domain.conftest import Shelf

H100 = {"engine": "sglang", "model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 4096}
PICTURES = {"model": "qwen3-vl-8b-instruct"}
LATENT = {"model": "deepseek-v3", "tensor_parallel": 8}
DRAFTED = {**LATENT, "speculative_method": "nextn"}
MI355X = {"gpu": "mi355x", "context_tokens": 9000}


def _asked(shelf: Shelf, changed: dict[str, Any]) -> tuple[Setting, Rules]:
    question = resolve(H100 | changed, shelf)
    assert isinstance(question.engine, SglangEngine)
    return setting_of(question), question.engine.release(question.version)


@pytest.mark.parametrize(
    "changed,version,captured",
    [
        ({}, "0.5.9", False),
        ({}, "0.5.10", True),
        ({"gpu": "mi300x"}, "0.5.10", False),
        (DRAFTED, "0.5.10", False),
        (DRAFTED, "0.5.11", True),
        (LATENT, "0.5.15", False),
        (LATENT, "0.5.18", True),
        (PICTURES, "0.5.23", False),
        ({"model": "qwen3.5-27b"}, "0.5.15", False),
        ({"model": "qwen3.5-27b"}, "0.5.16", True),
        ({"pipeline_parallel": 2}, "0.5.14", False),
        ({"pipeline_parallel": 2}, "0.5.15", True),
        ({"tensor_parallel": 2, "attention_data_parallel": 2}, "0.5.16", False),
        ({"tensor_parallel": 2, "attention_data_parallel": 2}, "0.5.17", True),
        ({"model": "qwen3-next-80b-a3b-instruct", "tensor_parallel": 4}, "0.5.13", False),
    ],
)
def test_graphs_of_prompts_follow_the_release(
    shelf: Shelf, changed: dict[str, Any], version: str, captured: bool
) -> None:
    assert layout_of(*_asked(shelf, changed | {"engine_version": version})).prompt_graphs is captured


@pytest.mark.parametrize(
    "changed,factor",
    [
        (MI355X, 0.85),
        (MI355X | {"context_tokens": 8192}, 1),
        (MI355X | {"engine_version": "0.4.6.post5"}, 1),
        (MI355X | {"attention_backend": "triton"}, 1),
        (MI355X | {"model": "kimi-k2.5", "tensor_parallel": 8}, 1),
        (MI355X | {"model": "deepseek-v3", "tensor_parallel": 8}, 0.85),
        ({"context_tokens": 9000}, 1),
    ],
)
def test_a_workspace_takes_its_part_of_the_share(shelf: Shelf, changed: dict[str, Any], factor: float) -> None:
    changed = {"engine_version": "0.5.9", "context_limit_tokens": changed["context_tokens"], **changed}
    assert used_share(*_asked(shelf, changed), 0.8) == pytest.approx(0.8 * factor)


def _tokens(**changed: Any) -> int:  # noqa: ANN401
    answer = ask({"engine": "sglang", "memory_bytes": 10**13, "context_tokens": 4096, **changed})
    assert answer is not None
    return int(answer["kv_capacity_tokens"])


@pytest.mark.parametrize(
    "model,version,cell",
    [
        ("gemma-4-e4b-it", "0.5.13", 7 * 4096 + 0.8 * 35 * 2048),
        ("gemma-4-e4b-it", "0.5.10", 7 * 4096 + 35 * 2048),
        ("gpt-oss-20b", "0.5.7", 24 * 2048),
        ("gpt-oss-20b", "0.5.8", 12 * 2048 + 0.8 * 12 * 2048),
        ("gemma-3-27b-it", "0.5.23", 62 * 8192),
        ("mimo-v2-flash", "0.5.7", 9 * 4 * 320 * 2 + 0.8 * 39 * 8 * 320 * 2),
    ],
)
def test_a_token_takes_what_its_pools_of_the_release_keep(model: str, version: str, cell: float) -> None:
    """Whole multiples of 2 B x heads x (key + value), windows at four fifths where they have a pool."""
    pool = 64 * 2**30
    assert _tokens(model=model, engine_version=version, kv_cache_bytes=pool) == int(pool / cell)


def test_windows_of_gpt_oss_have_no_pool_under_paged_kernels() -> None:
    question = {"model": "gpt-oss-20b", "gpu": "b200-sxm-180gb", "kv_cache_bytes": 64 * 2**30}
    assert _tokens(**question, engine_version="0.5.9") == 64 * 2**30 // (24 * 2048)
    assert _tokens(**question, engine_version="0.5.10") == int(64 * 2**30 / (12 * 2048 + 0.8 * 12 * 2048))


@pytest.mark.parametrize("version,cached,loaded", [("0.5.10", 0, 0), ("0.5.13", 1, 0), ("0.5.14", 1, 1)])
def test_a_drafter_is_counted_from_its_release_on(version: str, cached: int, loaded: int) -> None:
    """A layer of 128,256 x 4,096 aside, an EAGLE drafter is one more layer of the model's own."""
    question = {"model": "llama-3.1-8b-instruct", "engine_version": version, "kv_cache_bytes": 16 * 2**30}
    plain, drafted = _tokens(**question), _tokens(**question, speculative_method="eagle")
    assert (plain, drafted) == (16 * 2**30 // (32 * 4096), 16 * 2**30 // ((32 + cached) * 4096))
    sizes = [_weights(version, {}), _weights(version, {"speculative_method": "eagle"})]
    assert (sizes[1] > sizes[0]) is bool(loaded)


def _weights(version: str, more: dict[str, Any]) -> int:
    answer = ask({**H100, "engine_version": version, **more})
    assert answer is not None
    return parts(answer)["weights"]


@pytest.mark.parametrize(
    "asked, tokens",
    [
        ({}, 1),
        ({"attention_backend": "FA3"}, 1),
        ({"attention_backend": "trtllm_mha"}, 64),
        ({"attention_backend": "trtllm_mha", "block_tokens": 32}, 32),
        ({"attention_backend": "triton", "block_tokens": 48}, 48),
    ],
)
def test_pages_are_as_asked_or_as_what_attends_takes_them(shelf: Shelf, asked: dict[str, Any], tokens: int) -> None:
    assert fit(resolve(H100 | asked, shelf), shelf)["question"]["block_tokens"] == tokens


def test_pages_that_what_attends_does_not_take_are_refused(shelf: Shelf) -> None:
    with pytest.raises(ValidationError, match=r"takes no pages of 48 tokens, only 64, 16, 32, 128\."):
        hold(resolve(H100 | {"attention_backend": "trtllm_mha", "block_tokens": 48}, shelf))
