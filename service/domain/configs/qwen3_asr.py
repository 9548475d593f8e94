"""qwen3_asr: qwen3_omni's encoder of sounds before a qwen3; released files wrap both in a `thinker_config`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import audio
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("qwen3_asr",)
_TEXT: Mapping[str, Any] = {
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 65536,
}
_AUDIO: Mapping[str, Any] = {"d_model": 1024, "encoder_layers": 24, "encoder_ffn_dim": 4096}
_ALIASES = {"d_model": "hidden_size", "encoder_layers": "num_hidden_layers", "encoder_ffn_dim": "intermediate_size"}
_NAME = "qwen3_asr"


def read(fields: Fields) -> Architecture:
    """A token of sound is a token of the decoder."""
    thinker = fields.inner("thinker_config") or fields
    unsaid = {} if thinker.has("text_config") else _TEXT
    text = read_text(thinker, "qwen3", Tying(silent=True), defaults=unsaid, renamed={_NAME: "qwen3"})
    modules, notes = encoder(thinker, "audio_config", _encoder)
    return compose(Fields({**thinker.values, "model_type": _NAME}, thinker.pointer), text, modules, *notes)


def _encoder(fields: Fields) -> list[Module]:
    unsaid = {name: size for name, size in _AUDIO.items() if _ALIASES[name] not in fields.values}
    return audio.convolved(Fields({**unsaid, **fields.values}, fields.pointer)).modules
