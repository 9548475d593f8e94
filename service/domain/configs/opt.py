"""opt: learnt positions from the third row on, LayerNorms and biases, and in one size a narrower embedding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind, Place
from service.domain.configs import blocks, dense
from service.domain.configs.base import CONTEXT, Decoder, architecture, decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("opt",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50272,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 2048,
    "ffn_dim": 3072,
    "tie_word_embeddings": True,
}


_OFFSET = 2
"""Rows of the position table that stand for no position."""


def read(fields: Fields) -> Architecture:
    """`word_embed_proj_dim` below the hidden size (350m) brings projections into and out of the layers."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True, multi_head=True)
    layers, hidden, word = shape.all_layers, shape.hidden, fields.integer("word_embed_proj_dim", default=shape.hidden)
    modules = [
        *blocks.embedding(shape.vocabulary, word, tied=shape.tied),
        blocks.positions(fields.integer(*CONTEXT) + _OFFSET, hidden),
        *_projections(word, hidden),
        *_norms(fields, shape),
        *dense.attention(shape, layer := _layer(fields), layers),
        *dense.mlp(hidden, fields.integer("ffn_dim"), layer, layers),
    ]
    return architecture(fields, shape, modules, blocks.caches(shape.heads, (None,) * shape.layers))


def _layer(fields: Fields) -> dense.Layer:
    biased = fields.flag("enable_bias", default=True)
    return dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=biased, gated=False)


def _projections(word: int, hidden: int) -> list[Module]:
    if word == hidden:
        return []
    return [
        Module("project_in", ModuleKind.EMBEDDING, hidden, word, place=Place.FIRST),
        Module("project_out", ModuleKind.HEAD, word, hidden, place=Place.LAST),
    ]


def _norms(fields: Fields, shape: Decoder) -> list[Module]:
    if not fields.flag("layer_norm_elementwise_affine", default=True):
        return []
    norms = [blocks.vector("layer_norms", shape.hidden, shape.all_layers, per_layer=4)]
    before = fields.flag("do_layer_norm_before", default=True)
    if before and not fields.flag("_remove_final_layer_norm", default=False):
        norms.append(blocks.final_norm(shape.hidden, 2))
    return norms
