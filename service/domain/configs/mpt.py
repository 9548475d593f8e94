"""mpt: attention with as many KV heads as query heads, no bias anywhere, positions by a slope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import Decoder, grouped
from service.domain.configs.fields import Fields, shown

MODEL_TYPES = ("mpt",)
DEFAULTS: Mapping[str, Any] = {
    "d_model": 2048,
    "n_heads": 16,
    "n_layers": 24,
    "vocab_size": 50368,
    "max_seq_len": 2048,
    "expansion_ratio": 4,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """`attn_config` holds the kind of attention and, where heads are grouped, how many KV heads there are."""
    fields = fields.defaulting(DEFAULTS)
    hidden, query = fields.integer("d_model", "hidden_size"), fields.integer("n_heads", "num_attention_heads")
    heads = grouped(fields, query, _kv_heads(fields, query), None, hidden)
    tied = fields.flag("tie_word_embeddings", default=True)
    shape = Decoder(fields.layers("n_layers", "num_hidden_layers"), hidden, heads, fields.integer("vocab_size"), tied)
    return dense.read(fields, dense.Layer(gated=False), shape=shape, width=hidden * fields.integer("expansion_ratio"))


def _kv_heads(fields: Fields, query: int) -> int:
    attention = fields.inner("attn_config")
    kind = attention.text("attn_type") if attention else None
    if attention is None or kind in (None, "multihead_attention"):
        return attention.integer("kv_n_heads", default=query) if attention else query
    if kind == "multiquery_attention":
        return 1
    if kind == "grouped_query_attention":
        return attention.integer("kv_n_heads")
    raise attention.refuse("attn_type", f"This family has no rule for the attention {shown(kind)}.")
