"""zamba2: a mamba 2 mixer in every layer, and in some the same few blocks of attention and MLP again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, ModuleKind, Shard
from service.domain.configs import blocks, layer_kinds, zamba2_parts
from service.domain.configs.base import HIDDEN, Decoder, architecture, frame
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.recurrent_blocks import Mamba2

MODEL_TYPES = ("zamba2",)
_PATTERN = ("linear_attention",) * 6 + ("hybrid", *("linear_attention",) * 5) * 6 + ("hybrid",)
_TAIL = ("linear_attention",) * 4 + ("hybrid",) + ("linear_attention",) * 3 + ("hybrid",) + ("linear_attention",) * 2
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "num_hidden_layers": 54,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
    "mamba_d_state": 64,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_ngroups": 1,
    "n_mamba_heads": 8,
    "num_mem_blocks": 1,
    "adapter_rank": 128,
}


def read(fields: Fields) -> Architecture:
    """The blocks are stored once and each of their uses keeps keys and values of its own."""
    fields = fields.defaulting(DEFAULTS)
    shape = _shape(fields)
    users = _users(fields, shape)
    mixer = _mixer(fields, shape)
    owners = users[: fields.integer("num_mem_blocks")]
    made = [
        *frame(shape, norms=1),
        *mixer.modules(shape.hidden, shape.all_layers),
        *zamba2_parts.shared_block(fields, shape, owners),
        *zamba2_parts.adapters(fields, shape, users),
        blocks.matrix("linear", ModuleKind.MLP, shape.hidden, shape.hidden, users, Shard.REPLICATED),
    ]
    return architecture(fields, shape, made, mixed_caches(shape, users, mixer.cache(), shape.all_layers))


def _shape(fields: Fields) -> Decoder:
    """Attention works on the hidden state beside the embedding, so its heads are twice as wide."""
    hidden, query = fields.integer(*HIDDEN), fields.integer("num_attention_heads")
    kv = fields.integer("num_key_value_heads", default=query)
    if query % kv:
        raise fields.refuse("num_key_value_heads", f"{query} query heads cannot share {kv} KV heads evenly.")
    width = fields.optional("attention_head_dim")
    if width is None and 2 * hidden % query:
        raise fields.refuse("num_attention_heads", f"Twice {hidden} does not divide into {query} heads.")
    width = width or 2 * hidden // query
    return Decoder(
        layers=fields.layers(),
        hidden=hidden,
        heads=Heads(query, kv, width, width),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )


def _users(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    known = (layer_kinds.LINEAR, layer_kinds.HYBRID)
    words = layer_kinds.listed(fields, ("layers_block_type", "layer_types"), known, shape.layers)
    if words is None and fields.has("hybrid_layer_ids"):
        return tuple(sorted(set(fields.integers("hybrid_layer_ids", most=shape.layers - 1))))
    words = words or (_PATTERN + _TAIL)
    if len(words) != shape.layers:
        raise fields.refuse("layers_block_type", f"The config does not say which of its {shape.layers} layers attend.")
    return layer_kinds.of(words, layer_kinds.HYBRID)


def _mixer(fields: Fields, shape: Decoder) -> Mamba2:
    channels, heads = fields.integer("mamba_expand") * shape.hidden, fields.integer("n_mamba_heads")
    if channels % heads:
        raise fields.refuse("n_mamba_heads", f"{channels} channels do not divide into {heads} heads.")
    return Mamba2(
        heads=heads,
        head_width=channels // heads,
        groups=fields.integer("mamba_ngroups"),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv"),
        bias=fields.flag("add_bias_linear", default=False),
    )
