"""gemma2: gemma with four norms a layer and a window in every other one, from the first on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gemma2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "sliding_window": 4096,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """The alternation stands in the model code; `layer_types` wins where a file has it."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, norms=4)
    windows = layer_windows(fields, shape.layers, lambda index: index % 2 == 0)
    return dense.read(fields, layer, shape=shape, windows=windows)
