"""seed_oss: llama's layer with biases on query, key and value, and a switch for the output's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("seed_oss",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 155136,
    "hidden_size": 4096,
    "intermediate_size": 27648,
    "num_hidden_layers": 64,
    "num_attention_heads": 80,
    "num_key_value_heads": 8,
    "max_position_embeddings": 524288,
    "head_dim": 128,
}


def read(fields: Fields) -> Architecture:
    """The head width is stated and not hidden size over heads."""
    fields = fields.defaulting(DEFAULTS)
    layer = dense.Layer(
        qkv_bias=fields.flag("attention_bias", default=True),
        out_bias=fields.flag("attention_out_bias", default=False),
        mlp_bias=fields.flag("mlp_bias", default=False),
    )
    return dense.read(fields, layer)
