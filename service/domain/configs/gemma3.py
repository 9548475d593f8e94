"""gemma3 and gemma3_text: a window in five layers of six, four norms a layer; siglip before the larger ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import dense, vision
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("gemma3", "gemma3_text")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "sliding_window": 4096,
    "rope_local_base_freq": 10000.0,
    "sliding_window_pattern": 6,
}


def read(fields: Fields) -> Architecture:
    """Read the decoder, and the encoder of a file that nests it."""
    return _text(fields) if fields.text("model_type") == "gemma3_text" else _wrapper(fields)


def _text(fields: Fields) -> Architecture:
    fields = one_way(fields).defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    every = fields.integer("sliding_window_pattern", "_sliding_window_pattern")
    windows = layer_windows(fields, shape.layers, lambda layer: (layer + 1) % every != 0)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True, norms=4)
    return dense.read(fields, layer, shape=shape, windows=windows)


def one_way(fields: Fields) -> Fields:
    """The fields; refuses attention that looks ahead, which keeps no cache while it answers."""
    stated = fields.get("use_bidirectional_attention")
    if stated is True or stated == "all":
        raise fields.refuse("use_bidirectional_attention", "A model that attends both ways does not decode.")
    return fields


def _wrapper(fields: Fields) -> Architecture:
    text = read_text(fields, "gemma3_text", Tying(silent=True))

    def encode(inner: Fields) -> list[Module]:
        tower = vision.by_type(inner, "siglip_vision_model")
        width = vision.width(inner, "siglip_vision_model")
        tower.name = "projector"
        tower.linear("input_projection", width, text.hidden_size, bias=False)
        tower.norm("norm", width, bias=False)
        return tower.modules

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
