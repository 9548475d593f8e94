"""granitemoe and granitemoeshared: llama's attention, experts in every layer, a shared one in the second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("granitemoe", "granitemoeshared")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 0,
}


def read(fields: Fields) -> Architecture:
    """`intermediate_size` is one expert's width."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    count, active = routing(fields, ("num_local_experts",), ("num_experts_per_tok",))
    shared = fields.text("model_type") == "granitemoeshared"
    experts = moe.Experts(
        count=count,
        active=active,
        width=fields.integer("intermediate_size"),
        shared=fields.integer("shared_intermediate_size", least=0) if shared else 0,
    )
    return moe.read(fields, shape, dense.Layer(qkv_bias=biased, out_bias=biased), experts)
