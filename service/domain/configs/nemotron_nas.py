"""nemotron-nas (Nemotron Super 49B, Ultra): llama's layer cut by search; each block says what is left of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.configs import blocks, searched_blocks
from service.domain.configs.base import HIDDEN, QUERY_HEADS, Decoder, architecture, grouped
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import LAYERS, Fields

MODEL_TYPES = ("nemotron-nas",)
_DEFAULTS: Mapping[str, Any] = {"max_position_embeddings": 131072}
_KIND = ModuleKind


def read(fields: Fields) -> Architecture:
    """A block without attention keeps nothing; the others keep their own number of KV heads."""
    fields = fields.defaulting(_DEFAULTS)
    hidden, query = fields.integer(*HIDDEN), fields.integer(*QUERY_HEADS)
    count = fields.layers(*LAYERS)
    found = searched_blocks.listed(fields, count, hidden, query)
    most = max((block.kv_heads or 0 for block in found), default=0) or query
    heads = grouped(fields, query, most, fields.optional("head_dim"), hidden)
    tied = fields.flag("tie_word_embeddings", default=False)
    shape = Decoder(count, hidden, heads, fields.integer("vocab_size"), tied)
    made = [*blocks.embedding(shape.vocabulary, hidden, tied=tied), blocks.final_norm(hidden)]
    caches: list[CacheLayers] = []
    for kv_heads, layers in _groups(tuple(block.kv_heads for block in found)):
        made += _attention(fields, shape, kv_heads, layers)
        if kv_heads:
            spec = blocks.cache(_heads(shape, kv_heads), None)
            caches.append(CacheLayers(spec, layers, query))
    for width, layers in _groups(tuple(block.width for block in found)):
        made += _mlp(fields, hidden, width, layers)
    return architecture(fields, shape, made, tuple(caches))


def _heads(shape: Decoder, kv_heads: int) -> Heads:
    return Heads(shape.heads.query, kv_heads, shape.heads.key_width, shape.heads.value_width)


def _groups(values: tuple[int | None, ...]) -> list[tuple[int, tuple[int, ...]]]:
    """Layers by what they are, those that do nothing left out."""
    groups: dict[int, list[int]] = {}
    for layer, value in enumerate(values):
        if value is not None:
            groups.setdefault(value, []).append(layer)
    return [(value, tuple(layers)) for value, layers in groups.items()]


def _attention(fields: Fields, shape: Decoder, kv_heads: int, layers: tuple[int, ...]) -> list[Module]:
    norm = blocks.vector("input_layernorm", shape.hidden, layers)
    if not kv_heads:
        return [norm, _linear("linear_attn", shape.hidden, layers)]
    heads = _heads(shape, kv_heads)
    made = [norm, *blocks.attention(shape.hidden, heads, layers)]
    if fields.flag("attention_bias", default=False):
        made += blocks.attention_biases(heads, layers)
        made.append(blocks.vector("o_proj.bias", shape.hidden, layers, _KIND.BIAS))
    return made


def _mlp(fields: Fields, hidden: int, width: int, layers: tuple[int, ...]) -> list[Module]:
    norm = blocks.vector("post_attention_layernorm", hidden, layers)
    if not width:
        return [norm, _linear("linear_mlp", hidden, layers)]
    return [norm, *blocks.gated_mlp(hidden, width, layers, biased=fields.flag("mlp_bias", default=False))]


def _linear(name: str, hidden: int, layers: tuple[int, ...]) -> Module:
    return blocks.matrix(name, _KIND.MIXER, hidden, hidden, layers, Shard.ROWS)
