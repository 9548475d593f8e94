"""exaone4_5 (EXAONE 4.5): the encoder of qwen2_5_vl with shared keys and values, before an exaone4."""

from __future__ import annotations

from service.domain.architecture import Architecture, Module
from service.domain.configs import qwen_vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("exaone4_5",)


def read(fields: Fields) -> Architecture:
    """The outer config says whether head and table are one."""
    text = read_text(fields, "exaone4", Tying(), renamed={"exaone4_5_text": "exaone4"})

    def encode(inner: Fields) -> list[Module]:
        return qwen_vision.half(inner, grouped=True)

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
