"""starcoder2: a plain MLP, LayerNorms, biases, and a window over every layer where the file has one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, uniform_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("starcoder2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 49152,
    "hidden_size": 3072,
    "intermediate_size": 12288,
    "num_hidden_layers": 30,
    "num_attention_heads": 24,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """`use_bias` covers attention and MLP."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    biased = fields.flag("use_bias", default=True)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=biased, gated=False, norm_bias=True)
    return dense.read(fields, layer, shape=shape, windows=uniform_windows(fields, shape.layers))
