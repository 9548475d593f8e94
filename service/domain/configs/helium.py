"""helium: llama's layer with an output projection that is square and never biased."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, filled
from service.domain.configs.fields import Fields

MODEL_TYPES = ("helium",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 48000,
    "hidden_size": 2560,
    "intermediate_size": 7040,
    "num_hidden_layers": 24,
    "num_attention_heads": 20,
    "num_key_value_heads": 20,
    "head_dim": 128,
    "max_position_embeddings": 4096,
}


def read(fields: Fields) -> Architecture:
    """Biases of query, key and value, and of the MLP, are switches."""
    fields = fields.defaulting(DEFAULTS)
    shape = filled(fields, decoder(fields))
    layer = dense.Layer(
        qkv_bias=fields.flag("attention_bias", default=False), mlp_bias=fields.flag("mlp_bias", default=False)
    )
    return dense.read(fields, layer, shape=shape)
