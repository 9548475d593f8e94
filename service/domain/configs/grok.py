"""grok-1: four norms a layer, eight wide experts of which a token visits two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("grok-1",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 6144,
    "intermediate_size": 32768,
    "num_hidden_layers": 64,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "head_dim": 128,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """The weights were published without a config; this reads the one of the converted checkpoints."""
    fields = fields.defaulting(DEFAULTS)
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width = fields.integer("moe_intermediate_size", "intermediate_size")
    experts = moe.Experts(count=count, active=active, width=width)
    return moe.read(fields, decoder(fields, tied=True), dense.Layer(norms=4), experts)
