"""paddleocr_vl (PaddleOCR-VL): siglip's layers, four patches joined by a normed projection, before an ernie4_5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("paddleocr_vl",)
_VISION: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "image_size": 384,
    "patch_size": 14,
    "spatial_merge_size": 2,
}
_RENAMED = {"paddleocr_vl_text": "ernie4_5", "paddleocr_vl": "ernie4_5"}


def read(fields: Fields) -> Architecture:
    """The published file states the decoder's sizes beside the encoder's config.

    Its checkpoint holds a pooling head and a second table of places too, which no code loads.
    """
    text = read_text(fields, "ernie4_5", Tying(silent=True, inner=True, unsaid=True), renamed=_RENAMED)

    def encode(inner: Fields) -> list[Module]:
        stated = Fields({**_VISION, **inner.values, "vision_use_head": False}, inner.pointer)
        tower = vision.siglip(stated)
        width = stated.integer("hidden_size")
        joined = width * stated.integer("spatial_merge_size", default=2, most=64) ** 2
        tower.name = "projector"
        tower.norm("norm", width)
        tower.linear("linear_1", joined, joined)
        tower.linear("linear_2", text.hidden_size, joined)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
