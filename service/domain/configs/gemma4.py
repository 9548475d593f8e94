"""gemma4 and gemma4_unified: windows with heads of their own, full layers with wider ones, shared caches, experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, layer_heads, layer_kinds, moe, shared_layers
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields
from service.domain.configs.gemma3 import one_way
from service.domain.configs.gemma_blocks import layer_inputs

MODEL_TYPES = ("gemma4_text", "gemma4_unified_text")
_FOURTH: Mapping[str, Any] = {
    "vocab_size": 262144,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 30,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "global_head_dim": 512,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
}
_UNIFIED: Mapping[str, Any] = {
    **_FOURTH,
    "max_position_embeddings": 262144,
    "sliding_window": 1024,
}
_DEFAULTS = {"gemma4_text": _FOURTH, "gemma4_unified_text": _UNIFIED}
_EVERY = 6


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a layer attends to and with which heads; keys that serve as values are cached as both all the same."""

    word: str
    heads: Heads
    keys_as_values: bool


def read(fields: Fields) -> Architecture:
    """Layers that share an earlier cache have neither keys nor values, and may have an MLP of twice the width."""
    fields = one_way(fields).defaulting(_DEFAULTS[fields.text("model_type") or "gemma4_text"])
    shape = decoder(fields, tied=True)
    kinds = _kinds(fields, shape)
    first_shared = shared_layers.owners(fields, kinds)
    made, biased = frame(shape, norms=4), fields.flag("attention_bias", default=False)
    for kind in dict.fromkeys(kinds):
        layers = tuple(layer for layer, each in enumerate(kinds) if each == kind)
        made += shared_layers.attention(
            shape.hidden, kind.heads, layers, first_shared, biased=biased, keys_as_values=kind.keys_as_values
        )
    made += [*_mlps(fields, shape, first_shared), *_experts(fields, shape), *_inputs(fields, shape)]
    window = fields.integer("sliding_window")
    specs = {
        kind: blocks.cache(kind.heads, window if kind.word == layer_kinds.SLIDING else None)
        for kind in dict.fromkeys(kinds)
    }
    caches = shared_layers.caches(kinds, first_shared, specs, shape.heads.query)
    return architecture(fields, shape, made, caches)


def _inputs(fields: Fields, shape: Decoder) -> list[Module]:
    """The unified one's code has none, whatever its file says."""
    return [] if fields.text("model_type") == "gemma4_unified_text" else layer_inputs(fields, shape)


def _kinds(fields: Fields, shape: Decoder) -> tuple[_Kind, ...]:
    """Full layers have heads of their own; the last layer is one whatever the file says, as in the model's code."""
    known = (layer_kinds.FULL, layer_kinds.SLIDING)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    words = words or tuple(known[(layer + 1) % _EVERY != 0] for layer in shape.all_layers)
    words = (*words[:-1], layer_kinds.FULL)
    same = fields.flag("attention_k_eq_v", default=False)
    heads = layer_heads.by_layer(fields, shape, words, same=same)
    return tuple(_Kind(word, each, same and word == layer_kinds.FULL) for word, each in zip(words, heads, strict=True))


def _mlps(fields: Fields, shape: Decoder, first_shared: int) -> list[Module]:
    width, layers = fields.integer("intermediate_size"), shape.all_layers
    if not fields.flag("use_double_wide_mlp", default=False) or first_shared == shape.layers:
        return blocks.gated_mlp(shape.hidden, width, layers)
    wide = blocks.gated_mlp(shape.hidden, 2 * width, layers[first_shared:])
    return [*blocks.gated_mlp(shape.hidden, width, layers[:first_shared]), *wide]


def _experts(fields: Fields, shape: Decoder) -> list[Module]:
    """Beside the MLP, not instead of it: three more norms, and a router with scales of its own."""
    if not fields.flag("enable_moe_block", default=False):
        return []
    count, active = routing(fields, ("num_experts",), ("top_k_experts", "num_experts_per_tok"))
    experts = moe.Experts(count=count, active=active, width=fields.integer("moe_intermediate_size"))
    layers = shape.all_layers
    return [
        *moe.modules(shape.hidden, experts, layers),
        blocks.vector("router.scale", shape.hidden, layers),
        blocks.vector("router.per_expert_scale", count, layers),
        blocks.vector("expert_norms", shape.hidden, layers, per_layer=3),
    ]
