"""ministral and ministral3: mistral's layer; the first has a window in the layers that `layer_types` says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, layer_windows, uniform_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("ministral", "ministral3")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}


THIRD: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 34,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 262144,
}


def read(fields: Fields) -> Architecture:
    """Without `layer_types`, a window closes over every layer; ministral3 has none unless the file gives one."""
    third = fields.text("model_type") == "ministral3"
    fields = fields.defaulting(THIRD if third else DEFAULTS)
    shape = decoder(fields)
    if third:
        windows = uniform_windows(fields, shape.layers)
    else:
        slides = fields.optional("sliding_window") is not None
        windows = layer_windows(fields, shape.layers, lambda _layer: slides)
    return dense.read(fields, dense.Layer(), shape=shape, windows=windows)
