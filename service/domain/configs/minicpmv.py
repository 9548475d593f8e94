"""minicpmv (MiniCPM-V 2.6, 4 and 4.5) and minicpmv4_6: siglip before a decoder that the version tells.

The former ask a picture a fixed number of questions, the latter joins patches twice, inside the encoder and behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import vision
from service.domain.configs.encoder_blocks import Tower
from service.domain.configs.fields import Fields, shown
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("minicpmv", "minicpmv4_6")
_DECODERS = {"2.6": "qwen2", "4.0": "llama", "4.5": "qwen3"}
_SIGLIP: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "image_size": 980,
    "patch_size": 14,
}
_SMALL: Mapping[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "image_size": 224,
    "patch_size": 16,
}
_JOINED = 4
_MOST_TIMES = 16


def read(fields: Fields) -> Architecture:
    """The decoder's sizes stand beside the encoder's config in the former."""
    if fields.text("model_type") == "minicpmv4_6":
        return _read_joining(fields)
    kind = _DECODERS[_version(fields)]
    text = read_text(fields, kind, renamed={"minicpmv": kind})

    def encode(inner: Fields) -> list[Module]:
        dropped = fields.flag("drop_vision_last_layer", default=False)
        tower = _siglip(inner, _SIGLIP, dropped=dropped)
        width, hidden = vision.width(inner.defaulting(_SIGLIP)), text.hidden_size
        _resampler(tower, hidden, width, fields.integer("query_num", default=64))
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _version(fields: Fields) -> str:
    """The published files give it as a number."""
    value = fields.get("version")
    named = {2.6: "2.6", 4: "4.0", 4.5: "4.5"}.get(value) if isinstance(value, int | float) else value
    if not isinstance(named, str) or named not in _DECODERS:
        raise fields.refuse(
            "version", f"The versions with a known decoder are {', '.join(_DECODERS)}, not {shown(value)}."
        )
    return named


def _siglip(fields: Fields, unsaid: Mapping[str, Any], *, dropped: bool = False) -> Tower:
    stated = {**unsaid, **fields.values, "vision_use_head": False}
    if dropped:
        layers = Fields(stated, fields.pointer).integer("num_hidden_layers")
        stated["num_hidden_layers"] = layers - 1
    return vision.siglip(Fields(stated, fields.pointer))


def _resampler(tower: Tower, hidden: int, width: int, questions: int) -> None:
    """Attention of learnt questions over all patches, normed before, between and behind, and a last projection."""
    tower.name = "resampler"
    tower.matrix("query", questions, hidden)
    if width != hidden:
        tower.linear("kv_proj", hidden, width, bias=False)
    tower.attention(hidden, 1)
    tower.norm("norms", hidden, 3)
    tower.matrix("proj", hidden, hidden)


def _read_joining(fields: Fields) -> Architecture:
    text = read_text(fields, "qwen3_5_text", Tying())

    def encode(inner: Fields) -> list[Module]:
        tower = _siglip(inner, _SMALL)
        width = inner.defaulting(_SMALL).integer("hidden_size")
        _inner_merger(inner.defaulting(_SMALL), tower, width)
        _merger(fields, tower, width, text.hidden_size)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _inner_merger(fields: Fields, tower: Tower, width: int) -> None:
    """Attention within a window, then an MLP over all of it."""
    sides = fields.integers("window_kernel_size", least=1) or (2, 2)
    if len(sides) != 2:  # noqa: PLR2004  # height and width
        raise fields.refuse("window_kernel_size", "window_kernel_size must be two numbers.")
    joined = sides[0] * sides[1]
    inner = joined * fields.integer("intermediate_size")
    tower.name = "vit_merger"
    tower.attention(width, 1)
    tower.norm("layer_norm", width)
    tower.norm("pre_norm", joined * width)
    tower.linear("linear_1", inner, joined * width)
    tower.linear("linear_2", width, inner)


def _merger(fields: Fields, tower: Tower, width: int, out: int) -> None:
    """An MLP over four patches, as often as they are joined once more; the last gives the decoder's size."""
    joined, times = _JOINED * width, fields.integer("merger_times", default=1, most=_MOST_TIMES)
    tower.name = "merger"
    tower.norm("pre_norm", joined, times)
    tower.linear("linear_1", joined, joined, times)
    tower.linear("linear_between", width, joined, times - 1)
    tower.linear("linear_2", out, joined)
