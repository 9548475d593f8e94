"""paligemma: siglip and one projection before a gemma."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("paligemma",)
_SIGLIP: Mapping[str, Any] = {
    "model_type": "siglip_vision_model",
    "intermediate_size": 4096,
    "hidden_size": 1152,
    "patch_size": 14,
    "image_size": 224,
    "num_hidden_layers": 27,
    "vision_use_head": False,
}
# The decoder of a file that has no word about it.
_GEMMA: Mapping[str, Any] = {
    "vocab_size": 257152,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 18,
    "num_attention_heads": 8,
    "num_key_value_heads": 1,
}


def read(fields: Fields) -> Architecture:
    """The projection's width is stated beside the decoder's hidden size."""
    silent = fields.inner("text_config") is None and not fields.has("intermediate_size")
    text = read_text(fields, "gemma", Tying(silent=True), defaults=_GEMMA if silent else {})

    def encode(inner: Fields) -> list[Module]:
        tower = vision.by_type(inner, "siglip_vision_model")
        tower.name = "projector"
        width = vision.width(inner, "siglip_vision_model")
        tower.linear("linear", fields.integer("projection_dim", default=2048), width)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode, _SIGLIP)
    return compose(fields, text, modules, *notes)
