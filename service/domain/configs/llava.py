"""llava, llava_next and llava_onevision: a vision encoder and a two-layer projection before any decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import vision
from service.domain.configs.encoder_blocks import Tower
from service.domain.configs.fields import MAX_LAYERS, Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("llava", "llava_next", "llava_next_video", "llava_onevision")
_CLIP: Mapping[str, Any] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "patch_size": 14,
    "image_size": 336,
    "num_hidden_layers": 24,
}
_SIGLIP: Mapping[str, Any] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "patch_size": 14,
    "image_size": 384,
    "num_hidden_layers": 26,
    "vision_use_head": False,
}
_TYING = dict.fromkeys(("llava", "llava_next_video", "llava_onevision"), Tying(inner=True))


def read(fields: Fields) -> Architecture:
    """The later ones have a vector for the end of a row of pictures."""
    kind = fields.text("model_type") or "llava"
    text_kind = "qwen2" if kind == "llava_onevision" else "llama"
    text = read_text(fields, text_kind, _TYING.get(kind, Tying()))
    silent = _SIGLIP if kind == "llava_onevision" else _CLIP

    def encode(inner: Fields) -> list[Module]:
        return _encoder(fields, inner, text.hidden_size)

    modules, notes = encoder(fields, "vision_config", encode, silent)
    if kind != "llava":
        newline = Tower(ModuleKind.VISION, "projector")
        newline.vector("image_newline", text.hidden_size)
        modules += newline.modules
    return compose(fields, text, modules, *notes)


def feature_layers(fields: Fields) -> int:
    """From how many of the encoder's layers the projection reads."""
    value = fields.get("vision_feature_layer")
    if not isinstance(value, list | tuple):
        return 1
    if not 0 < len(value) <= MAX_LAYERS:
        raise fields.refuse("vision_feature_layer", "vision_feature_layer must name a layer, or a few.")
    return len(value)


def _encoder(fields: Fields, inner: Fields, hidden: int) -> list[Module]:
    tower = vision.by_type(inner, "clip_vision_model")
    width = vision.width(inner) * feature_layers(fields)
    biased = fields.flag("multimodal_projector_bias", default=True)
    tower.name = "projector"
    tower.linear("linear_1", hidden, width, bias=biased)
    tower.linear("linear_2", hidden, hidden, bias=biased)
    return tower.modules
