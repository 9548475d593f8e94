"""hunyuan_vl (HunyuanOCR): siglip's layers over many places, and a merger that ends rows, before a hunyuan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("hunyuan_vl",)
_VISION: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "num_channels": 3,
    "out_hidden_size": 4096,
    "patch_size": 16,
    "max_image_size": 2048,
    "spatial_merge_size": 2,
}
_RENAMED = {"hunyuan_vl_text": "hunyuan_v1_dense", "hunyuan_vl": "hunyuan_v1_dense"}


def read(fields: Fields) -> Architecture:
    """Head and table are one unless both configs say otherwise."""
    text = read_text(fields, "hunyuan_v1_dense", Tying(silent=True, inner=True, unsaid=True), renamed=_RENAMED)
    modules, notes = encoder(fields, "vision_config", _encoder)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields) -> list[Module]:
    """Neighbouring patches are joined by a convolution; vectors begin, part and end pictures."""
    fields = fields.defaulting(_VISION)
    width, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    out, merge = fields.integer("out_hidden_size"), fields.integer("spatial_merge_size", most=64)
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedding", width, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.matrix("position_embedding", patches(fields, "max_image_size") + 1, width)
    tower.attention(width, layers)
    tower.mlp(width, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers)
    tower.name = "merger"
    tower.norm("norm_before", width, bias=False)
    tower.linear("conv", 2 * width, width * merge * merge)
    tower.linear("conv_out", 4 * width, 2 * width)
    tower.vector("image_newline", 4 * width)
    tower.linear("linear", out, 4 * width)
    tower.vector("separators", out, 3)
    tower.norm("norm_behind", out, bias=False)
    return tower.modules
