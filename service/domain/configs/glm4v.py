"""glm4v, glm4v_moe and glm46v (GLM 4.1V to 4.6V): their encoder before a glm4 or a glm4_moe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, divided_width, encoder, read_text

MODEL_TYPES = ("glm4v", "glm4v_moe", "glm46v")
_VISION: Mapping[str, Any] = {
    "depth": 24,
    "hidden_size": 1536,
    "in_channels": 3,
    "image_size": 336,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 4096,
    "intermediate_size": 13696,
}
_DENSE: Mapping[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "attention_bias": True,
    "head_dim": None,
}
_MOE: Mapping[str, Any] = {
    "vocab_size": 151424,
    "max_position_embeddings": 65536,
    "attention_bias": True,
}
_RENAMED = {"glm4v_text": "glm4", "glm4v_moe_text": "glm4_moe"}


def read(fields: Fields) -> Architecture:
    """The decoder has biases on query, key and value unless the file says otherwise; glm46v's says which it is."""
    kind, inner = fields.text("model_type"), fields.inner("text_config")
    later = kind == "glm46v"
    sparse = kind == "glm4v_moe" or (later and inner is not None and inner.text("model_type") == "glm4v_moe_text")
    kind, defaults = ("glm4_moe", _MOE) if sparse else ("glm4", _DENSE)
    if sparse:
        defaults = {**defaults, "head_dim": divided_width(fields, 4096, 96)}
    text = read_text(fields, kind, Tying(inner=not later), defaults=defaults, renamed=_RENAMED)
    modules, notes = encoder(fields, "vision_config", _encoder)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields) -> list[Module]:
    """MLPs of the decoder's size; neighbouring patches are joined by a convolution and a gated MLP."""
    fields = fields.defaulting(_VISION)
    width, layers = fields.integer("hidden_size"), depth(fields, "depth", "num_hidden_layers")
    out, wide = fields.integer("out_hidden_size"), fields.integer("intermediate_size")
    merge = fields.integer("spatial_merge_size", most=64)
    points = fields.integer("in_channels") * fields.integer("temporal_patch_size") * area(fields, "patch_size")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embed", width, points)
    tower.matrix("position_embedding", patches(fields), width)
    tower.norm("layer_norms", width, 2 * layers + 2, bias=False)
    tower.linear("attention.qkv", 3 * width, width, layers, bias=fields.flag("attention_bias", default=False))
    tower.linear("attention.out", width, width, layers, bias=False)
    tower.gated_mlp(width, out, layers, bias=False)
    tower.linear("downsample", out, width * merge * merge)
    tower.name = "merger"
    tower.linear("proj", out, out, bias=False)
    tower.norm("norm", out)
    tower.gated_mlp(out, wide, 1, bias=False)
    return tower.modules
