"""qwen3_omni_moe: the thinker, qwen3_vl_moe's encoder and one for sounds before a qwen3_moe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import audio, qwen_vision
from service.domain.configs.fields import Fields
from service.domain.configs.qwen_vl import read_omni
from service.domain.configs.wrapping import Tying, compose, divided_width, encoder, read_text

MODEL_TYPES = ("qwen3_omni_moe", "qwen3_omni_moe_thinker")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 3584,
    "hidden_size": 2048,
    "intermediate_size": 18944,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "sliding_window": None,
}


def read(fields: Fields) -> Architecture:
    """The thinker answers and is what engines serve; it may be saved alone."""
    return read_omni(fields, _thinker) if fields.text("model_type") == "qwen3_omni_moe" else _thinker(fields)


def _thinker(fields: Fields) -> Architecture:
    unsaid = {**_TEXT, "head_dim": divided_width(fields, 2048, 28)}
    text = read_text(fields, "qwen3_moe", Tying(), defaults=unsaid, renamed={"qwen3_omni_moe_text": "qwen3_moe"})
    pictures, notes = encoder(fields, "vision_config", _vision)
    sounds, more = encoder(fields, "audio_config", lambda inner: audio.convolved(inner).modules)
    return compose(fields, text, [*pictures, *sounds], *notes, *more)


def _vision(fields: Fields) -> list[Module]:
    return qwen_vision.third(fields, deepstack=True)
