"""olmoe: norms over all heads, and experts in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, filled, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("olmoe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50304,
    "hidden_size": 2048,
    "intermediate_size": 2048,
    "num_hidden_layers": 16,
    "num_attention_heads": 16,
    "max_position_embeddings": 4096,
    "num_experts": 64,
    "num_experts_per_tok": 8,
}


def read(fields: Fields) -> Architecture:
    """`intermediate_size` is one expert's width."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=False)
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("intermediate_size"))
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, wide_norms=True)
    return moe.read(fields, filled(fields, decoder(fields)), layer, experts)
