"""bailing_moe_v2 (Ling 2, Ring 2): norms on each head, experts behind the first layers, shared ones beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("bailing_moe_v2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 157184,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "num_hidden_layers": 20,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "head_dim": 128,
    "moe_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "first_k_dense_replace": 1,
}


def read(fields: Fields) -> Architecture:
    """The files name the shared experts in two ways; the published counts hold the router's correction bias."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    layer = dense.Layer(
        qkv_bias=fields.flag("use_qkv_bias", default=False),
        out_bias=fields.flag("use_bias", default=False),
        head_norms=fields.flag("use_qk_norm", default=True),
    )
    count, active = routing(fields, ("num_experts",), ("num_experts_per_tok",))
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("num_shared_experts", "n_shared_experts", least=0)
    shared *= fields.integer("moe_shared_expert_intermediate_size", default=width)
    experts = moe.Experts(count=count, active=active, width=width, shared=shared, router_bias=True)
    behind = moe.predicted_layers(fields, shape)
    extra = moe.prediction(shape, layer, moe.modules(shape.hidden, experts, behind), behind)
    return moe.read(fields, shape, layer, experts, sparse=moe.sparse_layers(fields, shape.layers), extra=extra)
