"""ernie4_5: llama's layer with a stated head width and a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("ernie4_5",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 103424,
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "num_hidden_layers": 18,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "max_position_embeddings": 131072,
    "head_dim": 128,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """`use_bias` covers attention and MLP."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("use_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=biased)
    return dense.read(fields, layer, shape=decoder(fields, tied=True))
