"""laguna (Laguna XS, S and M): gated attention with heads by layer, windows where the file says, experts beside one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, grouped, layer_windows, routing
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields
from service.domain.configs.step3p5 import head_gate

MODEL_TYPES = ("laguna",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 100352,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 40,
    "num_attention_heads": 48,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "sliding_window": 512,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
}
_Kind = tuple[Heads, int | None]


def read(fields: Fields) -> Architecture:
    """Layers with windows have more query heads than others in the published files; KV heads are the same."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True)
    kinds = _kinds(fields, shape)
    made = [*frame(shape), *_mlps(fields, shape)]
    for (heads, _), layers in kinds.items():
        local = shape._replace(heads=heads)
        made += [*dense.attention(local, layer, layers), head_gate(fields, local, layers)]
    caches = tuple(CacheLayers(blocks.cache(*kind), layers, kind[0].query) for kind, layers in kinds.items())
    return architecture(fields, shape, made, caches)


def _kinds(fields: Fields, shape: Decoder) -> dict[_Kind, tuple[int, ...]]:
    """The layers by their heads and windows."""
    windows = layer_windows(fields, shape.layers, lambda _: False)
    counts = fields.per_layer("num_attention_heads_per_layer", shape.layers, least=1)
    heads = [_heads(fields, shape, count) for count in counts] if counts else [shape.heads] * shape.layers
    kinds: dict[_Kind, tuple[int, ...]] = {}
    for layer, kind in enumerate(zip(heads, windows, strict=True)):
        kinds[kind] = (*kinds.get(kind, ()), layer)
    return kinds


def _heads(fields: Fields, shape: Decoder, query: int) -> Heads:
    return grouped(fields, query, shape.heads.kv, shape.heads.key_width, shape.hidden)


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    """The router's correction is a parameter."""
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width, shared = fields.integer("moe_intermediate_size"), fields.integer("shared_expert_intermediate_size", least=0)
    experts = moe.Experts(count=count, active=active, width=width, shared=shared, router_bias=True)
    sparse = moe.sparse_layers(fields, shape.layers, first=1)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    made = moe.modules(shape.hidden, experts, sparse)
    return made + blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else made
