"""glm and glm4 (the dense models in their library form): biases on query, key and value, a stated head width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("glm", "glm4")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 13696,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "max_position_embeddings": 131072,
    "head_dim": 128,
    "partial_rotary_factor": 0.5,
}


def read(fields: Fields) -> Architecture:
    """glm4 norms behind attention and MLP as well as before them."""
    fields = fields.defaulting(DEFAULTS)
    norms = 4 if fields.text("model_type") == "glm4" else 2
    return dense.read(fields, dense.Layer(qkv_bias=fields.flag("attention_bias", default=True), norms=norms))
