"""step3_vl: step3_text behind a clip-like encoder that is halved twice by convolutions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("step3_vl",)
_VISION: Mapping[str, Any] = {
    "hidden_size": 1792,
    "intermediate_size": 3072,
    "output_hidden_size": 4096,
    "num_hidden_layers": 63,
    "num_channels": 3,
    "image_size": 728,
    "patch_size": 14,
}
_FIRST_KERNEL, _SECOND_KERNEL = 2 * 2, 3 * 3


def read(fields: Fields) -> Architecture:
    """The encoder has no norm before or behind its layers."""
    text = read_text(fields, "step3_text")

    def encode(inner: Fields) -> list[Module]:
        tower = _encoder(inner.defaulting(_VISION))
        middle = inner.defaulting(_VISION).integer("output_hidden_size")
        tower.name = "projector"
        tower.linear("linear", text.hidden_size, 2 * middle, bias=fields.flag("projector_bias", default=True))
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields) -> Tower:
    width, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    middle = fields.integer("output_hidden_size")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedding", width, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.vector("class_embedding", width)
    tower.matrix("position_embedding", patches(fields) + 1, width)
    tower.attention(width, layers)
    tower.mlp(width, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers)
    tower.linear("downsampler1", middle, width * _FIRST_KERNEL)
    tower.linear("downsampler2", 2 * middle, middle * _SECOND_KERNEL)
    return tower
