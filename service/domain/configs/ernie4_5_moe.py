"""ernie4_5_moe: ernie4_5 with experts in a span of layers, at an interval."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, ModuleKind, Place
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("ernie4_5_moe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 103424,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 28,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "moe_intermediate_size": 1536,
    "moe_num_experts": 64,
    "moe_k": 6,
    "moe_num_shared_experts": 2,
    "moe_layer_start_index": 1,
    "moe_layer_end_index": -1,
    "moe_layer_interval": 1,
}


def read(fields: Fields) -> Architecture:
    """The router's correction bias is a parameter here; a prediction layer has a dense MLP and no norm behind it."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    biased = fields.flag("use_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=biased)
    count, active = routing(fields, ("moe_num_experts", "num_experts"), ("moe_k", "num_experts_per_tok"))
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("moe_num_shared_experts", least=0) * width
    experts = moe.Experts(count=count, active=active, width=width, shared=shared, router_bias=True)
    behind = moe.predicted_layers(fields, shape)
    mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), behind)
    extra = moe.prediction(shape, layer, mlp, behind, norms=2)
    if biased:
        extra = (*extra, blocks.edge_vector("lm_head.bias", shape.vocabulary, Place.LAST, ModuleKind.BIAS))
    return moe.read(fields, shape, layer, experts, sparse=_sparse(fields, shape.layers), extra=extra)


def _sparse(fields: Fields, count: int) -> tuple[int, ...]:
    first = fields.integer("moe_layer_start_index", least=0)
    last = fields.integer("moe_layer_end_index", least=-1)
    interval = fields.integer("moe_layer_interval")
    last = count - 1 if last == -1 else last
    return tuple(i for i in range(count) if first <= i <= last and (i + 1) % interval == 0)
