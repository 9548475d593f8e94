"""nemotron-nas (Nemotron Super 49B, Ultra): llama's layer cut by search; each block says what is left of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.configs import blocks
from service.domain.configs.base import HIDDEN, QUERY_HEADS, Decoder, architecture, grouped
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import LAYERS, Fields
from service.domain.units import ceil_div

MODEL_TYPES = ("nemotron-nas",)
_DEFAULTS: Mapping[str, Any] = {"max_position_embeddings": 131072}
_MULTIPLE = 256
_KIND = ModuleKind


@dataclass(frozen=True, slots=True)
class _Block:
    """KV heads of the attention and width of the MLP; None where that half does nothing, 0 where it is one matrix."""

    kv_heads: int | None
    width: int | None


def read(fields: Fields) -> Architecture:
    """A block without attention keeps nothing; the others keep their own number of KV heads."""
    fields = fields.defaulting(_DEFAULTS)
    hidden, query = fields.integer(*HIDDEN), fields.integer(*QUERY_HEADS)
    count = fields.layers(*LAYERS)
    found = _blocks(fields, count, hidden, query)
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


def _blocks(fields: Fields, count: int, hidden: int, query: int) -> list[_Block]:
    listed = fields.get("block_configs")
    if not isinstance(listed, list) or len(listed) < count:
        raise fields.refuse("block_configs", f"block_configs must list one block for each of the {count} layers.")
    made = []
    for layer, entry in enumerate(listed[:count]):
        pointer = f"{fields.pointer}/block_configs/{layer}"
        if not isinstance(entry, dict):
            raise fields.refuse(f"block_configs/{layer}", "A block must be an object.")
        block = Fields(entry, pointer)
        made.append(_Block(_kv_heads(block, query), _width(block, hidden)))
    return made


def _kv_heads(block: Fields, query: int) -> int | None:
    half = block.inner("attention")
    if half is None:
        raise block.refuse("attention", "The block has no attention.")
    if half.flag("no_op", default=False):
        return None
    if half.flag("replace_with_linear", default=False):
        return 0
    shared = half.integer("n_heads_in_group", most=query)
    if query % shared:
        raise half.refuse("n_heads_in_group", f"{query} query heads do not divide into groups of {shared}.")
    return query // shared


def _width(block: Fields, hidden: int) -> int | None:
    half = block.inner("ffn")
    if half is None:
        raise block.refuse("ffn", "The block has no ffn.")
    if half.flag("no_op", default=False):
        return None
    if half.flag("replace_with_linear", default=False):
        return 0
    if half.has("intermediate_size"):
        return half.integer("intermediate_size")
    if not half.has("ffn_mult"):
        raise half.refuse("ffn_mult", "The block has no ffn_mult.")
    width = int(2 * Fraction(half.number("ffn_mult", 0.0)) * hidden / 3)
    if width < 1:
        raise half.refuse("ffn_mult", "ffn_mult must be above 0.")
    return _MULTIPLE * ceil_div(width, _MULTIPLE)
