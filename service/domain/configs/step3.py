"""step3_text: factorised attention, one KV head for all queries, which pass through a narrower projection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.configs import blocks, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("step3_text",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128815,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "num_hidden_layers": 61,
    "num_attention_heads": 64,
    "num_key_value_heads": 1,
    "head_dim": 256,
    "share_q_dim": 2048,
    "max_position_embeddings": 65536,
    "moe_num_experts": 48,
    "moe_top_k": 3,
    "moe_intermediate_size": 5120,
    "share_expert_dim": 5120,
}


def read(fields: Fields) -> Architecture:
    """`moe_layers_enum` lists the layers with experts."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    count, active = routing(fields, ("moe_num_experts", "num_experts"), ("moe_top_k", "num_experts_per_tok"))
    shared = fields.integer("share_expert_dim")
    experts = moe.Experts(count=count, active=active, width=fields.integer("moe_intermediate_size"), shared=shared)
    sparse = moe.enumerated_layers(fields, shape.layers, first=4)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    modules = [
        *frame(shape),
        *_attention(shape, fields.integer("share_q_dim")),
        *moe.modules(shape.hidden, experts, sparse),
        *(blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else []),
    ]
    return architecture(fields, shape, modules, blocks.caches(shape.heads, (None,) * shape.layers))


def _attention(shape: Decoder, narrow: int) -> list[Module]:
    _, *others = blocks.attention(shape.hidden, shape.heads, shape.all_layers)
    query, layers = shape.heads.query, shape.all_layers
    wide = query * shape.heads.key_width
    return [
        blocks.matrix("q_a_proj", ModuleKind.ATTENTION, narrow, shape.hidden, layers, Shard.REPLICATED),
        blocks.vector("q_a_norm", narrow, layers),
        blocks.matrix("q_b_proj", ModuleKind.ATTENTION, wide, narrow, layers, Shard.ROWS, query),
        *others,
    ]
