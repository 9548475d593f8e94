"""hy_v3 (Hy3): norms on each head, experts behind the first layer, a shared one beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("hy_v3",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 120832,
    "hidden_size": 4096,
    "intermediate_size": 13312,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "head_dim": 128,
    "num_experts": 192,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "moe_intermediate_size": 1536,
}


def read(fields: Fields) -> Architecture:
    """A prediction layer has experts."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    mlp_bias = fields.flag("mlp_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=mlp_bias, head_norms=True)
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("num_shared_experts", least=0) * width
    experts = moe.Experts(count=count, active=active, width=width, shared=shared)
    behind = moe.predicted_layers(fields, shape)
    extra = moe.prediction(shape, layer, moe.modules(shape.hidden, moe.stored(experts), behind), behind)
    sparse = moe.sparse_layers(fields, shape.layers, first=1)
    return moe.read(fields, shape, layer, experts, sparse=sparse, extra=extra)
