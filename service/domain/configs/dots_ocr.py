"""dots_ocr: an encoder without positions to learn, merged four by four, before a qwen2."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("dots_ocr",)
_VISION: Mapping[str, Any] = {
    "embed_dim": 1536,
    "hidden_size": 1536,
    "intermediate_size": 4224,
    "num_hidden_layers": 42,
    "num_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
}


def read(fields: Fields) -> Architecture:
    """The decoder's sizes stand beside the encoder's config."""
    text = read_text(fields, "qwen2", renamed={"dots_ocr": "qwen2"})
    modules, notes = encoder(fields, "vision_config", _encoder)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields) -> list[Module]:
    """`hidden_size` is the decoder's; biases and the last norm are options."""
    fields = fields.defaulting(_VISION)
    width, layers = fields.integer("embed_dim"), depth(fields, "num_hidden_layers")
    biased, behind = fields.flag("use_bias", default=False), fields.flag("post_norm", default=True)
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embed", width, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.norm("layer_norms", width, 2 * layers + 1 + behind, bias=False)
    tower.attention(width, layers, bias=biased)
    tower.gated_mlp(width, fields.integer("intermediate_size"), layers, bias=biased)
    joined = width * fields.integer("spatial_merge_size", most=64) ** 2
    tower.name = "merger"
    tower.norm("norm", width)
    tower.linear("fc1", joined, joined)
    tower.linear("fc2", fields.integer("hidden_size"), joined)
    return tower.modules
