"""Apertus 1.5: a head of the first words alone, and convolutions that make words of pictures and sounds."""

from copy import deepcopy
from typing import Any

import pytest

from service.domain.configs import read_config
from service.domain.errors import ConfigError
from tests.domain.configs.published import named

SMALL = "transformers/apertus1p5-small"


def changed(part: str, **values: object) -> dict[str, Any]:
    config = deepcopy(named(SMALL))
    config[part].update(values)
    return config


@pytest.mark.parametrize("words", [None, 266752])
def test_a_head_is_as_long_as_the_table_where_nothing_cuts_it(words: int | None) -> None:
    heads = [
        m.rows for m in read_config(changed("text_config", output_vocab_size=words)).modules if m.name == "lm_head"
    ]

    assert heads == [266752]


@pytest.mark.parametrize(
    "part, field, values",
    [
        ("text_config", "output_vocab_size", {"output_vocab_size": 266753}),
        ("vision_config", "channel_multiplier", {"channel_multiplier": []}),
        ("vision_config", "channel_multiplier", {"channel_multiplier": [1] * 13}),
        ("vision_config", "base_channels", {"base_channels": 48}),
        ("audio_config", "norm_type", {"norm_type": "time_group_norm"}),
        ("audio_config", "upsampling_ratios", {"upsampling_ratios": [2] * 13}),
        ("audio_config", "compress", {"compress": 17}),
    ],
)
def test_what_no_rule_is_known_for_is_refused_by_its_path(part: str, field: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(changed(part, **values))

    assert [fault.pointer for fault in caught.value.faults] == [f"/config/{part}/{field}"]


def test_a_tied_head_cannot_be_cut() -> None:
    with pytest.raises(ConfigError, match="fewer words"):
        read_config({**named(SMALL), "tie_word_embeddings": True})


def test_attention_stands_where_a_picture_is_small() -> None:
    """Of stages of 256, 128 and 64 the last two attend, each block once, and the middle does."""
    without = changed("vision_config", attn_resolutions=[])
    width = 128
    each = 4 * width * (width + 1) + 2 * width

    assert read_config(named(SMALL)).parameters - read_config(without).parameters == 4 * each
