"""minimax_m2 (M2 to M2.7): experts in every layer, norms over all heads at once, full attention throughout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("minimax_m2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 200064,
    "hidden_size": 3072,
    "intermediate_size": 1536,
    "num_hidden_layers": 62,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "max_position_embeddings": 196608,
    "head_dim": 128,
    "num_local_experts": 256,
    "num_experts_per_tok": 8,
}


def read(fields: Fields) -> Architecture:
    """Unlike its predecessors, it has no linear layers; `attn_type_list` is all ones."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    kinds = fields.per_layer("attn_type_list", shape.layers)
    if kinds and set(kinds) != {1}:
        raise fields.refuse("attn_type_list", "This family has no rule for layers without softmax attention.")
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("intermediate_size"))
    return moe.read(fields, shape, dense.Layer(wide_norms=True), experts)
