"""got_ocr2 and GOT (GOT-OCR 2.0): SAM's encoder and one projection before a qwen2."""

from __future__ import annotations

from service.domain.architecture import Architecture, Module
from service.domain.configs.fields import Fields
from service.domain.configs.sam import BASE, sam
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("got_ocr2", "GOT")


def read(fields: Fields) -> Architecture:
    """The first release states the decoder's sizes alone, and its checkpoint holds the tied head too."""
    text = read_text(fields, "qwen2", Tying(silent=True), renamed=dict.fromkeys(MODEL_TYPES, "qwen2"))

    def encode(inner: Fields) -> list[Module]:
        channels = inner.defaulting(BASE).integer("output_channels")
        tower = sam(Fields({**inner.values, "downsample_channels": (2 * channels, text.hidden_size)}, inner.pointer))
        tower.name = "projector"
        tower.linear("linear", text.hidden_size, text.hidden_size)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
