"""phimoe: mixtral's layer with LayerNorms, and biases where the file says so, the head included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, ModuleKind, Place
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import decoder, routing, uniform_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("phimoe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32064,
    "hidden_size": 4096,
    "intermediate_size": 6400,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "num_local_experts": 16,
    "num_experts_per_tok": 2,
}


def read(fields: Fields) -> Architecture:
    """A window shorter than the longest sequence closes over every layer (2047 in the mini and tiny models)."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    head = blocks.edge_vector("lm_head.bias", shape.vocabulary, Place.LAST, ModuleKind.BIAS)
    return moe.read(
        fields,
        shape,
        dense.Layer(qkv_bias=biased, out_bias=biased, norm_bias=True),
        moe.Experts(count=count, active=active, width=fields.integer("intermediate_size")),
        windows=uniform_windows(fields, shape.layers),
        extra=(head,) if fields.flag("lm_head_bias", default=False) else (),
    )
