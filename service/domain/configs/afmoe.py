"""afmoe (Trinity): gated attention, four norms a layer, a window in three layers of four, experts behind the first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import Decoder, decoder, layer_windows, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("afmoe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 200192,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "max_position_embeddings": 16384,
    "head_dim": 128,
    "moe_intermediate_size": 1408,
    "num_dense_layers": 1,
    "num_experts": 64,
    "num_experts_per_tok": 6,
    "num_shared_experts": 2,
    "global_attn_every_n_layers": 4,
    "sliding_window": 1024,
}


def read(fields: Fields) -> Architecture:
    """The gate is a matrix as large as the query's; the router's correction bias is a parameter."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    every = fields.integer("global_attn_every_n_layers")
    first = fields.integer("num_dense_layers", least=0)
    return moe.read(
        fields,
        shape,
        dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True, norms=4),
        _experts(fields),
        sparse=tuple(range(first, shape.layers)),
        windows=layer_windows(fields, shape.layers, lambda index: (index + 1) % every != 0),
        extra=(wide_gate(shape),),
    )


def _experts(fields: Fields) -> moe.Experts:
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("num_shared_experts", least=0) * width
    return moe.Experts(count=count, active=active, width=width, shared=shared, router_bias=True)


def wide_gate(shape: Decoder) -> Module:
    """What gates each element of attention."""
    width, query = shape.heads.query * shape.heads.key_width, shape.heads.query
    return blocks.matrix("gate", ModuleKind.ATTENTION, width, shape.hidden, shape.all_layers, Shard.ROWS, query)
