"""smollm3: llama's layer, a quarter of them without positions; windows, if switched on, are on these."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import FULL, decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("smollm3",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128256,
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "no_rope_layer_interval": 4,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """A layer without positions keeps its cache like any other."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=fields.flag("mlp_bias", default=False))
    return dense.read(fields, layer, shape=shape, windows=_windows(fields, shape.layers))


def _windows(fields: Fields, count: int) -> tuple[int | None, ...]:
    if not fields.flag("use_sliding_window", default=False) or fields.optional("sliding_window") is None:
        fields.choices("layer_types", (FULL,), count)
        return (None,) * count
    every = fields.integer("no_rope_layer_interval")
    rotary = fields.per_layer("no_rope_layers", count)  # named for the layers that are 0 in it
    return layer_windows(fields, count, lambda index: not rotary[index] if rotary else (index + 1) % every == 0)
