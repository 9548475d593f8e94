"""solar_open: glm4_moe with experts in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, glm4_moe, moe
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("solar_open",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 196608,
    "hidden_size": 4096,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "head_dim": 128,
    "moe_intermediate_size": 1280,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
}


def read(fields: Fields) -> Architecture:
    """Biases, where the file has them, are on query, key and value."""
    fields = fields.defaulting(DEFAULTS)
    layer = dense.Layer(qkv_bias=fields.flag("attention_bias", default=False))
    return moe.read(fields, decoder(fields), layer, glm4_moe.routed(fields))
