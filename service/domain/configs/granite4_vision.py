"""granite4_vision: an encoder read at several depths and offsets, each by learnt questions, before a granite."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import vision
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import MAX_LAYERS, Fields, shown
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("granite4_vision",)
_QUESTIONS: Mapping[str, Any] = {"num_hidden_layers": 1, "intermediate_size": 3072, "cross_attention_frequency": 1}
_CLIP = "clip_vision_model"
_OFFSETS, _MOST_SIDE, _DIGITS = 4, 64, 3


def read(fields: Fields) -> Architecture:
    """One projector for each depth, and four for the corners of a square of patches."""
    text = read_text(fields, "granite", Tying(), renamed={"granite4_vision_text": "granite"})
    listed = fields.get("deepstack_layer_map")
    if not isinstance(listed, list | tuple) or len(listed) > MAX_LAYERS:
        raise fields.refuse("deepstack_layer_map", "deepstack_layer_map must list the depths that are read.")
    sides = _sides(fields)

    def encode(inner: Fields) -> list[Module]:
        tower = vision.by_type(inner, _CLIP)
        width = vision.width(inner, _CLIP)
        return [*tower.modules, *_projectors(fields, width, text.hidden_size, sides, len(listed) + _OFFSETS)]

    modules, notes = encoder(fields, "vision_config", encode)
    newline = Tower(ModuleKind.VISION, "image_newline")
    newline.vector("weight", text.hidden_size)
    return compose(fields, text, [*modules, *newline.modules], *notes)


def _sides(fields: Fields) -> tuple[int, int]:
    """Questions and patches along a window's side: 4/8 asks four for every eight."""
    rate = fields.text("downsample_rate") or ""
    words = rate.split("/")
    if len(words) != 2 or not all(word.isdecimal() and len(word) < _DIGITS for word in words):  # noqa: PLR2004
        raise fields.refuse("downsample_rate", f"downsample_rate must be two numbers such as 4/8, not {shown(rate)}.")
    asked, window = (int(word) for word in words)
    if not 0 < asked <= _MOST_SIDE or not 0 < window <= _MOST_SIDE:
        raise fields.refuse("downsample_rate", f"downsample_rate must be of sides from 1 to {_MOST_SIDE}.")
    return asked, window


def _projectors(fields: Fields, width: int, out: int, sides: tuple[int, int], count: int) -> list[Module]:
    inner = fields.inner("qformer_config") or Fields({}, f"{fields.pointer}/qformer_config")
    inner = inner.defaulting(_QUESTIONS)
    each, every = depth(inner, "num_hidden_layers"), inner.integer("cross_attention_frequency")
    asking = len(range(0, each, every))
    layers, crossing = count * each, count * asking
    tower = Tower(ModuleKind.VISION, "projectors")
    tower.matrix("query", count * sides[0] ** 2, width)
    tower.matrix("image_positions", count * sides[1] ** 2, width)
    tower.norm("norms", width, 2 * count)
    tower.attention(width, layers + crossing)
    tower.mlp(width, inner.integer("intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers + crossing)
    tower.linear("out_linear", out, width, count)
    return tower.modules
