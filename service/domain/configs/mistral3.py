"""mistral3 (Mistral Small 3.1, Ministral 3, Devstral 2): pixtral's encoder and a patch merger before a mistral."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.base import HIDDEN
from service.domain.configs.fields import Fields
from service.domain.configs.llava import feature_layers
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("mistral3",)
_PIXTRAL: Mapping[str, Any] = {
    "model_type": "pixtral",
    "intermediate_size": 4096,
    "hidden_size": 1024,
    "patch_size": 14,
    "image_size": 1540,
    "num_hidden_layers": 24,
}
# What the wrapper's code assumes of a decoder that is not nested: no window, where a plain mistral has one.
_FLAT: Mapping[str, Any] = {"sliding_window": None}
# And of one that the file has no word about.
_SILENT: Mapping[str, Any] = {
    **_FLAT,
    "vocab_size": 131072,
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}


def read(fields: Fields) -> Architecture:
    """Small 4 keeps latents: a flattened file of it says so by its ranks."""
    nested = fields.inner("text_config") is not None
    kind = "mistral4" if fields.has("kv_lora_rank") and not nested else "mistral"
    unsaid = _FLAT if fields.has(*HIDDEN) else _SILENT
    text = read_text(fields, kind, Tying(silent=True), defaults={} if nested else unsaid)

    def encode(inner: Fields) -> list[Module]:
        return _encoder(fields, inner, text.hidden_size)

    modules, notes = encoder(fields, "vision_config", encode, _PIXTRAL)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields, inner: Fields, hidden: int) -> list[Module]:
    tower = vision.by_type(inner, "pixtral")
    width = vision.width(inner, "pixtral")
    merge = fields.integer("spatial_merge_size", default=2, most=64)
    biased = fields.flag("multimodal_projector_bias", default=False)
    tower.name = "projector"
    tower.norm("norm", width, bias=False)
    tower.linear("patch_merger", width, width * merge * merge, bias=False)
    tower.linear("linear_1", hidden, width * feature_layers(fields), bias=biased)
    tower.linear("linear_2", hidden, hidden, bias=biased)
    return tower.modules
