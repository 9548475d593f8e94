"""idefics2: a siglip-like encoder, and learnt latents that ask all its patches, before a mistral."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("idefics2",)
_VISION: Mapping[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "image_size": 224,
    "patch_size": 32,
}
_PERCEIVER: Mapping[str, Any] = {
    "resampler_n_latents": 64,
    "resampler_depth": 3,
    "resampler_n_heads": 16,
    "resampler_head_dim": 96,
    "num_key_value_heads": 4,
}
_MISTRAL_INNER = 14336


def read(fields: Fields) -> Architecture:
    """The projection before the latents is as wide inside as the decoder's MLP."""
    text = read_text(fields, "mistral", Tying(), defaults={"max_position_embeddings": 32768})
    inner = fields.inner("text_config") or Fields({}, f"{fields.pointer}/text_config")
    middle, hidden = inner.integer("intermediate_size", default=_MISTRAL_INNER), text.hidden_size

    def encode(inner: Fields) -> list[Module]:
        stated = Fields({**_VISION, **inner.values, "vision_use_head": False}, inner.pointer)
        tower = vision.siglip(stated)
        tower.name = "modality_projection"
        tower.linear("gate_up", 2 * middle, stated.integer("hidden_size"), bias=False)
        tower.linear("down", hidden, middle, bias=False)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    latents, _ = encoder(fields, "perceiver_config", lambda inner: _perceiver(inner, hidden, modules))
    return compose(fields, text, [*modules, *latents], *notes)


def _perceiver(fields: Fields, hidden: int, seen: list[Module]) -> list[Module]:
    """Latents attend to patches and to themselves with shared keys, each layer with an MLP four times as wide."""
    fields = fields.defaulting(_PERCEIVER)
    layers = depth(fields, "resampler_depth")
    width = fields.integer("resampler_head_dim")
    query, kv = fields.integer("resampler_n_heads"), fields.integer("num_key_value_heads")
    tower = Tower(seen[0].kind, "perceiver")
    tower.matrix("latents", fields.integer("resampler_n_latents"), hidden)
    tower.linear("attention.qkv", (query + 2 * kv) * width, hidden, layers, bias=False)
    tower.linear("attention.out", hidden, query * width, layers, bias=False)
    tower.gated_mlp(hidden, 4 * hidden, layers, bias=False)
    tower.norm("layer_norms", hidden, 3 * layers + 1, bias=False)
    return tower.modules
