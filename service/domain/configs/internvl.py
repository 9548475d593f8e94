"""internvl, internvl_chat and qianfan_ocr: InternViT, neighbouring patches joined, and a normed projection of two."""

from __future__ import annotations

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("internvl", "internvl_chat", "qianfan_ocr")


def read(fields: Fields) -> Architecture:
    """The published chat files nest their decoder as `llm_config`; qianfan_ocr's encoder has biases like theirs."""
    kind = fields.text("model_type")
    published, scanning = kind == "internvl_chat", kind == "qianfan_ocr"
    text = read_text(fields, "qwen3" if scanning else "qwen2", None if published else Tying(silent=not scanning))

    def encode(inner: Fields) -> list[Module]:
        return _encoder(fields, inner, text.hidden_size, biased=published or scanning)

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _encoder(fields: Fields, inner: Fields, hidden: int, *, biased: bool) -> list[Module]:
    if biased:
        inner = Fields({"qkv_bias": True, **inner.values}, inner.pointer)
    tower = vision.internvl(inner)
    width = vision.width(inner, "internvl_vision")
    ratio = fields.number("downsample_ratio", 0.5)
    if not 0 < ratio <= 1:
        raise fields.refuse("downsample_ratio", "downsample_ratio must be above 0 and at most 1.")
    joined = width * int(1 / ratio) ** 2
    tower.name = "projector"
    tower.norm("norm", joined)
    tower.linear("linear_1", hidden, joined)
    tower.linear("linear_2", hidden, hidden)
    return tower.modules
