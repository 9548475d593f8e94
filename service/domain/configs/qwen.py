"""qwen (1): biases on query, key and value; the file gives both halves of the MLP as one width."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import HIDDEN, QUERY_HEADS, Decoder, grouped
from service.domain.configs.fields import Fields

MODEL_TYPES = ("qwen",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 8192,
    "kv_channels": 128,
}


def read(fields: Fields) -> Architecture:
    """As many KV heads as query heads, `kv_channels` wide."""
    fields = fields.defaulting(DEFAULTS)
    hidden, query = fields.integer(*HIDDEN), fields.integer(*QUERY_HEADS)
    heads = grouped(fields, query, query, fields.integer("kv_channels"), hidden)
    tied = fields.flag("tie_word_embeddings", default=False)
    shape = Decoder(fields.layers(), hidden, heads, fields.integer("vocab_size"), tied)
    both = fields.integer("intermediate_size", least=2)
    biased = not fields.flag("no_bias", default=True)
    layer = dense.Layer(qkv_bias=True, out_bias=biased, mlp_bias=biased)
    return dense.read(fields, layer, shape=shape, width=both // 2)
