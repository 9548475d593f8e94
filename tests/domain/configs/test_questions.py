"""Encoders that learnt questions ask: Granite 4 Vision's of windows, Idefics 2's of patches; Qwen3-ASR's of sound."""

from copy import deepcopy
from typing import Any

import pytest

from service.domain.architecture import ModuleKind
from service.domain.configs import read_config
from service.domain.errors import ConfigError
from tests.domain.configs.published import named

GRANITE, IDEFICS, ASR = "ibm-granite/granite-4.0-3b-vision", "HuggingFaceM4/idefics2-8b", "Qwen/Qwen3-ASR-1.7B"


def seeing(config: dict[str, Any]) -> int:
    return sum(m.parameters for m in read_config(config).modules if m.kind in {ModuleKind.VISION, ModuleKind.AUDIO})


@pytest.mark.parametrize("value", [None, "", "4", "4/8/2", "0/8", "4/0", "a/b", "65/8", "-4/8", "²/8"])
def test_a_rate_that_is_none_is_refused(value: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config({**named(GRANITE), "downsample_rate": value})

    assert [fault.pointer for fault in caught.value.faults] == ["/config/downsample_rate"]


def test_each_depth_has_questions_of_its_own() -> None:
    """A window of 64 places, 16 questions, attention twice, an MLP, seven norms and a projection to the decoder."""
    deeper = {**named(GRANITE), "deepstack_layer_map": [*named(GRANITE)["deepstack_layer_map"], [-25, 12]]}
    width, inner, out = 1152, 3072, 2560
    attention, mlp = 4 * width * (width + 1), 2 * width * inner + width + inner

    each = 80 * width + 2 * attention + mlp + 5 * 2 * width + out * (width + 1)
    assert seeing(deeper) - seeing(named(GRANITE)) == each


def test_latents_are_as_wide_as_the_decoder() -> None:
    fewer = deepcopy(named(IDEFICS))
    fewer["perceiver_config"]["resampler_n_latents"] = 32

    assert seeing(named(IDEFICS)) - seeing(fewer) == 32 * 4096


def test_a_sound_model_is_read_with_its_wrapper_and_without() -> None:
    wrapped, inside = named(ASR), named(ASR)["thinker_config"]

    assert read_config(wrapped).parameters == read_config(inside).parameters == 2_038_052_480
    assert read_config(inside).model_type == read_config(wrapped).model_type == "qwen3_asr"


def test_a_sound_model_of_which_nothing_is_said_is_the_larger_one() -> None:
    config = {"model_type": "qwen3_asr", "audio_config": {"output_dim": 2048}, "vocab_size": 151936}

    assert read_config(config).parameters == 2_038_052_480
