"""step3p5 (also within step3p7): gated attention, more query heads where there is a window, experts behind the first.

The files name groups and experts otherwise than most (`num_attention_groups`, `moe_num_experts`, `moe_top_k`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import SLIDING, Decoder, architecture, decoder, frame, layer_windows, routing, split
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields

MODEL_TYPES = ("step3p5",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128815,
    "hidden_size": 4096,
    "intermediate_size": 11264,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 128000,
    "moe_num_experts": 288,
    "moe_top_k": 8,
    "moe_intermediate_size": 1280,
    "share_expert_dim": 1280,
}
_LAYER = dense.Layer(head_norms=True)
_EVERY = 4


def read(fields: Fields) -> Architecture:
    """Where a file has a window and no `layer_types`, every fourth layer from the first on is full, as published."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    slides = fields.optional("sliding_window") is not None
    windows = layer_windows(fields, shape.layers, lambda index: slides and index % _EVERY != 0)
    sliding, full = split(shape.all_layers, lambda index: windows[index] is not None)
    local = _sliding_heads(fields, shape.heads)
    groups = ((shape.heads, full), (local, sliding))
    made = [*frame(shape), *_mlps(fields, shape), *_predicted(fields, shape._replace(heads=local))]
    for heads, layers in groups:
        made += _attention(fields, shape._replace(heads=heads), layers) if layers else []
    caches = tuple(
        CacheLayers(blocks.cache(heads, windows[layers[0]]), layers, heads.query) for heads, layers in groups if layers
    )
    return architecture(fields, shape, made, caches)


def _sliding_heads(fields: Fields, full: Heads) -> Heads:
    other = fields.inner("attention_other_setting")
    query = fields.integer("num_sliding_attention_heads", default=full.query)
    kv = full.kv
    if other is not None and other.text("attention_type") in (None, SLIDING):
        query = other.integer("num_attention_heads", default=query)
        kv = other.integer("num_attention_groups", default=kv)
    if query % kv:
        raise fields.refuse("attention_other_setting", f"{query} query heads cannot share {kv} KV heads evenly.")
    return full._replace(query=query, kv=kv)


def _attention(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    return [*dense.attention(shape, _LAYER, layers), head_gate(fields, shape, layers)]


def head_gate(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> Module:
    """What gates attention: a value for each head, or for each element of it (`gating`)."""
    query, gates = shape.heads.query, shape.heads.query
    if fields.get("gating") not in (None, True, "per-head"):
        gates *= shape.heads.key_width
    return blocks.matrix("gate", ModuleKind.ATTENTION, gates, shape.hidden, layers, Shard.ROWS, query)


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    count, active = routing(
        fields, ("moe_num_experts", "n_routed_experts", "num_experts"), ("moe_top_k", "num_experts_per_tok")
    )
    shared = fields.integer("share_expert_dim", "share_expert_dims")
    experts = moe.Experts(count=count, active=active, width=fields.integer("moe_intermediate_size"), shared=shared)
    sparse = moe.enumerated_layers(fields, shape.layers, first=3)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    made = moe.modules(shape.hidden, experts, sparse)
    return [*made, *(blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else [])]


def _predicted(fields: Fields, shape: Decoder) -> tuple[Module, ...]:
    """Prediction layers as published: with a window, a dense MLP and a head of their own."""
    behind = moe.predicted_layers(fields, shape)
    if not behind:
        return ()
    mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), behind)
    head = blocks.matrix("lm_head", ModuleKind.HEAD, shape.vocabulary, shape.hidden, behind, Shard.ROWS)
    return moe.prediction(shape, _LAYER, [*mlp, head_gate(fields, shape, behind), head], behind)
