"""mimo_v2_flash (V2 Flash, V2.5): keys wider than values, and more KV heads in the layers with a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module
from service.domain.configs import blocks, dense, glm4_moe, gpt_oss, moe
from service.domain.configs.base import FULL, SLIDING, Decoder, architecture, decoder, frame, split
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields

MODEL_TYPES = ("mimo_v2_flash", "mimo_v2")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 152576,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "head_dim": 192,
    "v_head_dim": 128,
    "sliding_window": 128,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "n_shared_experts": 0,
    "num_experts_per_tok": 8,
}


_EVERY = 6
_LOCAL = 1


def read(fields: Fields) -> Architecture:
    """A layer with a window has a sink for each query head; the first layer's MLP is dense."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    wide = shape.heads._replace(value_width=fields.integer("v_head_dim"))
    narrow = _sliding_heads(fields, wide)
    sliding, full = split(shape.all_layers, _slides(fields, shape.layers).__getitem__)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased)
    modules = [
        *frame(shape),
        *(dense.attention(shape._replace(heads=wide), layer, full) if full else []),
        *(dense.attention(shape._replace(heads=narrow), layer, sliding) if sliding else []),
        *([gpt_oss.sinks(narrow, sliding)] if sliding else []),
        *_mlps(fields, shape),
    ]
    groups = ((wide, None, full), (narrow, fields.integer("sliding_window"), sliding))
    caches = tuple(CacheLayers(blocks.cache(h, w), layers, h.query) for h, w, layers in groups if layers)
    return architecture(fields, shape._replace(heads=wide), modules, caches)


def _sliding_heads(fields: Fields, wide: Heads) -> Heads:
    """Twice the KV heads unless the file counts them; the other sizes are those of the full layers."""
    narrow = Heads(
        query=fields.integer("swa_num_attention_heads", default=wide.query),
        kv=fields.integer("swa_num_key_value_heads", default=2 * wide.kv),
        key_width=fields.integer("swa_head_dim", default=wide.key_width),
        value_width=fields.integer("swa_v_head_dim", default=wide.value_width),
    )
    if narrow.query % narrow.kv:
        detail = f"{narrow.query} query heads cannot share {narrow.kv} KV heads evenly."
        raise fields.refuse("swa_num_key_value_heads", detail)
    return narrow


def _slides(fields: Fields, count: int) -> list[bool]:
    fields.has("attention_chunk_size")  # stands beside the window in the published file, and is it
    words = fields.choices("layer_types", (FULL, SLIDING), count)
    if words:
        return [word == SLIDING for word in words]
    pattern = fields.per_layer("hybrid_layer_pattern", count, most=1)
    if pattern:
        return [kind == _LOCAL for kind in pattern]
    return [layer > 0 and (layer + 1) % _EVERY != 0 for layer in range(count)]


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    sparse = moe.sparse_layers(fields, shape.layers, first=1)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    made = moe.modules(shape.hidden, glm4_moe.routed(fields), sparse)
    return [*made, *(blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else [])]
