"""cohere2 (Command R7B, A): cohere with a window in all but every fourth layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("cohere2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
}


def read(fields: Fields) -> Architecture:
    """`sliding_window_pattern` stands in for `layer_types` in the published files."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    every = fields.integer("sliding_window_pattern")
    windows = layer_windows(fields, shape.layers, lambda index: (index + 1) % every != 0)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, norms=1)
    return dense.read(fields, layer, shape=shape, windows=windows)
