"""chatglm (2, 3 and glm-4-9b as first published): grouped heads by a switch, and a vocabulary padded in the file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import Decoder, grouped
from service.domain.configs.fields import Fields

MODEL_TYPES = ("chatglm",)
DEFAULTS: Mapping[str, Any] = {
    "padded_vocab_size": 65024,
    "hidden_size": 4096,
    "ffn_hidden_size": 13696,
    "num_layers": 28,
    "num_attention_heads": 32,
    "kv_channels": 128,
    "seq_length": 2048,
}


def read(fields: Fields) -> Architecture:
    """Query, key and value have biases in every published file, the rest has none."""
    if fields.has("inner_hidden_size"):
        raise fields.refuse("inner_hidden_size", "No rule for the first generation, which has another layer.")
    fields = fields.defaulting(DEFAULTS)
    hidden, query = fields.integer("hidden_size"), fields.integer("num_attention_heads")
    kv = query
    if fields.flag("multi_query_attention", default=False):
        kv = fields.integer("multi_query_group_num", default=1)
    shape = Decoder(
        layers=fields.layers("num_layers", "num_hidden_layers"),
        hidden=hidden,
        heads=grouped(fields, query, kv, fields.integer("kv_channels"), hidden),
        vocabulary=fields.integer("padded_vocab_size", "vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=False),
    )
    biased = fields.flag("add_bias_linear", default=False)
    layer = dense.Layer(
        qkv_bias=biased or fields.flag("add_qkv_bias", default=True),
        out_bias=biased,
        mlp_bias=biased,
        norm_bias=not fields.flag("rmsnorm", default=True),
    )
    return dense.read(fields, layer, shape=shape, width=fields.integer("ffn_hidden_size"))
