"""step3p7: step3p5 behind a vision encoder that halves its picture twice; a flat file is the decoder alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("step3p7",)
VISION: Mapping[str, Any] = {
    "hidden_size": 1536,
    "num_hidden_layers": 47,
    "num_channels": 3,
    "image_size": 728,
    "patch_size": 14,
    "mlp_ratio": 8960 / 1536,
}
_KERNEL = 3 * 3


def read(fields: Fields) -> Architecture:
    """The published file gives the encoder's sizes other names (`width`, `layers`)."""
    renamed = {"step3p7_text": "step3p5", "step3p7": "step3p5"}
    text = read_text(fields, "step3p5", renamed=renamed)
    if not fields.has("text_config", "vision_config"):
        return compose(fields, text, ())

    def encode(inner: Fields) -> list[Module]:
        return _encoder(inner.defaulting(VISION), text.hidden_size, fields.flag("projector_bias", default=False))

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields, hidden: int, biased: bool) -> list[Module]:  # noqa: FBT001  # the projector's one switch
    width, layers = fields.integer("width", "hidden_size"), depth(fields, "layers", "num_hidden_layers")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.matrix("patch_embedding", width, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.matrix("position_embedding", patches(fields), width)
    tower.norm("pre_layernorm", width)
    tower.norm("layer_norms", width, 2 * layers)
    tower.vector("layer_scales", width, 2 * layers)
    tower.attention(width, layers)
    tower.mlp(width, int(width * fields.number("mlp_ratio", 4.0)), layers)
    tower.linear("downsampler1", 2 * width, width * _KERNEL)
    tower.linear("downsampler2", 4 * width, 2 * width * _KERNEL)
    tower.name = "projector"
    tower.linear("linear", hidden, 4 * width, bias=biased)
    return tower.modules
