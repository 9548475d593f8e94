"""glm_ocr (GLM-OCR): glm4v's encoder with biases and normed heads, without learnt positions, before a small glm4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("glm_ocr",)
_VISION: Mapping[str, Any] = {
    "depth": 24,
    "hidden_size": 1024,
    "num_heads": 16,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 1536,
    "intermediate_size": 4096,
}


def read(fields: Fields) -> Architecture:
    """Either config may say that head and table are one."""
    text = read_text(fields, "glm_ocr_text", Tying(inner=True))
    modules, notes = encoder(fields, "vision_config", picture_encoder)
    return compose(fields, text, modules, *notes)


def picture_encoder(fields: Fields) -> list[Module]:
    """Read the encoder; without a width of its own its merger is as wide as the decoder for each colour."""
    fields = fields.defaulting(_VISION)
    width, layers = fields.integer("hidden_size"), depth(fields, "depth", "num_hidden_layers")
    out, colours = fields.integer("out_hidden_size"), fields.integer("in_channels")
    biased = fields.flag("attention_bias", default=True)
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embed", width, colours * fields.integer("temporal_patch_size") * area(fields, "patch_size"))
    tower.norm("layer_norms", width, 2 * layers + 1, bias=False)
    tower.attention(width, layers, bias=biased)
    tower.norm("qk_norms", width // fields.integer("num_heads"), 2 * layers, bias=False)
    tower.gated_mlp(width, fields.integer("intermediate_size"), layers, bias=biased)
    tower.linear("downsample", out, width * fields.integer("spatial_merge_size", most=64) ** 2)
    tower.name = "merger"
    tower.linear("proj", out, out, bias=False)
    tower.norm("norm", out)
    tower.gated_mlp(out, fields.integer("projection_intermediate_size", default=out * colours), 1, bias=False)
    return tower.modules
