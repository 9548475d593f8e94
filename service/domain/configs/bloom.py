"""bloom: positions by a slope, a norm behind the embedding, LayerNorms and biases everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Place
from service.domain.configs import blocks, dense, gpt2
from service.domain.configs.base import Decoder, grouped
from service.domain.configs.fields import Fields

MODEL_TYPES = ("bloom",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 250880,
    "hidden_size": 64,
    "n_layer": 2,
    "n_head": 8,
    "seq_length": 2048,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """As many KV heads as query heads, an MLP four times the hidden size."""
    fields = fields.defaulting(DEFAULTS)
    hidden = fields.integer("hidden_size", "n_embed")
    heads = grouped(fields, query := fields.integer("n_head", "num_attention_heads"), query, None, hidden)
    tied = fields.flag("tie_word_embeddings", default=True)
    shape = Decoder(fields.layers("n_layer", "num_hidden_layers"), hidden, heads, fields.integer("vocab_size"), tied)
    behind = blocks.edge_vector("embed_tokens.norm", hidden, Place.FIRST, count=2)
    return dense.read(fields, gpt2.LAYER, shape=shape, width=4 * hidden, extra=(behind,))
