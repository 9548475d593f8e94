"""idefics3 and smolvlm: a siglip-like encoder and one projection over neighbouring patches before a llama."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("idefics3", "smolvlm")
_ENCODER: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "image_size": 224,
    "patch_size": 32,
}


def read(fields: Fields) -> Architecture:
    """The projection reads a square of `scale_factor` patches at once."""
    text = read_text(fields, "llama", Tying())

    def encode(inner: Fields) -> list[Module]:
        stated = Fields({**_ENCODER, **inner.values, "vision_use_head": False}, inner.pointer)
        tower = vision.siglip(stated)
        tower.name = "projector"
        scale = fields.integer("scale_factor", default=2, most=64)
        tower.linear("proj", text.hidden_size, stated.integer("hidden_size") * scale * scale, bias=False)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
