"""voxtral and qwen2_audio: Whisper's encoder and a projection before a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import audio
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("voxtral", "qwen2_audio")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 30,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "head_dim": 128,
}


def read(fields: Fields) -> Architecture:
    """Voxtral joins as many frames as its MLP is wider than its hidden size, and projects twice."""
    joined = fields.text("model_type") == "voxtral"
    text = read_text(fields, "llama" if joined else "qwen2", Tying(never=True), defaults=_TEXT if joined else {})

    def encode(inner: Fields) -> list[Module]:
        tower = audio.published(inner)
        tower.name = "projector"
        if joined:
            tower.linear("linear_1", text.hidden_size, inner.integer("intermediate_size", default=5120), bias=False)
            tower.linear("linear_2", text.hidden_size, text.hidden_size, bias=False)
        else:
            tower.linear("linear", text.hidden_size, inner.integer("d_model", default=1280))
        return tower.modules

    modules, notes = encoder(fields, "audio_config", encode)
    return compose(fields, text, modules, *notes)
