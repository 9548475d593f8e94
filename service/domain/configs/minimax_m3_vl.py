"""minimax_m3_vl: a vision encoder over two frames and a merger before a minimax_m3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("minimax_m3_vl",)
_VISION: Mapping[str, Any] = {
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "num_hidden_layers": 32,
    "num_channels": 3,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
}


def read(fields: Fields) -> Architecture:
    """The projection comes first and the merging of neighbouring patches after it."""
    text = read_text(fields, "minimax_m3_vl_text", Tying(inner=True))

    def encode(inner: Fields) -> list[Module]:
        middle = fields.integer("projector_hidden_size", default=6144)
        return _encoder(inner.defaulting(_VISION), middle, text.hidden_size)

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields, middle: int, out: int) -> list[Module]:
    hidden, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    points = fields.integer("num_channels") * fields.integer("temporal_patch_size") * area(fields, "patch_size")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedding", hidden, points, bias=False)
    tower.norm("pre_layernorm", hidden)
    tower.attention(hidden, layers)
    tower.mlp(hidden, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", hidden, 2 * layers)
    tower.name = "projector"
    tower.linear("linear_1", middle, hidden)
    tower.linear("linear_2", out, middle)
    tower.linear("merge_linear_1", middle, out * fields.integer("spatial_merge_size", most=64) ** 2)
    tower.linear("merge_linear_2", out, middle)
    return tower.modules
