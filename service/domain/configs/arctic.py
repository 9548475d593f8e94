"""arctic: in each layer a dense MLP of the hidden size beside the experts, with a norm of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("arctic",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 7168,
    "intermediate_size": 4864,
    "num_hidden_layers": 35,
    "num_attention_heads": 56,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
    "num_local_experts": 128,
    "num_experts_per_tok": 2,
    "moe_layer_frequency": 1,
}


def read(fields: Fields) -> Architecture:
    """`moe_layer_frequency` n gives every n-th layer experts; the dense MLP runs beside them."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("intermediate_size"))
    every = fields.integer("moe_layer_frequency")
    sparse = tuple(i for i in shape.all_layers if (i + 1) % every == 0)
    extra: list[Module] = []
    if sparse and fields.flag("parallel_attn_mlp_res", default=True):
        extra = blocks.gated_mlp(shape.hidden, shape.hidden, sparse)
        extra = [replace(m, name=f"residual.{m.name}") for m in extra]
        extra.append(blocks.vector("residual_norm", shape.hidden, sparse))
    return moe.read(fields, shape, dense.Layer(), experts, sparse=sparse, extra=tuple(extra))
