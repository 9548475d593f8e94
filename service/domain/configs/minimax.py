"""minimax (Text-01 and M1): lightning attention, softmax attention in every eighth layer, experts in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, layer_kinds, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing, split
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.recurrent_blocks import lightning, lightning_cache

MODEL_TYPES = ("minimax", "minimax_text_01", "minimax_m1")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "num_experts_per_tok": 2,
    "num_local_experts": 8,
}


def read(fields: Fields) -> Architecture:
    """The published files list 1 for softmax and 0 for lightning, converted ones words."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    if fields.optional("sliding_window") is not None:
        raise fields.refuse("sliding_window", "This family has no rule for a sliding window.")
    if fields.optional("shared_intermediate_size", least=0):
        raise fields.refuse("shared_intermediate_size", "This family has no rule for a shared expert.")
    attending, mixing = _kinds(fields, shape)
    heads = shape.heads
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("intermediate_size"))
    made = [
        *frame(shape),
        *(blocks.attention(shape.hidden, heads, attending) if attending else ()),
        *lightning(shape.hidden, heads.query, heads.key_width, mixing),
        *moe.modules(shape.hidden, experts, shape.all_layers),
    ]
    state = lightning_cache(heads.query, heads.key_width)
    return architecture(fields, shape, made, mixed_caches(shape, attending, state, mixing))


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    known = (layer_kinds.LINEAR, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    marks = fields.per_layer("attn_type_list", shape.layers, most=1)
    if marks is not None:
        return split(shape.all_layers, lambda layer: marks[layer] == 1)
    return split(shape.all_layers, lambda layer: layer % 2 == 0)
