"""mixtral: mistral's layer with experts in place of the MLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing, uniform_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("mixtral",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def read(fields: Fields) -> Architecture:
    """Experts in every layer; the published files have no window."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("intermediate_size"))
    return moe.read(fields, shape, dense.Layer(), experts, windows=uniform_windows(fields, shape.layers))
