"""What no part accounts for, by what a start has."""

import dataclasses
from typing import Any

import pytest

from service.domain.engines.vllm import Setting, VllmEngine
from service.domain.engines.vllm.beside import beside_of
from service.domain.engines.vllm.rules import Beside, Rules
from tests.domain.engines.vllm.conftest import GIB, Hold, SettingOf

DENSE: dict[str, Any] = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 4096}
KINDS = {"any": 3, "ranks": 4, "stages": 5, "experts": 6, "states": 7, "pictures": 8, "amd": 9}


@pytest.fixture
def rules(engine: VllmEngine) -> Rules:
    found = engine.release("0.20.0").cores["v1"]
    beside = {kind: Beside(size, 2 * size) for kind, size in KINDS.items()}
    return dataclasses.replace(found, constants=dataclasses.replace(found.constants, interval_beside=beside))


@pytest.mark.parametrize(
    "asked, kinds",
    [
        ({}, "any"),
        ({"tensor_parallel": 2}, "any ranks"),
        ({"pipeline_parallel": 2}, "any stages"),
        ({"model": "qwen3-30b-a3b"}, "any experts"),
        ({"model": "qwen3.6-27b"}, "any states pictures"),
        ({"model": "gemma-3-27b-it"}, "any pictures"),
        ({"model": "gemma-3-27b-it", "encoder_budget_tokens": 0}, "any"),
        ({"gpu": "mi300x"}, "any amd"),
    ],
)
def test_kinds_count_as_independent(setting_of: SettingOf, rules: Rules, asked: dict[str, Any], kinds: str) -> None:
    setting: Setting = setting_of(**{**DENSE, **asked})
    size = sum(KINDS[kind] ** 2 for kind in kinds.split()) ** 0.5
    assert beside_of(setting, rules) == (round(size), round(2 * size))


def test_the_interval_is_wider_for_what_is_less_certain(quote: Hold) -> None:
    asked = {"gpu": "h100-sxm-80gb", "context_tokens": 4096, "engine_version": "0.20.0", "max_batched_tokens": 2048}
    widths = []
    for model in ("qwen3-8b", "qwen3-30b-a3b", "qwen3.6-27b"):
        held = quote(model=model, enforce_eager=True, **asked)
        widths.append((held.high_blocks - held.low_blocks) * held.rank.block_bytes / GIB)
    assert widths == sorted(widths)
    assert 0.3 < widths[0] < 0.6 < widths[1]
    assert widths[2] > 1.5
