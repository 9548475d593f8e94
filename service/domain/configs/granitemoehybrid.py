"""granitemoehybrid (Granite 4): mamba 2 mixers and a few attentions, a shared MLP and, mostly, experts in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense, layer_kinds, moe
from service.domain.configs.bamba import mamba2
from service.domain.configs.base import MAX_EXPERTS, Decoder, architecture, decoder, frame, routing, split
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches

MODEL_TYPES = ("granitemoehybrid",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "shared_intermediate_size": 1024,
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}


def read(fields: Fields) -> Architecture:
    """No experts at all in the dense ones; without a list every layer has a mixer."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    known = (layer_kinds.LINEAR, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layer_types", "layers_block_type"), known, shape.layers)
    full = set(layer_kinds.of(words or (), layer_kinds.FULL))
    attending, mixing = split(shape.all_layers, full.__contains__)
    mixer = mamba2(fields, fields.integer("mamba_expand") * shape.hidden)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased)
    made = [
        *frame(shape),
        *(dense.attention(shape, layer, attending) if attending else ()),
        *mixer.modules(shape.hidden, mixing),
        *_mlps(fields, shape),
    ]
    return architecture(fields, shape, made, mixed_caches(shape, attending, mixer.cache(), mixing))


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    shared = blocks.shared_experts(shape.hidden, fields.integer("shared_intermediate_size"), shape.all_layers)
    if not fields.integer("num_local_experts", "num_experts", default=0, least=0, most=MAX_EXPERTS):
        return shared
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("intermediate_size"))
    return [*moe.modules(shape.hidden, experts, shape.all_layers), *shared]
