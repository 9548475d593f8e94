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


def read(fields: Fields) -> Architecture:
    """The projection's width is stated beside the decoder's hidden size."""
    text = read_text(fields, "gemma", Tying(silent=True))

    def encode(inner: Fields) -> list[Module]:
        stated = inner if inner.values else Fields(_SIGLIP, inner.pointer)
        tower = vision.by_type(stated, "siglip_vision_model")
        tower.name = "projector"
        width = vision.width(stated, "siglip_vision_model")
        tower.linear("linear", fields.integer("projection_dim", default=2048), width)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
