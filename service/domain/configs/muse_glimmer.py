"""muse_glimmer: gated attention behind windows in three layers of four, norms around it, and an encoder of films."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import dense
from service.domain.configs.afmoe import wide_gate
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("muse_glimmer", "muse_glimmer_text")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 202048,
    "hidden_size": 6656,
    "intermediate_size": 19968,
    "num_hidden_layers": 52,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "sliding_window": 2048,
}
_VISION: Mapping[str, Any] = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 50,
    "patch_size": 14,
    "patch_temporal": 2,
    "pos_emb_height": 32,
    "pos_emb_width": 32,
}
_CHANNELS, _EVERY = 3, 4


def read(fields: Fields) -> Architecture:
    """The adapter's width is what the encoder gives, four patches joined."""
    if fields.text("model_type") == "muse_glimmer_text":
        return _read_text(fields.defaulting(_TEXT))
    text = read_text(fields, "muse_glimmer_text", Tying())

    def encode(inner: Fields) -> list[Module]:
        tower = _encoder(inner.defaulting(_VISION))
        joined, middle = (
            fields.integer("out_hidden_size", default=6144),
            fields.integer("projector_hidden_size", default=4096),
        )
        tower.name = "adapter"
        tower.linear("fc1", middle, joined, bias=False)
        tower.linear("fc2", middle, middle, bias=False)
        tower.linear("projection", text.hidden_size, middle, bias=False)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _read_text(fields: Fields) -> Architecture:
    """Where a file has no `layer_types`, every fourth layer, counted from the last, is full."""
    shape, biased = decoder(fields), fields.flag("attention_bias", default=False)
    return dense.read(
        fields,
        dense.Layer(qkv_bias=biased, out_bias=biased, norms=4),
        shape=shape,
        windows=layer_windows(fields, shape.layers, lambda index: (shape.layers - 1 - index) % _EVERY != 0),
        extra=(wide_gate(shape),),
    )


def _encoder(fields: Fields) -> Tower:
    width, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    points = _CHANNELS * fields.integer("patch_temporal") * area(fields, "patch_size")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedding", width, points, bias=False)
    tower.matrix("position_embedding", fields.integer("pos_emb_height") * fields.integer("pos_emb_width"), width)
    tower.attention(width, layers)
    tower.mlp(width, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers + 2)
    return tower
