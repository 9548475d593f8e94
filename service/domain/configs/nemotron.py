"""nemotron (4, Minitron): a plain MLP and LayerNorms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("nemotron",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 32,
    "num_attention_heads": 48,
    "max_position_embeddings": 4096,
    "partial_rotary_factor": 0.5,
}


def read(fields: Fields) -> Architecture:
    """Biases by switches, as in llama."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=False)
    mlp_bias = fields.flag("mlp_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=mlp_bias, gated=False, norm_bias=True)
    return dense.read(fields, layer)
