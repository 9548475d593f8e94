"""jais2: llama's attention with biases, LayerNorms, and a plain MLP with biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("jais2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 150272,
    "hidden_size": 3328,
    "intermediate_size": 26624,
    "num_hidden_layers": 32,
    "num_attention_heads": 26,
    "max_position_embeddings": 8192,
}


def read(fields: Fields) -> Architecture:
    """Biases stand unless a switch takes them away."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=True)
    mlp_bias = fields.flag("mlp_bias", default=True)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=mlp_bias, gated=False, norm_bias=True)
    return dense.read(fields, layer)
