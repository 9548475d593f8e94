"""cwm (Code World Model): llama's layer, with a window in three layers of four."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("cwm",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128256,
    "hidden_size": 6144,
    "intermediate_size": 21504,
    "num_hidden_layers": 64,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "sliding_window": 8192,
}
_EVERY = 4


def read(fields: Fields) -> Architecture:
    """The first layer is full, and then every fourth; attention has no biases, whatever the file says."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    layer = dense.Layer(mlp_bias=fields.flag("mlp_bias", default=False))
    windows = layer_windows(fields, shape.layers, lambda index: index % _EVERY != 0)
    return dense.read(fields, layer, shape=shape, windows=windows)
