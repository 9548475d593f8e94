"""Logs whose printed settings scale the model's positions, and settings that no answer can repeat."""

import json
from typing import Any

import pytest

from tests.domain.test_log_answer import LLAMA, Names, answer


@pytest.fixture(scope="module")
def names() -> Names:
    return Names()


YARN = "{'rope_scaling': {'rope_type': 'yarn', 'factor': 4.0, 'original_max_position_embeddings': 32768}}"


def overridden(overrides: str, version: str = "0.11.0") -> str:
    """A log whose settings override the config of Qwen3-8B, for sequences longer than it was published for."""
    args = f"'model': 'qwen3-8b', 'max_model_len': 131072, 'hf_overrides': {overrides}"
    config = "model='qwen3-8b', max_seq_len=131072, tensor_parallel_size=1, data_parallel_size=1, seed=0, a=1"
    return f"non-default args: {{{args}}}\nInitializing a V1 LLM engine (v{version}) with config: {config}"


def test_a_model_whose_positions_the_log_scales_is_as_long_as_they_make_it(names: Names) -> None:
    found = answer(names, overridden(YARN), gpu="h100-sxm-80gb")

    assert (found["unquoted"], found["warnings"], found["quote"]["warnings"]) == (None, [], [])
    assert found["quote"]["model"]["context_tokens"] == 131_072
    assert any(
        "hf_overrides.rope_scaling: positions are scaled by yarn" in line for line in found["quote"]["assumptions"]
    )

    published = answer(names, overridden("{}"), gpu="h100-sxm-80gb")
    assert any(
        "more than the 40,960 that Qwen3-8B was published for" in each for each in published["quote"]["warnings"]
    )
    # Tables of rotary embeddings are as long as the scaled positions: of 128 elements in 16 bits each.
    assert weights(found) - weights(published) == (131_072 - 40_960) * 128 * 2


def weights(found: dict[str, Any]) -> int:
    return sum(part["bytes"] for part in found["quote"]["ledger"]["parts"] if part["name"] == "weights")


@pytest.mark.parametrize(
    "overrides", ["{'rope_scaling': {'rope_type': 'novel', 'factor': 4.0}}", "{'rope_scaling': {'rope_type': 'yarn'}}"]
)
def test_a_scaling_that_cannot_be_read_leaves_the_model_as_published(names: Names, overrides: str) -> None:
    found = answer(names, overridden(overrides), gpu="h100-sxm-80gb")

    assert found["warnings"] == ["The printed settings scale positions: rotary tables are quoted as published."]
    assert found["quote"]["model"]["context_tokens"] == 40_960


def test_positions_of_another_model_that_is_given_are_scaled(names: Names) -> None:
    found = answer(names, overridden(YARN), gpu="h100-sxm-80gb", model=LLAMA)

    assert found["quote"]["model"]["id"] == LLAMA
    assert any("hf_overrides.rope_scaling" in line for line in found["quote"]["assumptions"])


def test_a_release_that_takes_positions_as_scaled_is_told_which_setting_says_so(names: Names) -> None:
    found = answer(names, overridden(YARN, "0.30.0"), gpu="h100-sxm-80gb")

    assert found["quote"]["model"]["context_tokens"] == 40_960
    assert any("whatever the factor" in line for line in found["quote"]["assumptions"])


@pytest.mark.parametrize(
    "setting",
    [
        "'hf_overrides': {'\\ud800': 1}",
        "'limit_mm_per_prompt': {'image': 1, 'any': ['\\udfff']}",
        "'kv_transfer_config': {'kv_connector': '\\ud800'}",
    ],
)
def test_what_no_answer_can_repeat_is_not_read(names: Names, setting: str) -> None:
    log = overridden("{}").replace("'max_model_len'", f"{setting}, 'max_model_len'")

    found = answer(names, log, gpu="h100-sxm-80gb")

    assert (found["warnings"], found["quote"]["fits"]) == ([], True)
    assert json.dumps(found, ensure_ascii=False).encode()
