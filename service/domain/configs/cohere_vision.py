"""aya_vision and cohere2_vision (Command A Vision): siglip and a gated projection of four patches before a cohere2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("aya_vision", "cohere2_vision")
_AYA: Mapping[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "vision_use_head": False,
}
_COMMAND: Mapping[str, Any] = {
    **_AYA,
    "intermediate_size": 3072,
    "patch_size": 16,
    "image_size": 512,
    "num_hidden_layers": 27,
    "vision_use_head": True,
}
_WIDTH = 36864


def read(fields: Fields) -> Architecture:
    """The earlier one norms what it projects; of either half of the projection gates the other."""
    normed = fields.text("model_type") == "aya_vision"
    text = read_text(fields, "cohere2", Tying(silent=True))

    def encode(inner: Fields) -> list[Module]:
        tower = vision.by_type(inner, "siglip_vision_model")
        joined = vision.width(inner, "siglip_vision_model") * _area(fields)
        middle = fields.integer("alignment_intermediate_size", default=text.hidden_size if normed else _WIDTH, least=2)
        tower.name = "projector"
        if normed:
            tower.norm("norm", joined)
        tower.linear("linear_1", middle, joined)
        tower.linear("linear_2", text.hidden_size, middle // 2)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode, _AYA if normed else _COMMAND)
    return compose(fields, text, modules, *notes)


def _area(fields: Fields) -> int:
    """Patches that become one."""
    return fields.integer("downsample_factor", default=2, most=64) ** 2
