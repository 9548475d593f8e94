"""gpt_oss: a sink for each query head, a window in every other layer from the first on, experts with biases."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import decoder, layer_windows, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gpt_oss",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 201088,
    "hidden_size": 2880,
    "intermediate_size": 2880,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "head_dim": 64,
    "num_local_experts": 128,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
}


def read(fields: Fields) -> Architecture:
    """`intermediate_size` is one expert's width; router and experts have biases."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=True)
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    width = fields.integer("intermediate_size")
    return moe.read(
        fields,
        shape,
        dense.Layer(qkv_bias=biased, out_bias=biased),
        moe.Experts(count=count, active=active, width=width, router_bias=True, expert_bias=True),
        windows=layer_windows(fields, shape.layers, lambda index: index % 2 == 0),
        extra=(sinks(shape.heads, shape.all_layers),),
    )


def sinks(heads: blocks.Heads, layers: tuple[int, ...]) -> Module:
    """One learnt number for each query head, which its scores are weighed against."""
    return blocks.matrix("sinks", ModuleKind.BIAS, heads.query, 1, layers, Shard.ROWS, heads.query)
